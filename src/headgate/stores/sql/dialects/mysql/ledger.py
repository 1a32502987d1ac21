"""The ledger's one-trip operations on MariaDB and MySQL.

They do what the slow path would do, or nothing at all: all other cases are left to it. Each statement sees everything
committed before it, so they can decide after locking.
"""

from __future__ import annotations

from functools import lru_cache

from headgate.core.ledger.rules import ChunkRules
from headgate.stores.sql.database.dialect import OUTDATED, OWNED
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.dialects.answers import HEARD
from headgate.stores.sql.dialects.mysql.news import LISTENED
from headgate.stores.sql.fast_paths import NAME, Routine, chunk_words, routine

NOW = "cast(unix_timestamp(sysdate(6)) * 1000000 as signed)"
#: The server's configured number: servers that replicate from each other have different numbers.
EPOCH = "cast(@@server_id as char character set utf8mb4)"


#: Prevent locks on, and definitions of, the job's datasets until the transaction ends. Then whether the known
#: definition is current. After a failover it is not: the slow path then follows the server, once the transactions that
#: lock the epoch have ended.
_SHARED = f"""select straight_join count(*), sum(k.kind = 'INPUT'), min(d.id) into v_links, v_inputs, v_dataset
  from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id where k.job_id = a_job lock in share mode;
  select value = {EPOCH} into v_current from hg_meta where name = 'epoch' lock in share mode;
  if v_current then select value = a_stamp into v_current from hg_meta where name = 'definitions'; end if;"""

CLAIM_NEXT_TEXT = f"""
create procedure if not exists {NAME}(
  in a_stamp varchar(255) character set utf8mb4, in a_job int, in a_told int,
  in a_worker varchar(255) character set utf8mb4, in a_request varchar(200) character set utf8mb4, in a_lease bigint,
  in a_principal varchar(255) character set utf8mb4 collate utf8mb4_nopad_bin)
find_next: begin
  declare v_links, v_inputs, v_dataset, v_place, v_ready, v_near int;
  declare v_current boolean;
  declare v_now, v_token bigint;
  declare v_dataid varchar(255) character set utf8mb4 collate utf8mb4_nopad_bin;
  declare v_key varbinary(1300);
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  {_SHARED}
  if v_current is not true then rollback; select '{OUTDATED}'; leave find_next; end if;
  set v_now = {NOW};
  -- The claims of the dead and what was resubmitted go the careful way, and before all others. The last that ran out:
  -- to find the first, InnoDB would pass over those of claims that were reported and that it has not purged yet.
  if (select max(lease_until) from hg_chunk where job_id = a_job and lease_until > 0 and lease_until <= v_now) is null
  then
    select place, dataid, order_key into v_place, v_dataid, v_key from hg_candidate
    where job_id = a_job and missing = 0 and not_before <= v_now
    order by place, order_key limit 1 for update skip locked;
  end if;
  if v_place is null or v_place = 0 then rollback; select null; leave find_next; end if;
  -- Nothing but READY inputs may be there: each of them once, and locked.
  select coalesce(sum(c.kind = 'OUTPUT' and k.kind = 'INPUT' and c.status = {{ready}}), 0),
         coalesce(sum(not (c.kind = 'OUTPUT' and k.kind = 'INPUT' and c.status = {{ready}})
                      and not (c.kind = 'INPUT' and k.kind = 'INPUT' and c.job_id <> a_job)), 0)
  into v_ready, v_near
  from hg_job_dataset k join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = v_dataid
  where k.job_id = a_job lock in share mode;
  if v_ready <> v_inputs or v_near > 0 or exists (
    select 1 from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
    join hg_lock l on l.rkey = unhex(sha2(concat('data:', d.name, '/', v_dataid), 256)) where k.job_id = a_job
  ) then rollback; select null; leave find_next; end if;
  insert into hg_token () values ();
  set v_token = last_insert_id();
  delete from hg_token where number = v_token;
  insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes, token,
                        worker, request_id, lease, lease_until, forced, retry_after, since, started, message,
                        principal)
  select dataset_id, v_dataid, a_job, kind, v_key, {{running}}, '', 1, 0, 0, v_token,
         a_worker, a_request, a_lease, v_now + a_lease, false, null, v_now, v_now, '', a_principal
  from hg_job_dataset where job_id = a_job;
  delete from hg_candidate where job_id = a_job and dataid = v_dataid;
  insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before, state_after,
                          reason, principal)
  values (v_now, 'chunk', {{claim_event}}, v_dataid, a_job, a_told, a_worker, v_token, {{claim_source}}, {{running}},
          '', a_principal);
  commit;
  select concat(v_token, ' ', v_dataid);
end"""

#: Rows that count the failures of jobs that read the new data.
COUNTED = """from hg_job_dataset o join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
    join hg_job_dataset k on k.job_id = i.job_id
    join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = a_dataid and c.job_id = k.job_id
    where o.job_id = a_job and o.kind = 'OUTPUT'
      and (c.failures > 0 or c.crashes > 0 or c.interruptions > 0 or c.retry_after is not null)"""
SUCCEED_TEXT = f"""
create procedure if not exists {NAME}(
  in a_stamp varchar(255) character set utf8mb4, in a_job int, in a_told int,
  in a_made varchar(40) character set utf8mb4, in a_read boolean,
  in a_dataid varchar(255) character set utf8mb4, in a_token bigint,
  in a_who varchar(255) character set utf8mb4, in a_natural varbinary(1300), in a_text varbinary(1300),
  in a_principal varchar(255) character set utf8mb4 collate utf8mb4_nopad_bin)
succeed: begin
  declare v_links, v_inputs, v_dataset int;
  declare v_current boolean;
  declare v_ended int default 0;
  declare v_now bigint;
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  {_SHARED}
  if v_current is not true then rollback; select '{OUTDATED}'; leave succeed; end if;
  -- Success closes an incident: that goes the careful way.
  if exists (select 1 from hg_incident where job_id = a_job and subject = a_dataid and is_open = 1) then
    rollback; select null; leave succeed;
  end if;
  set v_now = {NOW};
  -- Row by row: an update of a join takes three times as long.
  while v_dataset is not null do
    update hg_chunk
    set status = case kind when 'OUTPUT' then {{ready}} else {{done}} end, former = '', request_id = '', lease = null,
        lease_until = null, retry_after = null, since = v_now, message = ''
    where dataset_id = v_dataset and dataid = a_dataid and job_id = a_job and token = a_token and status = {{running}}
      and {OWNED.format("a_principal")};
    set v_ended = v_ended + row_count();
    select min(dataset_id) into v_dataset from hg_job_dataset where job_id = a_job and dataset_id > v_dataset;
  end while;
  if v_ended = 0 or v_ended <> v_links then rollback; select null; leave succeed; end if;
  delete from hg_candidate where job_id = a_job and dataid = a_dataid;
  insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before, state_after,
                          reason, principal)
  values (v_now, 'chunk', {{success_event}}, a_dataid, a_job, a_told, a_who, a_token, {{running}}, a_made, '',
          a_principal);
  if a_read then
    if exists (select 1 {COUNTED}) then
      update hg_chunk t join (select c.dataset_id, c.job_id {COUNTED}) n
        on t.dataset_id = n.dataset_id and t.dataid = a_dataid and t.job_id = n.job_id
      set t.failures = 0, t.crashes = 0, t.interruptions = 0, t.retry_after = null;
    end if;
    insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
    select k.job_id, a_dataid,
           case max(case when k.position = 0 then d.dataid_order end) when 'text' then a_text else a_natural end, 1,
           sum(case when exists (
             select 1 from hg_chunk r
             where r.dataset_id = k.dataset_id and r.dataid = a_dataid and r.kind = 'OUTPUT' and r.status = {{ready}})
           then 0 else 1 << k.position end), 0
    from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
    where k.kind = 'INPUT' and k.job_id in (
      select i.job_id from hg_job_dataset o join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
      where o.job_id = a_job and o.kind = 'OUTPUT')
    group by k.job_id order by k.job_id
    on duplicate key update missing = missing & values(missing), not_before = 0;
  end if;
  commit;
  if {LISTENED} then select '{HEARD}'; end if;
end"""


@lru_cache(maxsize=64)
def claim_next(rules: ChunkRules) -> tuple[Statement, Routine]:
    """Claim the first chunk in order, if it was never claimed and nothing blocks it."""
    made = routine("hg_claim_next", CLAIM_NEXT_TEXT.format(**chunk_words(rules)))
    return Statement(
        "Claim the first chunk in order, if it was never claimed and nothing blocks it (see the routine).",
        f"call {made.name}(:stamp, :job, :told, :worker, :request_id, :lease, :principal)",
    ), made


@lru_cache(maxsize=64)
def succeed(rules: ChunkRules) -> tuple[Statement, Routine]:
    """A running claim is done: there is nothing to announce unless another process listens."""
    made = routine("hg_succeed", SUCCEED_TEXT.format(**chunk_words(rules)))
    return Statement(
        "A running claim is done; news is announced only if a process listens (see the routine).",
        f"""call {made.name}(:stamp, :job, :told, :made, :read, :dataid, :token, :who, :natural_key, :text_key,
                             :principal)""",
    ), made

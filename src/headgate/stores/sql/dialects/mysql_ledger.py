"""The ledger's one-trip operations on MariaDB and MySQL.

They do what the careful way would do, or nothing at all: whatever is not plain is left to it. Each statement sees
what others wrote up to then, so they may decide after they have taken the locks.
"""

from __future__ import annotations

from headgate.stores.sql.ledger_statements import SHAPE_COLUMNS
from headgate.stores.sql.statement import Statement

NOW = "cast(unix_timestamp(sysdate(6)) * 1000000 as signed)"

CLAIM_NEXT = Statement(
    "The first chunk in order becomes RUNNING, if it was never claimed and nobody is near it (see the routine).",
    "call hg_claim_next_1(:job, :worker, :request_id, :lease)",
)
SUCCEED = Statement(
    "A claim that runs becomes READY and DONE (see the routine).",
    "call hg_succeed_1(:job, :dataid, :token, :who, :natural_key, :text_key)",
)

CLAIM_NEXT_ROUTINE = f"""
create procedure if not exists hg_claim_next_1(
  in a_job varchar(255) character set utf8mb4, in a_worker varchar(255) character set utf8mb4,
  in a_request varchar(200) character set utf8mb4, in a_lease bigint)
find_next: begin
  declare v_job, v_inputs, v_told, v_ready, v_near int;
  declare v_one_order boolean;
  declare v_now, v_token bigint;
  declare v_dataid varchar(255) character set utf8mb4 collate utf8mb4_nopad_bin;
  declare v_key varbinary(1300);
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  select j.id, sum(k.kind = 'INPUT'), min(d.dataid_order) = max(d.dataid_order),
         coalesce(max(case when k.kind = 'OUTPUT' and k.position = 0 then d.id end),
                  max(case when k.position = 0 then d.id end))
  into v_job, v_inputs, v_one_order, v_told
  from hg_job j join hg_job_dataset k on k.job_id = j.id join hg_dataset d on d.id = k.dataset_id
  where j.name = a_job and j.paused = '' group by j.id lock in share mode;
  set v_now = {NOW};
  -- The claims of the dead and what was resubmitted go the careful way, and before all others.
  if v_one_order
     and not exists (select 1 from hg_chunk where job_id = v_job and lease_until > 0 and lease_until <= v_now)
     and not exists (select 1 from hg_candidate where job_id = v_job and missing = 0 and place = 0) then
    select dataid, order_key into v_dataid, v_key from hg_candidate
    where job_id = v_job and missing = 0 and place = 1 and not_before <= v_now
    order by order_key limit 1 for update skip locked;
  end if;
  if v_dataid is null then rollback; select null; leave find_next; end if;
  -- Nothing but READY inputs may be there: each of them once, and held still.
  select coalesce(sum(c.kind = 'OUTPUT' and k.kind = 'INPUT' and c.status = 'READY'), 0),
         coalesce(sum(not (c.kind = 'OUTPUT' and k.kind = 'INPUT' and c.status = 'READY')
                      and not (c.kind = 'INPUT' and k.kind = 'INPUT' and c.job_id <> v_job)), 0)
  into v_ready, v_near
  from hg_job_dataset k join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = v_dataid
  where k.job_id = v_job lock in share mode;
  if v_ready <> v_inputs or v_near > 0 or exists (
    select 1 from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
    join hg_lock l on l.rkey = unhex(sha2(concat('data:', d.name, '/', v_dataid), 256)) where k.job_id = v_job
  ) then rollback; select null; leave find_next; end if;
  insert into hg_token () values ();
  set v_token = last_insert_id();
  delete from hg_token where number = v_token;
  insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes, token,
                        worker, request_id, lease, lease_until, forced, retry_after, since, started, message)
  select dataset_id, v_dataid, v_job, kind, v_key, 'RUNNING', '', 1, 0, 0, v_token,
         a_worker, a_request, a_lease, v_now + a_lease, false, null, v_now, v_now, ''
  from hg_job_dataset where job_id = v_job;
  delete from hg_candidate where job_id = v_job and dataid = v_dataid;
  insert into hg_chunk_history (at, event, job_id, dataset_id, dataid, who, token, state_before, state_after, reason)
  values (v_now, 'claim', v_job, v_told, v_dataid, a_worker, v_token, 'absent', 'RUNNING', '');
  select v_dataid, v_token, json_array({SHAPE_COLUMNS})
  from hg_job j join hg_job_dataset k on k.job_id = j.id join hg_dataset d on d.id = k.dataset_id where j.id = v_job;
  commit;
end"""

#: Rows on which the failures of jobs that read what was made now are counted.
COUNTED = """from hg_job_dataset o join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
    join hg_job_dataset k on k.job_id = i.job_id
    join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = a_dataid and c.job_id = k.job_id
    where o.job_id = v_job and o.kind = 'OUTPUT' and (c.failures > 0 or c.crashes > 0 or c.retry_after is not null)"""
SUCCEED_ROUTINE = f"""
create procedure if not exists hg_succeed_1(
  in a_job varchar(255) character set utf8mb4, in a_dataid varchar(255) character set utf8mb4, in a_token bigint,
  in a_who varchar(255) character set utf8mb4, in a_natural varbinary(1300), in a_text varbinary(1300))
succeed: begin
  declare v_job, v_links, v_outputs, v_told, v_dataset int;
  declare v_ended int default 0;
  declare v_now bigint;
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  select j.id, count(*), min(d.id), sum(k.kind = 'OUTPUT'),
         coalesce(max(case when k.kind = 'OUTPUT' and k.position = 0 then d.id end),
                  max(case when k.position = 0 then d.id end))
  into v_job, v_links, v_dataset, v_outputs, v_told
  from hg_job j join hg_job_dataset k on k.job_id = j.id join hg_dataset d on d.id = k.dataset_id
  where j.name = a_job group by j.id lock in share mode;
  set v_now = {NOW};
  -- Row by row: an update of a join takes three times as long.
  while v_dataset is not null do
    update hg_chunk
    set status = case kind when 'OUTPUT' then 'READY' else 'DONE' end, former = '', request_id = '', lease = null,
        lease_until = null, retry_after = null, since = v_now, message = ''
    where dataset_id = v_dataset and dataid = a_dataid and job_id = v_job and token = a_token and status = 'RUNNING';
    set v_ended = v_ended + row_count();
    select min(dataset_id) into v_dataset from hg_job_dataset where job_id = v_job and dataset_id > v_dataset;
  end while;
  if v_job is null or v_ended <> v_links then rollback; select false; leave succeed; end if;
  delete from hg_candidate where job_id = v_job and dataid = a_dataid;
  insert into hg_chunk_history (at, event, job_id, dataset_id, dataid, who, token, state_before, state_after, reason)
  values (v_now, 'success', v_job, v_told, a_dataid, a_who, a_token, 'RUNNING',
          case when v_outputs > 0 then 'READY' else 'DONE' end, '');
  if exists (select 1 from hg_job_dataset o
             join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
             where o.job_id = v_job and o.kind = 'OUTPUT') then
    if exists (select 1 {COUNTED}) then
      update hg_chunk t join (select c.dataset_id, c.job_id {COUNTED}) n
        on t.dataset_id = n.dataset_id and t.dataid = a_dataid and t.job_id = n.job_id
      set t.failures = 0, t.crashes = 0, t.retry_after = null;
    end if;
    insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
    select k.job_id, a_dataid,
           case max(case when k.position = 0 then d.dataid_order end) when 'text' then a_text else a_natural end, 1,
           sum(case when exists (
             select 1 from hg_chunk r
             where r.dataset_id = k.dataset_id and r.dataid = a_dataid and r.kind = 'OUTPUT' and r.status = 'READY')
           then 0 else 1 << k.position end), 0
    from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id
    where k.kind = 'INPUT' and k.job_id in (
      select i.job_id from hg_job_dataset o join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
      where o.job_id = v_job and o.kind = 'OUTPUT')
    group by k.job_id order by k.job_id
    on duplicate key update missing = missing & values(missing), not_before = 0;
  end if;
  commit;
  select true;
end"""
ROUTINES = (CLAIM_NEXT_ROUTINE, SUCCEED_ROUTINE)

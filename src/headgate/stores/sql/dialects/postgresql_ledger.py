"""The ledger's one-trip operations on PostgreSQL.

They are functions, since each of a function's statements sees what others wrote up to then: so it may decide after
it has taken the locks, where a single statement would decide by what was there when it began. They do what the
careful way would do, or nothing at all: whatever is not plain is left to it.
"""

from __future__ import annotations

from headgate.stores.sql.ledger_statements import SHAPE_COLUMNS
from headgate.stores.sql.statement import Statement

#: Datasets are held still by locks of this space, which end with the transaction and are granted in turn: on the
#: rows themselves, claims that come one after the other would never let a lock on a chunk through.
DATASET_SPACE = 0x68676461
#: Locks of this space keep a job's mark.
MARK_SPACE = 0x68676D6B
#: Micro-seconds. A claim that takes longer than this to be written may be found dead later than it died.
FLOOR = 60_000_000
NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"

CLAIM_NEXT = Statement(
    "The first chunk in order becomes RUNNING, if it was never claimed and nobody is near it (see the function).",
    "select * from hg_claim_next_1(:job, :worker, :request_id, :lease)",
)
SUCCEED = Statement(
    "A claim that runs becomes READY and DONE (see the function).",
    "select hg_succeed_1(:job, :dataid, :token, :who, :natural_key, :text_key)",
)

_SHARED = f"""count(pg_advisory_xact_lock_shared({DATASET_SPACE}, k.dataset_id))
  from (select k.job_id, k.dataset_id from hg_job j join hg_job_dataset k on k.job_id = j.id
        where j.name = a_job order by k.dataset_id) k"""

CLAIM_NEXT_ROUTINE = f"""
create or replace function hg_claim_next_1(a_job text, a_worker text, a_request text, a_lease bigint)
returns table (claimed varchar, with_token bigint, shape text)
language plpgsql as $routine$
declare
  v_job int;
  v_now bigint;
  v_token bigint;
  v_links int;
  v_dataid varchar;
  v_key bytea;
  v_mark bytea;
  v_floor bigint;
  v_near boolean;
begin
  select min(k.job_id), {_SHARED} into v_job, v_links;
  v_now := {NOW};
  -- The claims of the dead and what was resubmitted go the careful way, and before all others.
  select m.order_key, m.lease_until into v_mark, v_floor from hg_mark m where m.job_id = v_job;
  select c.dataid, c.order_key into v_dataid, v_key from hg_candidate c
  where c.job_id = v_job and c.missing = 0 and c.place = 1 and c.order_key >= coalesce(v_mark, '')
    and c.not_before <= v_now
    and not exists (select from hg_job j where j.id = v_job and j.paused <> '')
    and not exists (select from hg_chunk e
                    where e.job_id = v_job and e.lease_until >= coalesce(v_floor, 0) and e.lease_until <= v_now)
    and not exists (select from hg_candidate r where r.job_id = v_job and r.missing = 0 and r.place = 0)
  order by c.order_key limit 1 for update skip locked;
  if not found then return; end if;
  -- Nothing but READY inputs may be there: each of them once, and held still.
  with held as (
    select c.kind = 'OUTPUT' and k.kind = 'INPUT' and c.status = 'READY' as ready,
           c.kind = 'INPUT' and k.kind = 'INPUT' and c.job_id <> v_job as other
    from hg_job_dataset k join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = v_dataid
    where k.job_id = v_job for share of c)
  select count(*) filter (where ready) <> (select count(*) from hg_job_dataset where job_id = v_job and kind = 'INPUT')
         or bool_or(not ready and not other)
         or (select count(distinct d.dataid_order) > 1
                    or bool_or(exists (select from hg_lock l
                                       where l.rkey = sha256(convert_to('data:' || d.name || '/' || v_dataid, 'UTF8'))))
             from hg_job_dataset k join hg_dataset d on d.id = k.dataset_id where k.job_id = v_job)
  into v_near from held;
  if v_near then return; end if;
  v_token := nextval('hg_token_number_seq');
  return query
    with run as (
      insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                            token, worker, request_id, lease, lease_until, forced, retry_after, since, started, message)
      select k.dataset_id, v_dataid, v_job, k.kind, v_key, 'RUNNING', '', 1, 0, 0,
             v_token, a_worker, a_request, a_lease, v_now + a_lease, false, null, v_now, v_now, ''
      from hg_job_dataset k where k.job_id = v_job),
    taken as (
      delete from hg_candidate where job_id = v_job and dataid = v_dataid),
    told as (
      insert into hg_chunk_history (at, event, job_id, dataset_id, dataid, who, token, state_before, state_after,
                                    reason)
      select v_now, 'claim', v_job, k.dataset_id, v_dataid, a_worker, v_token, 'absent', 'RUNNING', ''
      from hg_job_dataset k where k.job_id = v_job order by k.kind desc, k.position limit 1)
    select v_dataid, v_token, json_build_array({SHAPE_COLUMNS})::text
    from hg_job j join hg_job_dataset k on k.job_id = j.id join hg_dataset d on d.id = k.dataset_id
    where j.id = v_job;
end $routine$"""

SUCCEED_ROUTINE = f"""
create or replace function hg_succeed_1(a_job text, a_dataid text, a_token bigint, a_who text, a_natural bytea,
                                        a_text bytea)
returns boolean language plpgsql as $routine$
declare
  v_job int;
  v_now bigint;
  v_links int;
  v_running int;
  v_consumers int[];
begin
  select min(k.job_id), {_SHARED} into v_job, v_links;
  perform from hg_job_dataset k join hg_chunk c on c.dataset_id = k.dataset_id and c.dataid = a_dataid
    and c.job_id = v_job and c.kind = k.kind and c.token = a_token and c.status = 'RUNNING'
  where k.job_id = v_job for update of c;
  get diagnostics v_running = row_count;
  if v_running = 0 or v_running <> v_links then return false; end if;
  v_now := {NOW};
  with done as (
    update hg_chunk c
    set status = case c.kind when 'OUTPUT' then 'READY' else 'DONE' end, former = '', request_id = '', lease = null,
        lease_until = null, retry_after = null, since = v_now, message = ''
    from hg_job_dataset k
    where k.job_id = v_job and c.dataset_id = k.dataset_id and c.dataid = a_dataid and c.job_id = v_job
      and c.kind = k.kind),
  gone as (
    delete from hg_candidate where job_id = v_job and dataid = a_dataid)
  insert into hg_chunk_history (at, event, job_id, dataset_id, dataid, who, token, state_before, state_after, reason)
  select v_now, 'success', v_job, k.dataset_id, a_dataid, a_who, a_token, 'RUNNING',
         case k.kind when 'OUTPUT' then 'READY' else 'DONE' end, ''
  from hg_job_dataset k where k.job_id = v_job order by k.kind desc, k.position limit 1;
  select array_agg(distinct i.job_id) into v_consumers
  from hg_job_dataset o join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
  where o.job_id = v_job and o.kind = 'OUTPUT';
  if v_consumers is null then return true; end if;
  update hg_chunk c set failures = 0, crashes = 0, retry_after = null
  from hg_job_dataset k
  where k.job_id = any(v_consumers) and c.dataset_id = k.dataset_id and c.dataid = a_dataid and c.job_id = k.job_id
    and (c.failures > 0 or c.crashes > 0 or c.retry_after is not null);
  insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
  select i.job_id, a_dataid,
         (array_agg(case d.dataid_order when 'text' then a_text else a_natural end order by i.position))[1], 1,
         coalesce(sum(1::bigint << i.position) filter (where not exists (
           select from hg_chunk r
           where r.dataset_id = i.dataset_id and r.dataid = a_dataid and r.kind = 'OUTPUT' and r.status = 'READY')), 0),
         0
  from hg_job_dataset i join hg_dataset d on d.id = i.dataset_id
  where i.kind = 'INPUT' and i.job_id = any(v_consumers) group by i.job_id order by i.job_id
  on conflict (job_id, dataid) do update set missing = hg_candidate.missing & excluded.missing, not_before = 0;
  return true;
end $routine$"""
# The mark. An old snapshot (a dump) keeps the index entries of all that was claimed since, and find_next would pass
# over them each time. Who makes something claimable holds the mark together with others until the end of the
# transaction, and then lowers it if need be (the triggers on hg_candidate, see the migration); who raises it is
# alone. So what comes below the mark is never missed.
RAISE_MARK = Statement(
    "Nothing claimable comes before the first that is there now (see the function).", "select hg_raise_mark_1(:job)"
)
RAISE_MARK_ROUTINE = f"""
create or replace function hg_raise_mark_1(a_job text) returns void language plpgsql as $routine$
declare
  v_job int;
  v_now bigint := {NOW};
begin
  select id into v_job from hg_job where name = a_job;
  -- Somebody is making something claimable: another time.
  if v_job is null or not pg_try_advisory_xact_lock({MARK_SPACE}, v_job) then return; end if;
  insert into hg_mark (job_id, order_key, lease_until)
  select v_job, c.order_key,
         least((select min(r.lease_until) from hg_chunk r where r.job_id = v_job and r.lease_until > 0),
               v_now - {FLOOR})
  from hg_candidate c
  where c.job_id = v_job and c.missing = 0 and c.place = 1
    and c.order_key >= coalesce((select m.order_key from hg_mark m where m.job_id = v_job), '')
  order by c.order_key limit 1
  on conflict (job_id) do update set order_key = excluded.order_key, lease_until = excluded.lease_until;
end $routine$"""
ROUTINES = (CLAIM_NEXT_ROUTINE, SUCCEED_ROUTINE, RAISE_MARK_ROUTINE)

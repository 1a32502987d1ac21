"""The ledger's one-trip operations on PostgreSQL.

They are functions, because each of a function's statements sees everything committed before it: it can decide after
locking, while a single statement would decide by the data from before it began. They do what the slow path would do, or
nothing at all: all other cases are left to it.
"""

from __future__ import annotations

from functools import lru_cache

from headgate.core.ledger.rules import ChunkRules
from headgate.stores.sql.database.dialect import IS_CURRENT, OUTDATED, OWNED
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.dialects.answers import HEARD
from headgate.stores.sql.dialects.postgresql.news import LISTENED
from headgate.stores.sql.dialects.postgresql.session import EPOCH, NOW
from headgate.stores.sql.fast_paths import NAME, Routine, chunk_words, routine

#: Datasets are locked by advisory locks in this space, which end with the transaction and are granted in turn: with row
#: locks, a steady stream of claims would never let a lock on a chunk through.
DATASET_SPACE = 0x68676461
#: Locks in this space protect a job's mark.
MARK_SPACE = 0x68676D6B
#: Microseconds. If writing a claim takes longer than this, its death may be noticed late.
FLOOR = 60_000_000
#: After a failover nothing is found, as after a changed definition: the slow path then follows the server.
_CURRENT = IS_CURRENT.format(EPOCH)

#: A plain expression takes the lock if it is free, at a tenth of the cost of a statement; otherwise a statement waits
#: for it.
_SHARED = f"""foreach v_each in array a_datasets loop
    if not pg_try_advisory_xact_lock_shared({DATASET_SPACE}, v_each) then
      perform pg_advisory_xact_lock_shared({DATASET_SPACE}, v_each);
    end if;
  end loop;"""

# Each statement is as simple as possible: preparing a plan costs more than running it.
CLAIM_NEXT_TEXT = f"""
create or replace function {NAME}(
  a_stamp text, a_job int, a_datasets int[], a_inputs int[], a_names text[], a_told int, a_worker text, a_request text,
  a_lease bigint, a_principal text)
returns text language plpgsql as $routine$
declare
  v_each int;
  v_current boolean;
  v_mark bytea;
  v_floor bigint;
  v_now bigint;
  v_row tid;
  v_dataid varchar;
  v_key bytea;
  v_ready int;
  v_name text;
  v_resources bytea[];
  v_token bigint;
begin
  {_SHARED}
  select s.value = a_stamp, m.order_key, m.lease_until into v_current, v_mark, v_floor
  from hg_meta s left join hg_mark m on m.job_id = a_job where s.name = 'definitions' and {_CURRENT};
  if v_current is not true then return '{OUTDATED}'; end if;
  v_now := {NOW};
  -- The claims of the dead and what was resubmitted go the careful way, and before all others.
  select c.ctid, c.dataid, c.order_key into v_row, v_dataid, v_key from hg_candidate c
  where c.job_id = a_job and c.missing = 0 and c.place = 1 and c.order_key >= coalesce(v_mark, '')
    and c.not_before <= v_now
    and not exists (select from hg_chunk e
                    where e.job_id = a_job and e.lease_until >= coalesce(v_floor, 0) and e.lease_until <= v_now)
    and not exists (select from hg_candidate r where r.job_id = a_job and r.missing = 0 and r.place = 0)
  order by c.order_key limit 1 for update skip locked;
  if not found then return null; end if;
  -- Nothing but READY inputs may be there: each of them once, and locked.
  perform from hg_chunk c
  where c.dataset_id = any(a_inputs) and c.dataid = v_dataid and c.kind = 'OUTPUT' and c.status = {{ready}} for share;
  get diagnostics v_ready = row_count;
  if v_ready <> cardinality(a_inputs) then return null; end if;
  foreach v_name in array a_names loop
    v_resources := v_resources || sha256(convert_to('data:' || v_name || '/' || v_dataid, 'UTF8'));
  end loop;
  if exists (select from hg_chunk c
             where c.dataset_id = any(a_datasets) and c.dataid = v_dataid
               and not (c.dataset_id = any(a_inputs)
                        and (c.kind = 'OUTPUT' and c.status = {{ready}} or c.kind = 'INPUT' and c.job_id <> a_job)))
     or exists (select from hg_lock l where l.rkey = any(v_resources)) then return null; end if;
  v_token := nextval('hg_token_number_seq');
  insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                        token, worker, request_id, lease, lease_until, forced, retry_after, since, started, message,
                        principal)
  select k, v_dataid, a_job, case when k = any(a_inputs) then 'INPUT' else 'OUTPUT' end, v_key, {{running}}, '', 1, 0,
         0, v_token, a_worker, a_request, a_lease, v_now + a_lease, false, null, v_now, v_now, '', a_principal
  from unnest(a_datasets) k;
  delete from hg_candidate where ctid = v_row;
  insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before, state_after,
                          reason, principal)
  values (v_now, 'chunk', {{claim_event}}, v_dataid, a_job, a_told, a_worker, v_token, {{claim_source}}, {{running}},
          '', a_principal);
  return v_token || ' ' || v_dataid;
end $routine$"""

SUCCEED_TEXT = f"""
create or replace function {NAME}(
  a_stamp text, a_job int, a_datasets int[], a_told int, a_made text, a_read boolean, a_dataid text, a_token bigint,
  a_who text, a_natural bytea, a_text bytea, a_principal text)
returns text language plpgsql as $routine$
declare
  v_each int;
  v_current boolean;
  v_now bigint;
  v_ended int;
  v_consumers int[];
begin
  {_SHARED}
  select s.value = a_stamp into v_current from hg_meta s where s.name = 'definitions' and {_CURRENT};
  if v_current is not true then return '{OUTDATED}'; end if;
  -- Success closes an incident: that goes the careful way.
  if exists (select from hg_incident i where i.job_id = a_job and i.subject = a_dataid and i.is_open = 1) then
    return null;
  end if;
  v_now := {NOW};
  update hg_chunk c
  set status = case c.kind when 'OUTPUT' then {{ready}} else {{done}} end, former = '', request_id = '', lease = null,
      lease_until = null, retry_after = null, since = v_now, message = ''
  where c.dataset_id = any(a_datasets) and c.dataid = a_dataid and c.job_id = a_job and c.token = a_token
    and c.status = {{running}} and {OWNED.format("a_principal")};
  get diagnostics v_ended = row_count;
  if v_ended = 0 then return null; end if;
  -- Somebody changed one of them by hand. As two that write one row at once: what was done here is undone.
  if v_ended <> cardinality(a_datasets) then
    raise unique_violation using message = 'only some rows of the claim run';
  end if;
  delete from hg_candidate where job_id = a_job and dataid = a_dataid;
  insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before, state_after,
                          reason, principal)
  values (v_now, 'chunk', {{success_event}}, a_dataid, a_job, a_told, a_who, a_token, {{running}}, a_made, '',
          a_principal);
  if not a_read then return case when {LISTENED} then '{HEARD}' else 'done' end; end if;
  select array_agg(distinct i.job_id) into v_consumers
  from hg_job_dataset o join hg_job_dataset i on i.dataset_id = o.dataset_id and i.kind = 'INPUT'
  where o.job_id = a_job and o.kind = 'OUTPUT';
  update hg_chunk c set failures = 0, crashes = 0, interruptions = 0, retry_after = null
  from hg_job_dataset k
  where k.job_id = any(v_consumers) and c.dataset_id = k.dataset_id and c.dataid = a_dataid and c.job_id = k.job_id
    and (c.failures > 0 or c.crashes > 0 or c.interruptions > 0 or c.retry_after is not null);
  insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
  select i.job_id, a_dataid,
         (array_agg(case d.dataid_order when 'text' then a_text else a_natural end order by i.position))[1], 1,
         coalesce(sum(1::bigint << i.position) filter (where not exists (
           select from hg_chunk r
           where r.dataset_id = i.dataset_id and r.dataid = a_dataid and r.kind = 'OUTPUT'
             and r.status = {{ready}})), 0),
         0
  from hg_job_dataset i join hg_dataset d on d.id = i.dataset_id
  where i.kind = 'INPUT' and i.job_id = any(v_consumers) group by i.job_id order by i.job_id
  on conflict (job_id, dataid) do update set missing = hg_candidate.missing & excluded.missing, not_before = 0;
  return case when {LISTENED} then '{HEARD}' else 'done' end;
end $routine$"""
# The mark. An old snapshot (a dump) keeps the index entries of everything claimed since, and find_next would skip them
# each time. A transaction that makes a chunk claimable shares the mark's lock until its end, and lowers the mark if
# necessary (by the triggers on hg_candidate, see the migration); raising it needs the lock exclusively. So nothing
# below the mark is ever missed.
RAISE_MARK_ROUTINE = routine(
    "hg_raise_mark",
    f"""
create or replace function {NAME}(a_job text) returns void language plpgsql as $routine$
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
end $routine$""",
)
RAISE_MARK = Statement(
    "Record that no claimable chunk precedes the current first one (see the function).",
    f"select {RAISE_MARK_ROUTINE.name}(:job)",
)


@lru_cache(maxsize=64)
def claim_next(rules: ChunkRules) -> tuple[Statement, Routine]:
    """Claim the first chunk in order, if it was never claimed and nothing blocks it."""
    made = routine("hg_claim_next", CLAIM_NEXT_TEXT.format(**chunk_words(rules)))
    return Statement(
        "Claim the first chunk in order, if it was never claimed and nothing blocks it (see the function).",
        f"""select {made.name}(:stamp, :job, :datasets, :inputs, :names, :told, :worker, :request_id, :lease,
                               :principal)""",
    ), made


@lru_cache(maxsize=64)
def succeed(rules: ChunkRules) -> tuple[Statement, Routine]:
    """A running claim is done."""
    made = routine("hg_succeed", SUCCEED_TEXT.format(**chunk_words(rules)))
    return Statement(
        "A running claim is done (see the function).",
        f"""select {made.name}(:stamp, :job, :datasets, :told, :made, :read, :dataid, :token, :who, :natural_key,
                               :text_key, :principal)""",
    ), made

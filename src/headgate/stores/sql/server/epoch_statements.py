"""Every statement by which a store follows another server, each with its sentence. All of them change many rows at
once.
"""

from __future__ import annotations

from headgate.core.queue.model import REPAIR_EVENT
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.fast_paths import delay_after

READ_EPOCHS = Statement(
    "The store's epoch and the server's.", "select e.value, {epoch} from hg_meta e where e.name = 'epoch'"
)
HOLD_EPOCHS = Statement(
    "The same, locked until the transaction ends.",
    "select e.value, {epoch} from hg_meta e where e.name = 'epoch' {for_update}",
)
ADD_EPOCH = Statement("Record the first server.", "{insert_once} hg_meta (name, value) values ('epoch', '') {or_leave}")
SET_EPOCH = Statement("Record the current server.", "update hg_meta set value = {epoch} where name = 'epoch'")
READ_NOW = Statement("The time on the lease clock, and on the wall clock.", "select {now}, {wall}")

# ---------------------------------------------------------------- tokens and ids

READ_HIGHEST = Statement("The greatest token of a lock.", "select max(token) from hg_resource")
SKIP_NUMBERS = Statement("Raise ids by this much.", "update hg_counter set value = value + :count where name = :name")
FIRST_NUMBERS = Statement(
    "Start ids at this number.", "{insert_once} hg_counter (name, value) values (:name, :count) {or_leave}"
)

# ---------------------------------------------------------------- locks

#: Holds that end at once.  A lock with a lock-delay stays for that time, because its holder may still be working.
_ENDS = f"lease is not null and {delay_after()} = 0"
RECORD_LOCKS = Statement(
    "Record the end of every leased lock.",
    """insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason)
       select {wall}, 'lock', {expire_event}, substr(id, 6, 16), id, client, token, mode, {expire_target}, :reason
       from hg_lock where lease is not null""",
)
FREE_RESOURCES = Statement(
    "Count the holders that stay.",
    f"""update hg_resource
        set holders = (select count(*) from hg_lock l where l.rkey = hg_resource.rkey and not ({_ENDS}))
        where rkey in (select rkey from hg_lock where {_ENDS})""",
)
DROP_LOCKS = Statement("End leased locks.", f"delete from hg_lock where {_ENDS}")
CUT_LOCKS = Statement(
    "Expire leased locks with a lock-delay, which keeps their resources locked.",
    "update hg_lock set lease_until = {now} where lease is not null and lease_until > {now}",
)
RAISE_LOCKS = Statement("Give a new token to the remaining locks.", "update hg_lock set token = token + :step")
RECORD_RAISED = Statement(
    "Record the new token of every persistent lock.",
    """insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason)
       select {wall}, 'lock', {grant_event}, substr(id, 6, 16), id, client, token, mode, mode, :reason
       from hg_lock where lease is null""",
)
READ_WAITING = Statement(
    "Waiters for free resources: their channels and numbers.",
    """select t.channel, t.number from hg_resource r join hg_wait w on w.rkey = r.rkey
       join hg_ticket t on t.number = w.ticket where r.waiting > 0 and r.holders = 0 order by t.number""",
)

# ---------------------------------------------------------------- claims

#: Holds that a worker renews. A chunk that was set to RUNNING by hand has no lease, and stays.
_RUNS = "c.status = {running} and c.lease is not null and {claims_end}"
#: The rows of the first dataset of a kind, or of the other kind if the job has none.
_FIRST = """join hg_job_dataset k on k.job_id = c.job_id and k.dataset_id = c.dataset_id and k.position = 0
       and (k.kind = '{}' or not exists (select 1 from hg_job_dataset o where o.job_id = c.job_id and o.kind = '{}'))"""
RECORD_CLAIMS = Statement(
    "Record the end of every claim.",
    f"""insert into hg_history (at, noun, event, subject, job_id, dataset_id, client, token, state_before,
                                state_after, reason)
        select {{wall}}, 'chunk', {{lose_event}}, c.dataid, c.job_id, c.dataset_id, c.worker, c.token + :step,
               {{running}}, {{lose_target}}, :reason
        from hg_chunk c {_FIRST.format("OUTPUT", "OUTPUT")} where {_RUNS}""",
)
OPEN_CLAIMS = Statement(
    "List their chunks as claimable: find_next checks each one.",
    f"""{{insert_once}} hg_candidate (job_id, dataid, order_key, place, missing, not_before)
        select c.job_id, c.dataid, c.order_key, 1, 0, 0
        from hg_chunk c {_FIRST.format("INPUT", "INPUT")} where {_RUNS} {{or_leave}}""",
)
END_CLAIMS = Statement(
    "End claims; neither a failure nor a crash is counted.",
    """update hg_chunk
       set status = {lose_target}, former = '', request_id = '', lease = null, lease_until = null, retry_after = null,
           token = token + :step, since = {wall}, message = :reason
       where status = {running} and lease is not null and {claims_end}""",
)

# ---------------------------------------------------------------- the queue

RECORD_JOBS = Statement(
    "Record that ingest jobs are free again.",
    f"""insert into hg_history (at, noun, event, subject, batch_id, client, token, state_before, state_after, reason)
       select {{wall}}, 'ingest job', '{REPAIR_EVENT}', cast(id as varchar(20)), batch_id, worker, token, state,
              state, :reason
       from hg_ingest_job where lease is not null""",
)
RECORD_BATCHES = Statement(
    "Record that batches are free again.",
    f"""insert into hg_history (at, noun, event, subject, batch_id, client, token, state_before, state_after, reason)
       select {{wall}}, 'batch', '{REPAIR_EVENT}', cast(id as varchar(20)), id, worker, token, state, state, :reason
       from hg_batch where lease is not null""",
)
FREE_JOBS = Statement(
    "Free ingest jobs, in the same state.",
    """update hg_ingest_job set worker = '', lease = null, lease_until = null, token = token + :step
       where lease is not null""",
)
FREE_BATCHES = Statement(
    "Free batches, in the same state.",
    """update hg_batch set worker = '', lease = null, lease_until = null, token = token + :step
       where lease is not null""",
)

#: All statements, in this order: each change is recorded before it is made.
END_ALL = (
    RECORD_LOCKS, FREE_RESOURCES, DROP_LOCKS, CUT_LOCKS, RAISE_LOCKS, RECORD_RAISED,
    RECORD_CLAIMS, OPEN_CLAIMS, END_CLAIMS,
    RECORD_JOBS, RECORD_BATCHES, FREE_JOBS, FREE_BATCHES,
)  # fmt: skip

# ---------------------------------------------------------------- reading, and clocks

COUNT = Statement(
    "Everything that would end or get a new token.",
    """select (select count(*) from hg_lock where lease is not null),
              (select count(*) from hg_lock where lease is null),
              (select count(distinct token) from hg_chunk where status = {running} and lease is not null),
              (select count(*) from hg_batch where lease is not null)
              + (select count(*) from hg_ingest_job where lease is not null)""",
)
SHORTEN_LEASES = tuple(
    Statement(
        f"No lease in {table} runs longer from now on than it was asked for.",
        f"update {table} set lease_until = :now + lease where lease is not null and lease_until > :now + lease",
    )
    for table in ("hg_lock", "hg_chunk", "hg_batch", "hg_ingest_job")
)

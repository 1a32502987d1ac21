"""The statements that find damage to locks, chunks and counters, and those that repair it."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

# ---------------------------------------------------------------- locks

LOCKS_WITHOUT_RESOURCE = Statement(
    "Locks whose resource has no row: the next request would be granted beside them.",
    """select l.id, l.client, l.mode from hg_lock l left join hg_resource r on r.rkey = l.rkey
       where r.rkey is null order by l.id limit :limit""",
)
RESTORE_RESOURCE = Statement(
    "Restore the row of a resource whose name is lost, with its locks counted and an unused token.",
    """{insert_once} hg_resource (rkey, uri, token, holders, mode, waiting, known)
       select l.rkey, :uri, greatest_token.top, count(*), min(l.mode), 0, :known from hg_lock l,
              (select max(token) as top from (
                 select token from hg_lock where rkey = (select rkey from hg_lock where id = :id)
                 union all
                 select token from hg_history where subject = substr(:id, 6, 16) and noun = 'lock') tokens
              ) greatest_token
       where l.rkey = (select rkey from hg_lock where id = :id) group by l.rkey, greatest_token.top {or_leave}""",
)
WRONG_RESOURCES = Statement(
    "Resources whose row contradicts their locks or their queue.",
    """select r.uri, r.holders, coalesce(l.count, 0), r.waiting, coalesce(w.count, 0), r.token, coalesce(l.token, 0),
              r.mode, coalesce(l.mode, r.mode)
       from hg_resource r
       left join (select rkey, count(*) as count, max(token) as token, min(mode) as mode from hg_lock group by rkey) l
         on l.rkey = r.rkey
       left join (select p.rkey, count(*) as count from hg_wait p join hg_ticket t on t.number = p.ticket
                  group by p.rkey) w on w.rkey = r.rkey
       where r.holders <> coalesce(l.count, 0) or r.waiting <> coalesce(w.count, 0) or r.token < coalesce(l.token, 0)
          or r.mode <> coalesce(l.mode, r.mode)
       order by r.uri limit :limit""",
)
RAISE_RESOURCE = Statement(
    "Raise a resource's token to that of its locks.",
    """update hg_resource set token = (select max(l.token) from hg_lock l where l.rkey = :rkey)
       where rkey = :rkey and token < (select max(l.token) from hg_lock l where l.rkey = :rkey)""",
)
PLACES_WITHOUT_TICKET = Statement(
    "Queue positions that belong to no waiter.",
    """select w.ticket, w.mode from hg_wait w left join hg_ticket t on t.number = w.ticket
       where t.number is null order by w.ticket limit :limit""",
)
DROP_PLACES = Statement("Remove a waiter's positions.", "delete from hg_wait where ticket = :ticket")

# ---------------------------------------------------------------- leases

#: A lease ends at most its own length from now; a lock that was granted provisionally has none, and ends soon.
_AHEAD = "lease_until > {now} + coalesce(lease, :trial) + :slack"
LONG_LOCKS = Statement(
    "Locks whose lease ends later than its length allows.",
    f"select id, client, lease_until - {{now}} from hg_lock where {_AHEAD} order by id limit :limit",
)
SHORTEN_LOCK = Statement(
    "Restart a lock's lease now.",
    f"update hg_lock set lease_until = {{now}} + coalesce(lease, :trial) where id = :id and {_AHEAD}",
)
LONG_CLAIMS = Statement(
    "Claims whose lease ends later than its length allows; one that was set by hand has none.",
    f"""select j.name, c.dataid, max(c.worker), max(c.lease_until - {{now}}) from hg_chunk c
        join hg_job j on j.id = c.job_id where c.lease is not null and c.{_AHEAD}
        group by j.name, c.dataid order by 1, 2 limit :limit""",
)
SHORTEN_CLAIM = Statement(
    "Restart a claim's lease now.",
    f"""update hg_chunk set lease_until = {{now}} + lease
        where job_id = :job and dataid = :dataid and lease is not null and {_AHEAD}""",
)
LONG_ITEMS = {
    prefix: Statement(
        "Items of the queue whose lease ends later than its length allows.",
        f"select id, worker, lease_until - {{now}} from {table} where {_AHEAD} order by id limit :limit",
    )
    for prefix, table in (("bid", "hg_batch"), ("jid", "hg_ingest_job"))
}
SHORTEN_ITEM = {
    prefix: Statement(
        "Restart the lease of an item now.", f"update {table} set lease_until = {{now}} + lease where id = :id"
    )
    for prefix, table in (("bid", "hg_batch"), ("jid", "hg_ingest_job"))
}
RUNNING_WITHOUT_LEASE = Statement(
    "RUNNING chunks without a lease: the death of their worker would never be noticed.",
    """select distinct c.job_id, c.dataid, c.worker from hg_chunk c
       where c.status = {running} and c.lease_until is null order by 1, 2 limit :limit""",
)
EXPIRE_CLAIM = Statement(
    "Make a claim without a lease count as expired.",
    """update hg_chunk set lease = coalesce(lease, 0), lease_until = {now} - 1
       where job_id = :job and dataid = :dataid and status = {running} and lease_until is null""",
)

# ---------------------------------------------------------------- definitions and chunks

LOST_JOBS = Statement(
    "Undefined jobs that chunks or datasets refer to.",
    """select u.job_id, count(*) from (
         select job_id from hg_chunk where job_id <> 0 union all select job_id from hg_job_dataset) u
       left join hg_job j on j.id = u.job_id where j.id is null group by u.job_id order by 1 limit :limit""",
)
LOST_DATASETS = Statement(
    "Undefined datasets that chunks or jobs refer to.",
    """select u.dataset_id, count(*) from (
         select dataset_id from hg_chunk union all select dataset_id from hg_job_dataset) u
       left join hg_dataset d on d.id = u.dataset_id
       where d.id is null group by u.dataset_id order by 1 limit :limit""",
)
JOBS_WITHOUT_DATASETS = Statement(
    "Jobs that neither read nor make anything.",
    """select j.name from hg_job j left join hg_job_dataset k on k.job_id = j.id
       where k.job_id is null order by 1 limit :limit""",
)
LOST_OUTPUTS = Statement(
    "Data ids that a job has finished or is running, without an output row.",
    """select distinct i.dataid, i.status from hg_chunk i
       where i.job_id = :job and i.kind = 'INPUT' and i.status in ({running}, {done})
         and not exists (select 1 from hg_chunk o where o.job_id = :job and o.dataid = i.dataid and o.kind = 'OUTPUT')
       order by 1 limit :limit""",
)

# ---------------------------------------------------------------- claimable chunks

UNSEEN_CHUNKS = Statement(
    "READY inputs that a job has not processed, and that find_next does not list.",
    """select c.dataid from hg_chunk c
       where c.dataset_id = :dataset and c.kind = 'OUTPUT' and c.status = {ready}
         and not exists (select 1 from hg_candidate k
                         where k.job_id = :job and k.dataid = c.dataid and (k.missing & :bit) = 0)
         and not exists (select 1 from hg_chunk o
                         where o.dataset_id in (:linked*) and o.dataid = c.dataid and o.job_id = :job)
       order by c.dataid limit :limit""",
)
READ_CANDIDATE = Statement(
    "A chunk's entry among the claimable ones, and how long it is still deferred.",
    "select place, missing, not_before - {now} from hg_candidate where job_id = :job and dataid = :dataid",
)
ORPHAN_CANDIDATES = Statement(
    "Candidates without a chunk.",
    """select k.job_id, k.dataid from hg_candidate k
       where not exists (select 1 from hg_job_dataset d join hg_chunk c on c.dataset_id = d.dataset_id
                         where d.job_id = k.job_id and c.dataid = k.dataid)
         and not exists (select 1 from hg_job j where j.id = k.job_id and j.mapped)
       order by k.job_id, k.dataid limit :limit""",
)

# ---------------------------------------------------------------- counters

COUNTERS_BEHIND = Statement(
    "Counters of batches and ingest jobs that are behind the ids in use.",
    """select t.name, t.top, coalesce(c.value, 0) from (
         select 'bid' as name, max(id) as top from hg_batch union all
         select 'jid' as name, max(id) as top from hg_ingest_job) t
       left join hg_counter c on c.name = t.name where t.top > coalesce(c.value, 0) order by 1""",
)
SET_COUNTER = Statement(
    "Continue a counter after an id in use.", "update hg_counter set value = :value where name = :name"
)
GREATEST_TOKEN = Statement(
    "The greatest token of a claim or of an item of the queue.",
    """select coalesce(max(token), 0) from (
         select max(token) as token from hg_chunk union all select max(token) as token from hg_batch
         union all select max(token) as token from hg_ingest_job) t""",
)

# ---------------------------------------------------------------- history

#: Number of rows that are compared with the history; a whole large store would take too long.
SAMPLE = 100_000
READ_HISTORY_SINCE = Statement(
    "The time before which entries may have been removed.", "select value from hg_meta where name = 'history_since'"
)
LOCKS_WITHOUT_HISTORY = Statement(
    "Locks whose grant is missing from the history.",
    """select l.id, l.client from hg_lock l
       where not exists (select 1 from hg_history h where h.subject = substr(l.id, 6, 16) and h.lock_id = l.id)
         and l.since >= :since order by l.id limit :limit""",
)
CHUNKS_WITHOUT_HISTORY = Statement(
    "Claimed chunks without any history.",
    f"""select distinct j.name, c.dataid from (
          select job_id, dataid from hg_chunk where token > 0 and since >= :since limit {SAMPLE}) c
        join hg_job j on j.id = c.job_id
        where not exists (select 1 from hg_history h where h.subject = c.dataid and h.job_id = c.job_id)
        order by 1, 2 limit :limit""",
)
BATCHES_WITHOUT_HISTORY = Statement(
    "Batches without any history.",
    """select b.id from hg_batch b where not exists (select 1 from hg_history h where h.batch_id = b.id)
         and b.since >= :since order by b.id limit :limit""",
)
JOBS_WITHOUT_HISTORY = Statement(
    "Ingest jobs without any history.",
    """select i.id from hg_ingest_job i
       where not exists (select 1 from hg_history h
                         where h.subject = cast(i.id as varchar(20)) and h.noun = 'ingest job')
         and i.since >= :since order by i.id limit :limit""",
)
NEWEST_ENTRIES = Statement(
    "The time of the newest entry, and the time now.",
    "select max(at), {wall} from hg_history",
)

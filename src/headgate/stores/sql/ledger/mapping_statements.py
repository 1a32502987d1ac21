"""Every statement about jobs with mapped inputs, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.ledger.statements import ROW_COLUMNS

# ---------------------------------------------------------------- the read set of a claim

#: A row upstream, and its position.
_SOURCE = f"select {ROW_COLUMNS} from hg_chunk c where c.dataset_id = :dataset and c.kind = 'OUTPUT'"
_IN_ORDER = "order by c.order_key, c.dataid"
#: Parts that the chunk they were made from no longer lists are on hold, and nothing waits for them. Not `exists`:
#: PostgreSQL would read all parts for it, to look a few rows up.
_LISTED = """(c.status <> {on_hold} or coalesce(
              (select p.listed from hg_part p where p.dataset_id = c.dataset_id and p.dataid = c.dataid), true))"""
LOCK_OWN_INPUTS = Statement(
    "The job's own INPUT rows of a data id, locked.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id in (:datasets*) and c.dataid = :dataid and c.job_id = :job and c.kind = 'INPUT'
        {{for_update}}""",
)
READ_OWN_INPUTS = Statement(
    "The job's own INPUT rows of a data id.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id in (:datasets*) and c.dataid = :dataid and c.job_id = :job and c.kind = 'INPUT'""",
)
# No ORDER BY where the key leads to the rows: it has its own order.
LISTED = Statement("The OUTPUT rows of these data ids.", f"{_SOURCE} and c.dataid in (:dataids*)")
LOCK_LISTED = Statement(
    "The OUTPUT rows of these data ids, under a shared lock.",
    f"{_SOURCE} and c.dataid in (:dataids*) {{for_share}}",
)
PREFIXED = Statement(
    "The data ids of a dataset with a prefix.",
    f"""select distinct c.dataid from hg_chunk c
        where c.dataset_id = :dataset and c.dataid >= :prefix and c.dataid < :beyond and c.kind = 'OUTPUT'
          and {_LISTED}""",
)
FIRST = Statement("The first OUTPUT rows of a dataset.", f"{_SOURCE} and {_LISTED} {_IN_ORDER} limit :limit")
LOCK_FIRST = Statement(
    "The same, under a shared lock.", f"{_SOURCE} and {_LISTED} {_IN_ORDER} limit :limit {{for_share}}"
)
PRECEDING = Statement(
    "The data ids before a position, nearest first.",
    f"""select c.dataid from hg_chunk c
        where c.dataset_id = :dataset and c.kind = 'OUTPUT' and c.order_key < :order_key and {_LISTED}
        order by c.order_key desc limit :limit""",
)
FOLLOWING = Statement(
    "The data ids after a position, nearest first.",
    f"""select c.dataid from hg_chunk c
        where c.dataset_id = :dataset and c.kind = 'OUTPUT' and c.order_key > :order_key and {_LISTED}
        order by c.order_key limit :limit""",
)
IS_CLOSED = Statement(
    "Whether a data id is closed.", "select 1 from hg_closed where job_id = :job and dataid = :dataid"
)
READ_READS = Statement(
    "The read set of the newest claim on a data id.",
    """select dataset_id, source, version, newer from hg_read where job_id = :job and dataid = :dataid
       order by dataset_id, source""",
)
READ_READERS = Statement(
    "RUNNING INPUT rows of jobs that read a data id of these datasets by a mapping.",
    f"""select distinct {ROW_COLUMNS} from hg_read r
        join hg_chunk c on c.dataset_id = r.dataset_id and c.dataid = r.dataid and c.job_id = r.job_id
        where r.dataset_id in (:datasets*) and r.source = :dataid and c.kind = 'INPUT' and c.status = {{running}}""",
)
READ_RUNNING_READS = Statement(
    "The read sets of running claims of mapped jobs.",
    """select d.name, r.source, j.name, c.kind, c.token, c.worker, c.lease, c.lease_until - {now}, c.since, c.attempt,
              c.principal
       from hg_job j join hg_chunk c on c.job_id = j.id and c.lease_until > 0
       join hg_read r on r.job_id = c.job_id and r.dataid = c.dataid and r.dataset_id = c.dataset_id
       join hg_dataset d on d.id = r.dataset_id
       where j.mapped and c.kind = 'INPUT' and c.lease_until > {now}""",
)
READ_MAPPED_READERS = Statement(
    "Jobs that read these datasets by mappings.",
    """select distinct k.job_id from hg_job_dataset k join hg_job j on j.id = k.job_id
       where k.kind = 'INPUT' and k.dataset_id in (:datasets*) and j.mapped""",
)
NAME_OTHER_HOLDERS = Statement(
    "The names of jobs whose claims on other data ids act as locks on these datasets: by mappings, or by fan-out.",
    """select distinct j.name from hg_dataset d
       join hg_job_dataset k on k.dataset_id = d.id join hg_job j on j.id = k.job_id
       where d.name in (:names*) and (k.kind = 'FANOUT' or (k.kind = 'INPUT' and j.mapped))""",
)
READ_MADE_OF = Statement(
    "Data ids of a job that were made from these.",
    """select distinct dataid from hg_read
       where job_id = :job and dataset_id = :dataset and source in (:dataids*)""",
)
FIND_SUCCESS = Statement(
    "Whether this claim on a chunk was reported as a success.",
    """select 1 from hg_history
       where subject = :dataid and job_id = :job and event = :event and token = :token limit 1""",
)
DROP_READS = Statement("Remove a read set.", "delete from hg_read where job_id = :job and dataid = :dataid")
DROP_ALL_READS = Statement("The same for a whole job.", "delete from hg_read where job_id = :job")
ADD_READ = Statement(
    "Add to the read set of a claim.",
    """insert into hg_read (job_id, dataid, dataset_id, source, version, newer)
       values (:job, :dataid, :dataset, :source, :version, :newer)""",
)

# ---------------------------------------------------------------- arrivals

ADD_ARRIVAL = Statement(
    "A chunk became READY, or is no longer.",
    """insert into hg_arrival (job_id, dataset_id, dataid, ready)
       values (:job, :dataset, :dataid, :ready)""",
)
HAS_ARRIVALS = Statement("Whether anything arrived for a job.", "select 1 from hg_arrival where job_id = :job limit 1")
READ_FAILED = Statement(
    "Data ids of a job that failed.",
    """select distinct dataid from hg_chunk
       where job_id = :job and dataset_id in (:datasets*) and status = {in_error} and status not in {settled}
       limit :limit""",
)
READ_ARRIVALS = Statement(
    "The arrivals for a job, oldest first.",
    "select number, dataset_id, dataid, ready from hg_arrival where job_id = :job order by number limit :limit",
)
DROP_ARRIVALS = Statement("Remove folded arrivals.", "delete from hg_arrival where number in (:numbers*)")
DROP_ALL_ARRIVALS = Statement("Remove all arrivals.", "delete from hg_arrival where job_id = :job")
HOLD_JOB = Statement("Lock the folding of arrivals.", "select id from hg_job where id = :job {for_update}")
FOLD = Statement(
    "A data id of a job may be claimable once nothing is missing.",
    """insert into hg_candidate (job_id, dataid, order_key, place, missing, not_before)
       values (:job, :dataid, :order_key, 1, :missing, 0)
       {or_change} missing = {new_missing}, not_before = 0""",
)
CLEAR_COUNTS = Statement(
    "New data for a job: earlier failures no longer count. A redo still waits for more arrivals.",
    """update hg_chunk set failures = 0, crashes = 0, interruptions = 0,
              retry_after = case when status = {redone} then retry_after end
       where dataset_id in (:datasets*) and dataid in (:dataids*) and job_id = :job
         and (failures > 0 or crashes > 0 or interruptions > 0
              or (retry_after is not null and status <> {redone}))""",
)
READ_STATUSES = Statement(
    "The statuses of a job on these data ids.",
    """select dataid, status from hg_chunk
       where dataset_id = :dataset and dataid in (:dataids*) and job_id = :job and kind = :kind""",
)
ADD_CLOSED = Statement(
    "Close a data id.",
    "{insert_once} hg_closed (job_id, dataid, since) values (:job, :dataid, {wall}) {or_leave}",
)
DROP_CLOSED = Statement("Reopen a data id.", "delete from hg_closed where job_id = :job and dataid = :dataid")

"""Statements that find and repair faults of the queue."""

from __future__ import annotations

from headgate.core.queue.model import FOLDERS, Folder
from headgate.stores.sql.database.sql_text import Statement


def _states(folder: Folder) -> str:
    """The states whose jobs are in a folder, as a SQL list."""
    return ", ".join(f"'{state}'" for state, where in FOLDERS.items() if where is folder)


UNKNOWN_STATES = {
    prefix: Statement(
        "Items in a state that the table does not have.",
        f"select id, state from {table} where not state in (:states*) order by id limit :limit",
    )
    for prefix, table in (("bid", "hg_batch"), ("jid", "hg_ingest_job"))
}
COUNTED = Statement(
    "The counters of each batch, and the states of its jobs.",
    f"""select b.id, b.state, b.processing, b.failed, b.completed,
               coalesce(j.jobs - j.failed - j.completed, 0), coalesce(j.failed, 0), coalesce(j.completed, 0),
               b.made, coalesce(j.jobs, 0)
        from hg_batch b left join (
          select batch_id, count(*) as jobs,
                 sum(case when state in ({_states(Folder.FAILED)}) then 1 else 0 end) as failed,
                 sum(case when state in ({_states(Folder.COMPLETED)}) then 1 else 0 end) as completed
          from hg_ingest_job group by batch_id) j on j.batch_id = b.id
        order by b.id""",
)
JOBS_WITHOUT_BATCH = Statement(
    "Jobs whose batch no longer exists.",
    """select j.id, j.batch_id from hg_ingest_job j left join hg_batch b on b.id = j.batch_id
       where b.id is null order by j.id limit :limit""",
)
HAS_BATCH = Statement(
    "Whether a job's batch exists.",
    "select 1 from hg_ingest_job j join hg_batch b on b.id = j.batch_id where j.id = :id",
)
ABANDONED = Statement(
    "Batches whose creation stopped and was not continued.",
    """select id, made from hg_batch
       where state = :state and made > 0 and (lease_until is null or lease_until + :age <= {now})
         and since + :age <= {wall} order by id limit :limit""",
)
SET_COUNTS = Statement(
    "Recount the jobs of a batch.",
    """update hg_batch set processing = :processing, failed = :failed, completed = :completed, made = :made
       where id = :id""",
)

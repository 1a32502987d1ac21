"""Every statement about fan-out, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.ledger.statements import ROW_COLUMNS

READ_PARTS = Statement(
    "The parts that a job made from a data id by fan-out.",
    "select dataset_id, dataid, listed from hg_part where job_id = :job and source = :source",
)
READ_PARTS_OF = Statement(
    "The listed parts in a dataset that a job made from these data ids.",
    """select dataid from hg_part
       where job_id = :job and dataset_id = :dataset and source in (:sources*) and listed""",
)
READ_SOURCES = Statement(
    "The data ids from which these parts were made by fan-out.",
    "select dataid, source from hg_part where dataset_id = :dataset and dataid in (:dataids*)",
)
READ_MADE = Statement(
    "The OUTPUT rows of these data ids of a dataset.",
    f"""select {ROW_COLUMNS} from hg_chunk c
        where c.dataset_id = :dataset and c.dataid in (:dataids*) and c.kind = 'OUTPUT'""",
)
READ_PART_READERS = Statement(
    "RUNNING INPUT rows of jobs that read these data ids of a dataset: by the same data id, or by a mapping.",
    f"""select {ROW_COLUMNS} from hg_chunk c join hg_job j on j.id = c.job_id
        where c.dataset_id = :dataset and c.dataid in (:dataids*) and c.kind = 'INPUT' and c.status = {{running}}
          and not j.mapped
        union
        select {ROW_COLUMNS} from hg_read r
        join hg_chunk c on c.dataset_id = r.dataset_id and c.dataid = r.dataid and c.job_id = r.job_id
        where r.dataset_id = :dataset and r.source in (:dataids*) and c.kind = 'INPUT' and c.status = {{running}}""",
)
DROP_PARTS = Statement(
    "Remove the fan-out records of these.", "delete from hg_part where dataset_id = :dataset and dataid in (:dataids*)"
)
ADD_PARTS = Statement(
    "Record that these were made by fan-out.",
    """insert into hg_part (dataset_id, dataid, job_id, source, listed)
       values (:dataset, :dataid, :job, :source, :listed)""",
)
ADD_PART_ROWS = Statement(
    "Add chunks that were made by fan-out for the first time.",
    """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                             token, worker, request_id, lease, lease_until, forced, retry_after, since, started,
                             message)
       values (:dataset, :dataid, :job, 'OUTPUT', :order_key, :status, '', 0, 0, 0, :token, '', '', null, null, :forced,
               null, :at, null, :message)""",
)
CHANGE_PART_ROWS = Statement(
    "Change fan-out parts with the chunk that they were made from; while that is RUNNING they have no lease of "
    "their own.",
    """update hg_chunk set status = :status, former = :former, token = :token, worker = :worker, lease = null,
              lease_until = {now} + :lease_left, since = {wall}, message = :message
       where dataset_id = :dataset and dataid in (:dataids*) and job_id = :job and kind = 'OUTPUT'""",
)

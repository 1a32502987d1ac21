"""Statements about expectations, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

LOCK_TURN = Statement(
    "The worker with the turn, locked.",
    "select worker, token, lease_until - {now} from hg_turn where name = :name {for_update}",
)
ADD_TURN = Statement(
    "The first turn.",
    "insert into hg_turn (name, worker, token, lease_until) values (:name, :worker, 1, {now} + :lease)",
)
TAKE_TURN = Statement(
    "A worker continues, or another one takes over.",
    "update hg_turn set worker = :worker, token = :token, lease_until = {now} + :lease where name = :name",
)
END_TURN = Statement(
    "A worker gives up the turn.",
    "update hg_turn set lease_until = 0 where name = :name and worker = :worker and token = :token",
)
DROP_EXPECTATION = Statement(
    "Remove an expectation, or replace it.", "delete from hg_expectation where dataset_id = :dataset"
)
ADD_EXPECTATION = Statement(
    "Add an expectation, which the judge checks from its start.",
    """insert into hg_expectation (dataset_id, defined, position, due)
       values (:dataset, {wall}, null, {wall})""",
)
NEXT_TO_JUDGE = Statement(
    "A dataset with data ids to judge.",
    """select e.dataset_id, e.defined, e.position, d.name, d.expect, {wall}
       from hg_expectation e join hg_dataset d on d.id = e.dataset_id
       where e.due <= {wall} order by e.due, e.dataset_id limit 1""",
)
JUDGED = Statement(
    "Record that a dataset was judged up to a data id, by its current definition.",
    """update hg_expectation set position = :position, due = :due
       where dataset_id = :dataset and defined = :defined""",
)
FORGET_EXPECTATION = Statement(
    "Remove an expectation with its late chunks.",
    "delete from hg_expectation where dataset_id = :dataset and defined = :defined",
)
READ_STANDING = Statement(
    "The status of these data ids of a dataset.",
    """select dataid, status, since from hg_chunk
       where dataset_id = :dataset and dataid in (:dataids*) and kind = 'OUTPUT'""",
)
READ_STATE_AT = Statement(
    "The status of a chunk at a moment, by the history of the job that makes it; 0: it is made elsewhere.",
    """select state_after from hg_history
       where subject = :dataid and at <= :at and noun = 'chunk' and job_id = :job
         and (:job <> 0 or dataset_id = :dataset) and state_after <> ''
       order by at desc, id desc limit 1""",
)
READ_LATE_OF = Statement(
    "Those of these data ids that are late already.",
    "select dataid from hg_late where dataset_id = :dataset and dataid in (:dataids*)",
)
STILL_LATE = Statement(
    "Record that a data id is also late by the newest definition.",
    """update hg_late set defined = :defined, expected = :expected, due = :due
       where dataset_id = :dataset and dataid = :dataid""",
)
ADD_LATE = Statement(
    "Record that a data id is late.",
    """insert into hg_late (dataset_id, dataid, defined, job_id, expected, due)
       values (:dataset, :dataid, :defined, :job, :expected, :due)""",
)
READ_LATE = Statement(
    "Late chunks, in a stable order.",
    """select number, dataset_id, dataid, job_id from hg_late where number > :after order by number limit :limit""",
)
READ_OTHERS = Statement(
    "Chunks that are late by an earlier definition of a dataset.",
    """select number, dataid, job_id from hg_late where dataset_id = :dataset and defined <> :defined limit :limit""",
)
DROP_LATE = Statement("These are no longer late.", "delete from hg_late where number in (:numbers*)")
CLOSE_INCIDENT = Statement(
    "Close the incidents of late chunks.",
    """update hg_incident set is_open = null, closed = {wall}, closed_by = :event, snoozed_until = null, due = {wall}
       where job_id = :job and subject in (:subjects*) and kind = :kind and is_open = 1""",
)
LIST_LATE = Statement(
    "Late chunks, the oldest first.",
    """select l.number, d.name, l.dataset_id, l.dataid, l.expected, l.due
       from hg_late l join hg_dataset d on d.id = l.dataset_id
       where (:dataset = '' or d.name = :dataset) and (l.due > :due or l.due = :due and l.number > :number)
       order by l.due, l.number limit :limit""",
)
READ_PLACE = Statement(
    "One of them, or the last before it.",
    "select due, number from hg_late where number <= :number order by number desc limit 1",
)
READ_NEXT_PLACE = Statement(
    "The first after one of them.", "select due from hg_late where number > :number order by number limit 1"
)
COUNT_LATE = Statement(
    "Number of late chunks, by dataset.", "select dataset_id, count(*), min(due) from hg_late group by dataset_id"
)
READ_EXPECTATIONS = Statement(
    "How far every expectation was judged.",
    """select e.dataset_id, d.name, d.expect, e.position, e.due, {wall}
       from hg_expectation e join hg_dataset d on d.id = e.dataset_id order by d.name""",
)
READ_PRODUCER = Statement(
    "The job that makes a dataset.",
    """select j.id, j.name from hg_job_dataset k join hg_job j on j.id = k.job_id
       where k.dataset_id = :dataset and k.kind = 'OUTPUT'""",
)
READ_WATCHER = Statement(
    "The reported state of a dataset's watcher.",
    """select source, arrived, looked, last_dataid, waiting, problem, lease_until > {now} from hg_watcher
       where dataset_id = :dataset and worker <> ''""",
)
READ_OUTPUT = Statement(
    "The OUTPUT row of a chunk.",
    """select status, message from hg_chunk
       where dataset_id = :dataset and dataid = :dataid and kind = 'OUTPUT' limit 1""",
)

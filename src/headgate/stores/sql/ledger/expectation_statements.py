"""Statements about expectations, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

LOCK_TURN = Statement(
    "Whose turn it is, held still.",
    "select worker, token, lease_until - {now} from hg_turn where name = :name {for_update}",
)
ADD_TURN = Statement(
    "The first turn.",
    "insert into hg_turn (name, worker, token, lease_until) values (:name, :worker, 1, {now} + :lease)",
)
TAKE_TURN = Statement(
    "A worker goes on, or another one does from now on.",
    "update hg_turn set worker = :worker, token = :token, lease_until = {now} + :lease where name = :name",
)
END_TURN = Statement(
    "A worker does it no more.",
    "update hg_turn set lease_until = 0 where name = :name and worker = :worker and token = :token",
)
DROP_EXPECTATION = Statement(
    "Nothing is expected, or something else.", "delete from hg_expectation where dataset_id = :dataset"
)
ADD_EXPECTATION = Statement(
    "Something is expected; the judge looks at it from its beginning.",
    """insert into hg_expectation (dataset_id, defined, position, due)
       values (:dataset, {wall}, null, {wall})""",
)
NEXT_TO_JUDGE = Statement(
    "A dataset of which there is something to judge.",
    """select e.dataset_id, e.defined, e.position, d.name, d.expect, {wall}
       from hg_expectation e join hg_dataset d on d.id = e.dataset_id
       where e.due <= {wall} order by e.due, e.dataset_id limit 1""",
)
JUDGED = Statement(
    "A dataset was judged up to a data id, as it is defined now.",
    """update hg_expectation set position = :position, due = :due
       where dataset_id = :dataset and defined = :defined""",
)
FORGET_EXPECTATION = Statement(
    "Nothing is expected any more, and nothing is late.",
    "delete from hg_expectation where dataset_id = :dataset and defined = :defined",
)
READ_STANDING = Statement(
    "The status of these data ids of a dataset.",
    """select dataid, status, since from hg_chunk
       where dataset_id = :dataset and dataid in (:dataids*) and kind = 'OUTPUT'""",
)
READ_STATE_AT = Statement(
    "What a chunk was at a moment, by the history of the job that makes it; 0: it is made elsewhere.",
    """select state_after from hg_history
       where subject = :dataid and at <= :at and noun = 'chunk' and job_id = :job
         and (:job <> 0 or dataset_id = :dataset) and state_after <> ''
       order by at desc, id desc limit 1""",
)
READ_LATE_OF = Statement(
    "Which of these data ids are late already.",
    "select dataid from hg_late where dataset_id = :dataset and dataid in (:dataids*)",
)
STILL_LATE = Statement(
    "A data id is late by the newest definition too.",
    """update hg_late set defined = :defined, expected = :expected, due = :due
       where dataset_id = :dataset and dataid = :dataid""",
)
ADD_LATE = Statement(
    "A data id is late.",
    """insert into hg_late (dataset_id, dataid, defined, job_id, expected, due)
       values (:dataset, :dataid, :defined, :job, :expected, :due)""",
)
READ_LATE = Statement(
    "What is late, in an order that does not change.",
    """select number, dataset_id, dataid, job_id from hg_late where number > :after order by number limit :limit""",
)
READ_OTHERS = Statement(
    "What is late by an earlier definition of a dataset.",
    """select number, dataid, job_id from hg_late where dataset_id = :dataset and defined <> :defined limit :limit""",
)
DROP_LATE = Statement("These are late no longer.", "delete from hg_late where number in (:numbers*)")
CLOSE_INCIDENT = Statement(
    "The incidents of late chunks close.",
    """update hg_incident set is_open = null, closed = {wall}, closed_by = :event, snoozed_until = null, due = {wall}
       where job_id = :job and subject in (:subjects*) and kind = :kind and is_open = 1""",
)
LIST_LATE = Statement(
    "What is late, the oldest first.",
    """select l.number, d.name, l.dataset_id, l.dataid, l.expected, l.due
       from hg_late l join hg_dataset d on d.id = l.dataset_id
       where (:dataset = '' or d.name = :dataset) and (l.due > :due or l.due = :due and l.number > :number)
       order by l.due, l.number limit :limit""",
)
READ_PLACE = Statement("Where one of them stands.", "select due, number from hg_late where number = :number")
COUNT_LATE = Statement(
    "How much is late, by dataset.", "select dataset_id, count(*), min(due) from hg_late group by dataset_id"
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
    "What the watcher of a dataset has seen.",
    """select source, arrived, looked, last_dataid, waiting, problem, lease_until > {now} from hg_watcher
       where dataset_id = :dataset and worker <> ''""",
)
READ_OUTPUT = Statement(
    "The OUTPUT row of a chunk.",
    """select status, message from hg_chunk
       where dataset_id = :dataset and dataid = :dataid and kind = 'OUTPUT' limit 1""",
)

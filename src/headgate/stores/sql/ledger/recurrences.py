"""Recurring chunks: when each is due, stored apart from the claimable ones.

A DONE chunk is listed here until `recur` has passed, so that find_next never reads those that are not due. Due chunks
are moved to the list of find_next in bounded steps, the oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.ledger.model import Recurrence
from headgate.core.ledger.snapshot import Candidate
from headgate.stores.sql.database.moments import MICROSECONDS, moment, to_micro, to_seconds
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.shapes import Shape

#: Number of chunks that one find_next moves.
STEP = 1000
#: Whether a job has due chunks that were not moved yet.
IS_DUE = """exists (select 1 from hg_recurrence
                    where job_id = :job and waits = 1 and done <= {wall} - :recur)"""
HAS_DUE = Statement("Whether recurring chunks are due.", f"select {IS_DUE}")
READ_BOUND = Statement(
    "The completion time up to which one step moves chunks: all due ones, if they are fewer.",
    """select done from hg_recurrence where job_id = :job and waits = 1 and done <= {wall} - :recur
       order by done limit 1 offset :step""",
)
READ_DUE_NOW = Statement("The completion time up to which chunks are due now.", "select {wall} - :recur")
MOVE_DUE = Statement(
    "List due chunks as claimable: find_next checks each one.",
    """{insert_once} hg_candidate (job_id, dataid, order_key, place, missing, not_before)
       select job_id, dataid, order_key, 1, 0, 0 from hg_recurrence
       where job_id = :job and waits = 1 and done <= :bound order by dataid {or_leave}""",
)
NOTE_MOVED = Statement(
    "Mark them as moved.",
    "update hg_recurrence set waits = 0 where job_id = :job and waits = 1 and done <= :bound",
)
KEEP = Statement(
    "Record that a recurring chunk is done.",
    """insert into hg_recurrence (job_id, dataid, order_key, waits, done)
       values (:job, :dataid, :order_key, :waits, {wall} - :age)""",
)
DROP = Statement(
    "Chunks are no longer done.", "delete from hg_recurrence where job_id = :job and dataid in (:dataids*)"
)
DROP_ALL = Statement("A job is no longer recurring.", "delete from hg_recurrence where job_id = :job")
KEEP_ALL = Statement(
    "A job is recurring: list its finished chunks.",
    """insert into hg_recurrence (job_id, dataid, order_key, waits, done)
       select job_id, dataid, order_key, 1, since from hg_chunk
       where job_id = :job and dataset_id = :dataset and kind = 'INPUT' and status = {done}""",
)
READ_OLDEST = Statement(
    "The recurring jobs, each with the age of its oldest finished chunk.",
    """select j.name, j.recur,
              (select min(r.done) from hg_recurrence r where r.job_id = j.id and r.waits = 0),
              (select min(r.done) from hg_recurrence r where r.job_id = j.id and r.waits = 1)
       from hg_job j where j.recur > 0 order by j.name""",
)


def keep_recurrence(
    tx: Transaction, shape: Shape, dataids: Sequence[str], candidate: Candidate | None
) -> Candidate | None:
    """Note when these chunks are due. Returns their position in the list of find_next; None while they are not due."""
    tx.run(DROP, job=shape.id, dataids=list(dataids))
    if candidate is None or candidate.age is None:
        return candidate
    waits = candidate.delay > 0
    keys = [shape.order_key(each) for each in dataids]
    tx.many(KEEP, {"dataid": list(dataids), "order_key": keys}, job=shape.id, waits=int(waits),
            age=round(candidate.age * MICROSECONDS))  # fmt: skip
    return None if waits else candidate


def has_due(tx: Transaction, shape: Shape) -> bool:
    """Whether the job has due chunks that find_next does not list yet."""
    return bool(tx.one(HAS_DUE, job=shape.id, recur=to_micro(shape.job.recur))[0])


def move_due(tx: Transaction, shape: Shape) -> bool:
    """Move due chunks to the list of find_next, the oldest first. Returns whether there are more."""
    asked: dict[str, object] = {"job": shape.id, "recur": to_micro(shape.job.recur)}
    if not has_due(tx, shape):
        return False
    last = tx.one(READ_BOUND, **asked, step=STEP - 1)
    bound = (last or tx.one(READ_DUE_NOW, recur=asked["recur"]))[0]
    tx.run(MOVE_DUE, job=shape.id, bound=bound)
    tx.run(NOTE_MOVED, job=shape.id, bound=bound)
    return last is not None


def read_recurrences(tx: Transaction) -> list[Recurrence]:
    """The recurring jobs, by name, each with its oldest chunk."""
    found = []
    for name, recur, *times in tx.all(READ_OLDEST):
        oldest = min((each for each in times if each is not None), default=None)
        found.append(Recurrence(str(name), to_seconds(recur) or 0.0, None if oldest is None else moment(oldest)))
    return found


def start_over(tx: Transaction, shape: Shape) -> None:
    """Recompute from the chunks when each is due, because the job's definition has changed."""
    tx.run(DROP_ALL, job=shape.id)
    if shape.job.recur:
        tx.run(KEEP_ALL, job=shape.id, dataset=shape.ids[shape.job.inputs[0]])

"""New batches and their jobs, and the holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.core.daemons import Daemon
from headgate.core.errors import BadValue, TransitionRefused
from headgate.core.queue import Batch, Hold, NewJob, Submission, Taken, job_configuration
from headgate.core.states import BATCH, INGEST_JOB
from headgate.stores.sql import queue_statements as sql
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.moments import to_micro
from headgate.stores.sql.queue_moving import owned, read_collection_hold
from headgate.stores.sql.queue_rows import (
    BATCHES,
    JOBS,
    Noun,
    document,
    identifiers_document,
    number_of,
    read_batch,
)

SUBMIT = BATCH.find(BATCH.start, "submit")[0]
CREATE = INGEST_JOB.find(INGEST_JOB.start, "create")[0]


def submit(tx: Transaction, submission: Submission, who: str) -> Batch:
    """A new batch; or the one that was made already by this very request."""
    submit_id = submission.request_id or None
    if submit_id and (row := tx.one(sql.READ_SUBMITTED, submit_id=submit_id)):
        return read_batch(row)
    number = _numbers(tx, BATCHES, 1)
    at = _now(tx)
    tx.run(
        sql.ADD_BATCH, id=number, state=SUBMIT.target, profile=submission.profile, submitter=submission.submitter,
        payload_url=submission.payload_url, type=submission.type, mode=submission.mode,
        metadata=document(dict(submission.metadata)), submit_id=submit_id, message=SUBMIT.meaning, at=at,
    )  # fmt: skip
    tx.run(
        sql.TELL,
        **_told(
            "batch", SUBMIT.event, who, at, subject=str(number), batch=number, before=SUBMIT.source, after=SUBMIT.target
        ),
    )
    return read_batch(tx.one(BATCHES.sql.read, id=number))


def create_jobs(tx: Transaction, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
    """Those of these jobs that the batch does not have yet."""
    held = owned(tx, taken)
    batch = held.item
    assert isinstance(batch, Batch)  # noqa: S101 - its id says so
    if batch.state != SUBMIT.target:
        raise TransitionRefused(BATCH.name, batch.state, "create jobs", BATCH.allowed(batch.state))
    if position > batch.made:
        raise BadValue("position", position, f"is beyond the {batch.made} jobs of {batch.id}")
    new = jobs[batch.made - position :]
    if not new:
        return batch.made
    first, number = _numbers(tx, JOBS, len(new)), number_of(batch.id)
    columns = _job_columns(batch, first, new, work_folder)
    common = {"batch": number, "state": CREATE.target, "message": CREATE.meaning, "profile": batch.profile}
    tx.many(sql.ADD_JOB, columns, **common, at=held.at)
    told = _told(
        "ingest job", CREATE.event, batch.worker, held.at, batch=number, before=CREATE.source, after=CREATE.target
    )
    tx.many(sql.TELL, {"subject": [str(each) for each in columns["id"]]}, **told)
    tx.run(sql.COUNT_MADE, id=number, count=len(new))
    return batch.made + len(new)


def set_hold(tx: Transaction, hold: Hold) -> Hold:
    """The collection waits; the hold that stands."""
    at = _now(tx)
    if tx.count(sql.ADD_HOLD, profile=hold.profile, reason=hold.reason, who=hold.who, at=at) > 0:
        tx.run(sql.TELL, **_told("hold", "hold", hold.who, at, subject=hold.profile, after="held", reason=hold.reason))
    standing = read_collection_hold(tx, hold.profile)
    assert standing  # noqa: S101 - its row is ours, or was there
    return standing


def clear_hold(tx: Transaction, profile: str, who: str) -> bool:
    """The collection no longer waits. False: it did not."""
    standing = read_collection_hold(tx, profile)
    if standing is None or not tx.count(sql.DROP_HOLD, profile=profile):
        return False
    tx.run(sql.TELL, **_told("hold", "clear", who, _now(tx), subject=profile, before="held", reason=standing.reason))
    return True


def sign_on(tx: Transaction, daemon: Daemon) -> None:
    """The daemon lives; those that died before it signs on are forgotten."""
    said = {
        "id": daemon.id, "worker": daemon.worker, "steps": " ".join(daemon.steps), "lease": to_micro(daemon.lease),
    }  # fmt: skip
    if not tx.count(sql.RENEW_DAEMON, **said):
        tx.run(sql.DROP_DEAD_DAEMONS)
        tx.run(sql.ADD_DAEMON, **said)


def _job_columns(batch: Batch, first: int, new: Sequence[NewJob], work_folder: str) -> dict[str, list[Any]]:
    numbers = range(first, first + len(new))
    return {
        "id": list(numbers),
        "position": list(range(batch.made, batch.made + len(new))),
        "priority": [job.priority for job in new],
        "identifiers": [identifiers_document(job.identifiers) for job in new],
        "configuration": [
            document(job_configuration(batch, JOBS.id_of(number), job, work_folder))
            for number, job in zip(numbers, new, strict=True)
        ],
    }


def _numbers(tx: Transaction, noun: Noun, count: int) -> int:
    """Numbers that nobody else gets, in the order in which they become visible; the first of them."""
    if not tx.count(sql.RAISE_COUNTER, name=noun.prefix, count=count):
        tx.run(sql.ADD_COUNTER, name=noun.prefix, count=count)
    return int(tx.one(sql.READ_COUNTER, name=noun.prefix)[0]) - count + 1


def _now(tx: Transaction) -> int:
    return int(tx.one(sql.READ_WALL)[0])


def _told(noun: str, event: str, who: str, at: int, **more: Any) -> dict[str, object]:
    """What the history keeps of something new."""
    return {
        "at": at, "noun": noun, "event": event, "batch": None, "who": who, "token": 0, "before": "", "after": "",
        "reason": "", "spent": None, **more,
    }  # fmt: skip

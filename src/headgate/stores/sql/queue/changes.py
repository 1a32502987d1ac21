"""Applies decisions about the queue: each kind of change is a statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from headgate.calls.actor import log_override
from headgate.core.access.owners import Override
from headgate.core.queue.model import COUNTERS, Batch, Item, job_configuration
from headgate.core.queue.snapshot import (
    AddBatch,
    AddJobs,
    ChangeItem,
    EditItem,
    FreeItem,
    MoveReference,
    QueueOutcome,
    QueueRecord,
    QueueSnapshot,
    RemoveItem,
)
from headgate.stores.sql.database.moments import micro, to_micro
from headgate.stores.sql.database.transaction import Duplicate, Transaction
from headgate.stores.sql.queue import statements as sql
from headgate.stores.sql.queue.rows import (
    JOBS,
    Noun,
    batch_columns,
    document,
    identifiers_document,
    job_columns,
    noun_of,
    number_of,
)
from headgate.stores.sql.queue.snapshots import load

T = TypeVar("T")


def carry_out(tx: Transaction, item_id: str, unit: Callable[[QueueSnapshot], QueueOutcome[T]], event: str = "") -> T:
    """Load an item, decide, and write the changes. `event`: the event to fire, if its rows decide."""
    snapshot = load(tx, item_id, event)
    return apply(tx, unit(snapshot), snapshot.now)


def apply(tx: Transaction, outcome: QueueOutcome[T], now: datetime) -> T:
    """Write what changes. Returns the result."""
    for change in outcome.changes:
        _APPLY[type(change)](tx, change, now)
    return outcome.result


def new_numbers(tx: Transaction, noun: Noun, count: int) -> int:
    """Unused numbers, in the order in which they become visible; returns the first of them."""
    if not tx.count(sql.RAISE_COUNTER, name=noun.prefix, count=count):
        tx.run(sql.ADD_COUNTER, name=noun.prefix, count=count)
    return int(tx.one(sql.READ_COUNTER, name=noun.prefix)[0]) - count + 1


def add_entry(tx: Transaction, entry: QueueRecord, now: datetime) -> None:
    """An entry of the history."""
    number = number_of(entry.job or entry.batch) if entry.batch else None
    tx.run(sql.RECORD, subject=entry.profile if number is None else str(number), **_entry_columns(entry, now))


def remove(tx: Transaction, change: RemoveItem, _now: datetime | None = None) -> None:
    """Remove every trace of an item, or of a batch's jobs; the history stays."""
    if isinstance(change.item, Batch):
        tx.run(sql.DROP_JOBS_OF, batch=number_of(change.item.id))
    tx.run(noun_of(change.item.id).sql.drop, id=number_of(change.item.id))


def _add_batch(tx: Transaction, change: AddBatch, _now: datetime) -> None:
    batch, said = change.batch, change.batch.submission
    tx.run(
        sql.ADD_BATCH, id=number_of(batch.id), state=batch.state, profile=said.profile, submitter=said.submitter,
        payload_url=said.payload_url, type=said.type, mode=said.mode, metadata=document(dict(said.metadata)),
        submit_id=said.request_id or None, message=batch.message, at=micro(batch.since),
    )  # fmt: skip


def _add_jobs(tx: Transaction, change: AddJobs, now: datetime) -> None:
    batch, new = change.batch, change.jobs
    number, count = number_of(batch.id), len(new)
    first = new_numbers(tx, JOBS, count)
    columns: dict[str, Sequence[Any]] = {
        "id": range(first, first + count),
        "position": range(batch.made, batch.made + count),
        "priority": [job.priority for job in new],
        "identifiers": [identifiers_document(job.identifiers) for job in new],
        "configuration": [
            document(job_configuration(batch, JOBS.id_of(number), job, change.work_folder))
            for number, job in enumerate(new, first)
        ],
    }
    kept = {"batch": number, "state": change.state, "message": change.message, "profile": batch.profile}
    tx.many(sql.ADD_JOB, {name: list(values) for name, values in columns.items()}, **kept, at=micro(now))
    if change.entry:
        told = {**_entry_columns(change.entry, now), "noun": JOBS.name}
        tx.many(sql.RECORD, {"subject": [str(each) for each in columns["id"]]}, **told)
    tx.run(sql.COUNT_MADE, id=number, count=count)


def _change_item(tx: Transaction, change: ChangeItem, _now: datetime) -> None:
    if not _write(tx, change.before, change.after, drop_owner=change.frees) and change.frees:
        raise Duplicate("the item was changed at the same time")


def _edit_item(tx: Transaction, change: EditItem, _now: datetime) -> None:
    # Some databases count a row as unchanged if the new values equal the old ones.
    _write(tx, change.before, change.after, drop_owner=False)


def _write(tx: Transaction, old: Item, new: Item, *, drop_owner: bool) -> int:
    guard = {"id": number_of(old.id), "was": old.state, "token": old.token, "drop_owner": drop_owner}
    if isinstance(new, Batch):
        return tx.count(sql.CHANGE_BATCH, **guard, **batch_columns(new))
    return tx.count(sql.CHANGE_JOB, **guard, **job_columns(new))


def _free_item(tx: Transaction, change: FreeItem, _now: datetime) -> None:
    tx.run(noun_of(change.item.id).sql.free_dead, id=number_of(change.item.id), grace=0)


def _move_reference(tx: Transaction, change: MoveReference, _now: datetime) -> None:
    steps = {name: (change.after is folder) - (change.before is folder) for folder, name in COUNTERS.items()}
    tx.run(sql.COUNT_JOB, id=number_of(change.job.batch), **steps)


def _log(_tx: Transaction, change: Override, _now: datetime) -> None:
    log_override(change.what, change.owner)


def _entry_columns(entry: QueueRecord, now: datetime) -> dict[str, Any]:
    """The values of a history entry about an event, except its subject."""
    return {
        "at": micro(now), "noun": entry.noun, "event": entry.event,
        "batch": number_of(entry.batch) if entry.batch else None, "who": entry.who, "token": entry.token,
        "before": entry.before, "after": entry.after, "reason": entry.reason, "spent": to_micro(entry.spent),
        "principal": entry.principal,
    }  # fmt: skip


_APPLY: Mapping[type[Any], Callable[[Transaction, Any, datetime], None]] = {
    AddBatch: _add_batch,
    AddJobs: _add_jobs,
    ChangeItem: _change_item,
    EditItem: _edit_item,
    FreeItem: _free_item,
    RemoveItem: remove,
    MoveReference: _move_reference,
    QueueRecord: add_entry,
    Override: _log,
}

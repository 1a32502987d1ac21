"""Units of work for the queue: a snapshot and a command in, changes or an explained refusal out. No store decides.

ItemLost, NotOwner, UnknownName, TransitionRefused and QueueRefused are raised before anything changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from headgate.core.access.owners import Actor, Override
from headgate.core.access.principals import must_own
from headgate.core.errors import BadValue, ItemLost, QueueRefused, UnknownName
from headgate.core.queue.model import (
    CLEAR_EVENT,
    HELD,
    HOLD_EVENT,
    MESSAGE_LENGTH,
    PRIORITY_EVENT,
    REPAIR_EVENT,
    Batch,
    Changes,
    Hold,
    IngestJob,
    Item,
    NewJob,
    Submission,
    Taken,
    folder_of,
)
from headgate.core.queue.rules import QueueRules, choose, looks_of
from headgate.core.queue.snapshot import (
    AddBatch,
    AddJobs,
    Change,
    ChangeItem,
    EditItem,
    FreeItem,
    MoveReference,
    QueueOutcome,
    QueueRecord,
    QueueSnapshot,
    RemoveItem,
    TakeItem,
)
from headgate.core.tables.machine import Also, By, Transition
from headgate.core.values.redaction import redact

#: Phrases for states whose word does not fit into a sentence.
_DOING = {"notify": "notifying"}
_NO_CHANGES = Changes()


# ---------------------------------------------------------------- new items


def submit(
    rules: QueueRules, batch_id: str, submission: Submission, who: str, stamp: datetime, actor: Actor
) -> QueueOutcome[Batch]:
    """A new batch."""
    row = rules.submit
    batch = Batch(batch_id, row.target, submission, row.meaning, stamp)
    entry = QueueRecord(row.event, who, row.source, row.target, batch=batch_id, principal=actor.principal)
    return QueueOutcome(batch, (AddBatch(batch), *_told(row, entry)))


def create_jobs(
    snapshot: QueueSnapshot, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str
) -> QueueOutcome[int]:
    """Those of these jobs that the batch does not have yet; the first one has this position.

    The result is the number of jobs after that.
    """
    batch, overrides = owned(snapshot, taken)
    assert isinstance(batch, Batch)  # noqa: S101 - its id says so
    rules = snapshot.rules
    if batch.state != rules.submit.target:
        rules.batch.refuse(batch.state, "create jobs")
    if position > batch.made:
        raise BadValue("position", position, f"is beyond the {batch.made} jobs of {batch.id}")
    new = jobs[batch.made - position :]
    if not new:
        return QueueOutcome(batch.made, overrides)
    row = rules.create
    entry = QueueRecord(
        row.event, batch.worker, row.source, row.target, batch=batch.id, principal=snapshot.actor.principal
    )
    told = next(iter(_told(row, entry)), None)
    return QueueOutcome(
        batch.made + len(new), (*overrides, AddJobs(batch, new, work_folder, row.target, row.meaning, told))
    )


# ---------------------------------------------------------------- consumers


def take(snapshot: QueueSnapshot, state: str, worker: str, lease: float, token: int) -> QueueOutcome[Item | None]:
    """The item, taken by a consumer; None: another consumer has it, it is in another state, or that state has no
    consumers.
    """
    item = snapshot.item
    if item is None or snapshot.taken or item.state != state or not _may_be_taken(snapshot, item):
        return QueueOutcome(None)
    taken = replace(item, worker=worker, token=token, lease=lease, principal=snapshot.actor.principal)
    return QueueOutcome(taken, (TakeItem(item, taken),))


def _may_be_taken(snapshot: QueueSnapshot, item: Item) -> bool:
    return snapshot.rules.may_be_taken(snapshot.rules.machine(item.id), item.state)


def give_back(snapshot: QueueSnapshot, taken: Taken, message: str) -> QueueOutcome[Item]:
    """Free the item in its state; a non-empty message is kept. A repeat changes nothing."""
    item = snapshot.item
    if snapshot.again and item and item.state == taken.state and _has_changed_since(snapshot, taken):
        return QueueOutcome(item)
    item, overrides = owned(snapshot, taken)
    freed = _freed(item, token=item.token + snapshot.token_step, message=message[:MESSAGE_LENGTH] or item.message)
    return QueueOutcome(freed, (*overrides, ChangeItem(item, freed, frees=True)))


def change(snapshot: QueueSnapshot, taken: Taken, changes: Changes) -> QueueOutcome[Item]:
    """Its consumer updates its values, and keeps it."""
    item, overrides = owned(snapshot, taken)
    changed = _changed(changes, item, snapshot.now)
    return QueueOutcome(changed, (*overrides, EditItem(item, changed, by_owner=True)) if changed != item else overrides)


def fire(snapshot: QueueSnapshot, taken: Taken, event: str, message: str, changes: Changes) -> QueueOutcome[Item]:
    """Fire an event of a consumer, as its row says. Repeating it changes nothing."""
    rows = snapshot.rules.rows_for(taken.id, taken.state, event, By.OWNER)
    item = snapshot.item
    if item and item.state in {row.target for row in rows} and _has_changed_since(snapshot, taken):
        return QueueOutcome(item)
    item, overrides = owned(snapshot, taken)
    row = choose(rows, snapshot)
    return _transition(snapshot, item, row, message, item.worker, changes, overrides)


def owned(snapshot: QueueSnapshot, taken: Taken) -> tuple[Item, tuple[Override, ...]]:
    """The item, if this consumer has taken it; otherwise ItemLost, or NotOwner. An override is to be logged."""
    item = snapshot.item
    is_taken = item is not None and snapshot.taken and item.token == taken.token
    # An older token is lost in any case.
    mine = item is not None and is_taken and not snapshot.lost
    overrides = must_own(snapshot.actor, item.id, item.principal) if item is not None and mine else ()
    if item is None or not mine or item.state != taken.state:
        raise ItemLost(taken.id, taken.token, snapshot.lost or _why_lost(snapshot, taken))
    return item, overrides


def _why_lost(snapshot: QueueSnapshot, taken: Taken) -> str:
    item = snapshot.item
    if item is None:
        return "it no longer exists"
    if item.state != taken.state:
        return f"it is {item.state}, not {taken.state}"
    if snapshot.taken:
        return f"{item.worker} has taken it"
    return "it was released, or its lease expired"


def _has_changed_since(snapshot: QueueSnapshot, taken: Taken) -> bool:
    """Whether the last event of the item was a report with this token."""
    item = snapshot.item
    return item is not None and not snapshot.taken and item.token == taken.token + snapshot.token_step


# ---------------------------------------------------------------- operators and daemons


def act(snapshot: QueueSnapshot, item_id: str, event: str, by: By, reason: str, who: str) -> QueueOutcome[Item]:
    """An operator's or a daemon's event, as the table's row says. The result is the item after the event, or before its
    removal.
    """
    item = _found(snapshot, item_id)
    rows = snapshot.rules.rows_for(item_id, item.state, event, by)
    if snapshot.taken and not all(row.also.has(Also.DROP_OWNER) for row in rows):
        raise QueueRefused(item_id, event, f"{item.worker} is processing it")
    return _transition(snapshot, item, choose(rows, snapshot), reason, who)


def set_priority(snapshot: QueueSnapshot, job_id: str, priority: int, reason: str, who: str) -> QueueOutcome[IngestJob]:
    """A new priority for a job that is still in the queue, taken or not."""
    job = _found(snapshot, job_id)
    if not isinstance(job, IngestJob):
        raise UnknownName(snapshot.rules.job.name, job_id)
    if snapshot.rules.has_left(job):
        raise QueueRefused(job.id, PRIORITY_EVENT, f"it is {job.state}, and no longer in the queue")
    if job.priority == priority:
        return QueueOutcome(job)
    new = replace(job, priority=priority)
    why = f"priority {job.priority} to {priority}" + (f": {reason}" if reason else "")
    entry = _entry(snapshot, job, PRIORITY_EVENT, job.state, who, why)
    return QueueOutcome(new, (EditItem(job, new, by_owner=False), entry))


def record_hold(hold: Hold, actor: Actor) -> QueueRecord:
    """The history's text for a new hold."""
    return QueueRecord(HOLD_EVENT, hold.who, "", HELD, hold.reason, profile=hold.profile, principal=actor.principal)


def record_clearing(hold: Hold, who: str, actor: Actor) -> QueueRecord:
    """The history's text for the end of a hold."""
    return QueueRecord(CLEAR_EVENT, who, HELD, "", hold.reason, profile=hold.profile, principal=actor.principal)


# ---------------------------------------------------------------- crashes and repairs


def reap(snapshot: QueueSnapshot) -> QueueOutcome[Item | None]:
    """An item whose consumer died: freed in the same state, or held, as the table says. None: its consumer is alive.

    If the table has no row, it is freed, and nothing is counted.
    """
    item = snapshot.item
    if item is None or snapshot.dead is None:
        return QueueOutcome(None)
    row, worker = snapshot.rules.reap_row(snapshot), snapshot.dead or "a consumer"
    if row is None:
        return QueueOutcome(item, (FreeItem(item),))
    # The process that finds it is not the one that did it.
    return _transition(replace(snapshot, actor=Actor()), item, row, _crash_message(row, item, worker), worker)


def record_repair(snapshot: QueueSnapshot, after: Item, what: str, who: str) -> QueueRecord:
    """The history's text for a repair."""
    item = _found(snapshot, after.id)
    return _entry(snapshot, item, REPAIR_EVENT, after.state, who, snapshot.actor.reason(what), spent=True)


def _crash_message(row: Transition, item: Item, worker: str) -> str:
    crashes, step = item.crashes + 1, _DOING.get(item.state, item.state)
    times = "once" if crashes == 1 else f"{crashes} times"
    if row.target == row.source:
        return f"its worker crashed {times} while {step}: {worker}"
    return (
        f"its worker crashed {times} while {step}; check its payload and the log of {worker}, then release or delete it"
    )


# ---------------------------------------------------------------- rows


def status_message(row: Transition, message: str) -> str:
    """The message of a status: the given reason, or the row's meaning."""
    return redact(message)[:MESSAGE_LENGTH] or row.meaning


def _transition(
    snapshot: QueueSnapshot, item: Item, row: Transition, message: str, who: str, changes: Changes = _NO_CHANGES,
    overrides: tuple[Override, ...] = (),
) -> QueueOutcome[Item]:  # fmt: skip
    """All effects of a row."""
    removed = snapshot.rules.removes(item.id, row)
    made: list[Change] = [*overrides]
    if removed:
        after = item
        made.append(RemoveItem(item, row.target))
    else:
        frees = row.also.has(Also.DROP_OWNER) or not snapshot.taken
        after = _changed(changes, _moved(snapshot, row, item, message, frees=frees), snapshot.stamp)
        forces, queued = row.also.has(Also.DROP_OBJECT_LOCKS), not row.also.has(Also.DROP_ENTRY)
        made.append(ChangeItem(item, after, frees, queued=queued, forces=forces))
    if isinstance(item, IngestJob):
        before, there = folder_of(row.source), None if removed else folder_of(row.target)
        if before is not there:
            made.append(MoveReference(item, before, there))
    entry = _entry(snapshot, item, row.event, row.target, who, snapshot.actor.reason(message), spent=True)
    return QueueOutcome(after, (*made, *_told(row, entry)), looks_of(row.needs))


def _moved(snapshot: QueueSnapshot, row: Transition, item: Item, message: str, *, frees: bool) -> Item:
    """The item after a row of its table, on its own."""
    crashed = row.also.has(Also.COUNT_CRASH)
    moved = replace(
        item,
        state=row.target,
        message=status_message(row, message),
        since=item.since if row.target == row.source else snapshot.stamp,
        token=item.token + snapshot.token_step,
        crashes=item.crashes + 1 if crashed else 0,
        former=row.source if crashed and row.target != row.source else "",
    )
    if isinstance(moved, IngestJob):
        moved = replace(
            moved,
            last_successful=row.source if row.also.has(Also.MARK_STEP) else moved.last_successful,
            retry_count=moved.retry_count + row.also.has(Also.COUNT_RETRY),
        )
    return _freed(moved) if frees else moved


def _freed(item: Item, **more: Any) -> Item:
    return replace(item, worker="", lease=None, principal="", **more)


def _changed(changes: Changes, item: Item, at: datetime) -> Item:
    """The item with the values that its consumer updates."""
    if isinstance(item, Batch):
        report = changes.report
        return item if report is None else replace(item, report=replace(report, at=report.at or at))
    if changes == _NO_CHANGES:
        return item
    return replace(
        item,
        priority=item.priority if changes.priority is None else changes.priority,
        space_needed=item.space_needed if changes.space_needed is None else changes.space_needed,
        identifiers=changes.identifiers or item.identifiers,
        configuration={**item.configuration, **(changes.configuration or {})},
    )


def _entry(
    snapshot: QueueSnapshot, item: Item, event: str, after: str, who: str, reason: str, *, spent: bool = False
) -> QueueRecord:
    batch, job = (item.batch, item.id) if isinstance(item, IngestJob) else (item.id, "")
    seconds = max((snapshot.now - item.since).total_seconds(), 0.0) if spent else None
    return QueueRecord(
        event, who, item.state, after, reason[:MESSAGE_LENGTH], batch, job, token=item.token, spent=seconds,
        principal=snapshot.actor.principal,
    )  # fmt: skip


def _told(row: Transition, entry: QueueRecord) -> tuple[QueueRecord, ...]:
    return (entry,) if row.also.has(Also.RECORD_HISTORY) else ()


def _found(snapshot: QueueSnapshot, item_id: str) -> Item:
    if snapshot.item is None:
        raise UnknownName(snapshot.rules.machine(item_id).name, item_id)
    return snapshot.item

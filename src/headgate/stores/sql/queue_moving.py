"""Moving batches and ingest jobs: held still, decided by the table, written with all that changes beside.

A job's row is always held before its batch's, so that two moves never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.calls.actor import actor, must_own
from headgate.core.errors import ItemLost, QueueRefused, UnknownName
from headgate.core.machine import Also, By, Transition
from headgate.core.queue import (
    MESSAGE_LENGTH,
    Batch,
    Changes,
    Counts,
    Facts,
    Folder,
    Hold,
    IngestJob,
    Item,
    Taken,
    changed_by,
    choose,
    folder_of,
    moved_by,
    refuse_others,
)
from headgate.stores.sql import queue_statements as sql
from headgate.stores.sql.engine import Duplicate, Transaction
from headgate.stores.sql.moments import micro, moment
from headgate.stores.sql.queue_rows import (
    BATCHES,
    JOBS,
    Noun,
    batch_columns,
    dead_worker,
    job_columns,
    noun_of,
    number_of,
    read_hold,
)
from headgate.stores.sql.statement import Row

#: The counter of a batch that each folder is counted in.
COUNTERS = {Folder.PROCESSING: "processing", Folder.FAILED: "failed", Folder.COMPLETED: "completed"}


@dataclass(frozen=True, slots=True)
class Held:
    """An item whose row is held still, and what time it is."""

    item: Item
    at: int
    #: Who took it and died; None: nobody did.
    dead: str | None = None


def hold_still(tx: Transaction, item_id: str) -> Held | None:
    """The item, which nobody else changes until this is done."""
    noun = noun_of(item_id)
    row = tx.one(noun.sql.lock, id=number_of(item_id))
    return None if row is None else Held(noun.read(row[:-1]), int(row[-1]), dead_worker(row[:-1]))


def owned(tx: Transaction, taken: Taken) -> Held:
    """The item, if it is this owner's; otherwise ItemLost."""
    held = hold_still(tx, taken.id)
    if held is not None:
        check_owner(held.item, taken)
    if held is None or not is_owner(held.item, taken):
        raise lost(taken, None if held is None else held.item)
    return held


def check_owner(item: Item, taken: Taken) -> None:
    """NotOwner when another principal has taken it by this token. An older one is lost, whoever has the item now."""
    if item.lease is not None and item.token == taken.token:
        must_own(item.id, item.principal)


def is_owner(item: Item, taken: Taken) -> bool:
    """Whether it is taken, alive, by that token and in that state."""
    return item.lease is not None and (item.token, item.state) == (taken.token, taken.state)


def lost(taken: Taken, item: Item | None) -> ItemLost:
    """Why it is not the caller's."""
    if item is None:
        why = "it no longer exists"
    elif item.token != taken.token:
        whose = f"{item.worker} has taken it" if item.lease is not None else "another consumer has taken it since"
        why = f"{whose}; it is {item.state}"
    elif item.state != taken.state:
        why = f"it is {item.state}, not {taken.state}"
    else:
        why = "it was released, or its lease expired"
    return ItemLost(taken.id, taken.token, why)


def fire(tx: Transaction, taken: Taken, event: str, message: str, changes: Changes) -> Item:
    """An owner's event. The same again, when its answer was lost, finds the item where the event led."""
    machine = noun_of(taken.id).machine
    refuse_others(machine, taken.state, event, By.OWNER)
    held = hold_still(tx, taken.id)
    if held is None:
        raise lost(taken, None)
    item = held.item
    check_owner(item, taken)
    if not is_owner(item, taken):
        targets = {row.target for row in machine.find(taken.state, event)}
        if item.token == taken.token and item.state in targets and item.lease is None:
            return item
        raise lost(taken, item)
    row = choose(machine, item.id, item.state, event, facts_of(tx, item, event))
    return move(tx, held, row, message, item.worker, changes)


def act(tx: Transaction, item_id: str, event: str, by: By, reason: str, who: str, seen: list[Item]) -> Item:
    """A person's or a daemon's event. `seen`: the item as an earlier try of the same act found it."""
    noun = noun_of(item_id)
    taken_job = _taken_job(tx, noun, item_id, event)
    held = hold_still(tx, item_id)
    if tx.again and (done := _done_already(tx, noun, held, item_id, event, reason, who, seen)):
        return done
    if held is None:
        raise UnknownName(noun.machine.name, item_id)
    item = held.item
    seen.append(item)
    refuse_others(noun.machine, item.state, event, by)
    if item.lease is not None:
        raise QueueRefused(item.id, event, f"{item.worker} is processing it")
    facts = replace(facts_of(tx, item, event), taken_job=taken_job)
    return move(tx, held, choose(noun.machine, item.id, item.state, event, facts), reason, who, Changes())


def facts_of(tx: Transaction, item: Item, event: str) -> Facts:
    """What the conditions of the event's rows look at, and no more."""
    hold = read_collection_hold(tx, item.profile) if event == "release" else None
    if isinstance(item, Batch):
        return Facts(hold=hold, jobs=item.jobs, made=item.made, former=item.former)
    state = tx.one(sql.LOCK_BATCH_STATE, id=number_of(item.batch)) if event == "resume" else None
    return Facts(item.last_successful, "" if state is None else str(state[0]), hold, former=item.former)


def read_collection_hold(tx: Transaction, profile: str) -> Hold | None:
    """The hold of a collection, if there is one."""
    row = tx.one(sql.READ_HOLD, profile=profile)
    return None if row is None else read_hold(row)


def move(tx: Transaction, held: Held, row: Transition, message: str, who: str, changes: Changes) -> Item:
    """Everything that a row of the table says, at once."""
    item = held.item
    moved = changed_by(changes, moved_by(row, item, message, moment(held.at)), moment(held.at))
    if Also.DROP_ALL in row.also:
        drop(tx, item)
    else:
        put(tx, item, moved, drop_owner=True)
    if isinstance(item, IngestJob):
        after = None if Also.DROP_ALL in row.also else folder_of(row.target)
        count(tx, item.batch, folder_of(row.source), after)
    tell(tx, held, row.event, who, row.target, message)
    return item if Also.DROP_ALL in row.also else moved


def put(tx: Transaction, old: Item, new: Item, *, drop_owner: bool) -> None:
    """Write an item as it shall be."""
    guard = {"id": number_of(old.id), "was": old.state, "token": old.token, "drop_owner": drop_owner}
    if isinstance(new, Batch):
        written = tx.count(sql.CHANGE_BATCH, **guard, **batch_columns(new))
    else:
        written = tx.count(sql.CHANGE_JOB, **guard, **job_columns(new))
    # What is the same as before counts as not written on some databases.
    if not written and drop_owner:
        raise Duplicate("the item was changed at the same time")


def drop(tx: Transaction, item: Item) -> None:
    """No trace of an item, or of a batch's jobs; the history stays."""
    if isinstance(item, Batch):
        tx.run(sql.DROP_JOBS_OF, batch=number_of(item.id))
    tx.run(noun_of(item.id).sql.drop, id=number_of(item.id))


def count(tx: Transaction, batch: str, before: Folder | None, after: Folder | None) -> None:
    """A job's reference moves from one folder of its batch to another."""
    if before is after:
        return
    steps = {name: (after is folder) - (before is folder) for folder, name in COUNTERS.items()}
    tx.run(sql.COUNT_JOB, id=number_of(batch), **steps)


def tell(tx: Transaction, held: Held, event: str, who: str, after: str, reason: str) -> None:
    """Into the history, with the change that it tells of."""
    item = held.item
    tx.run(sql.TELL, **told_columns(item, event, who, item.state, after, actor().reason(reason)), at=held.at,
           spent=held.at - micro(item.since))  # fmt: skip


def told_columns(item: Item, event: str, who: str, before: str, after: str, reason: str) -> dict[str, Any]:
    """What the history keeps of an event, but for the time."""
    noun, batch = (JOBS, item.batch) if isinstance(item, IngestJob) else (BATCHES, item.id)
    return {
        "event": event, "noun": noun.machine.name, "subject": str(number_of(item.id)), "batch": number_of(batch),
        "who": who, "token": item.token, "before": before, "after": after, "reason": reason[:MESSAGE_LENGTH],
    }  # fmt: skip


def jobs_held_still(tx: Transaction, batch: str) -> Sequence[Row]:
    """The jobs of a batch that nobody else changes until this is done: number, state, and whether it is taken."""
    return tx.all(sql.LOCK_JOBS_OF, batch=number_of(batch))


def count_folders(states: Sequence[str]) -> Counts:
    """What a batch's counters must be, by the states of its jobs."""
    folders = [folder_of(state) for state in states]
    return Counts(*(folders.count(folder) for folder in COUNTERS))


def _taken_job(tx: Transaction, noun: Noun, item_id: str, event: str) -> str:
    """A job that somebody has, of a batch that shall go with its jobs. They are held still before the batch is."""
    if noun is not BATCHES or not any(row.event == event and Also.DROP_ALL in row.also for row in noun.machine.rows):
        return ""
    taken = (number for number, _, alive in jobs_held_still(tx, item_id) if alive)
    number = next(taken, None)
    return "" if number is None else JOBS.id_of(int(number))


def _done_already(
    tx: Transaction, noun: Noun, held: Held | None, item_id: str, event: str, reason: str, who: str, seen: list[Item]
) -> Item | None:
    """What an earlier try of the same act did before it was cut off."""
    told = tx.one(sql.READ_LAST_TOLD, noun=noun.machine.name, subject=str(number_of(item_id)))
    if told is None or tuple(told[:3]) != (event, who, reason[:MESSAGE_LENGTH]) or not seen:
        return None
    if held is None:
        return seen[-1]
    return held.item if held.item.state == told[3] and held.item.since != seen[-1].since else None

"""Taking items, keeping them, giving them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headgate.calls.actor import actor
from headgate.core.errors import QueueRefused, UnknownName
from headgate.core.ledger import Asker
from headgate.core.machine import Also
from headgate.core.queue import Changes, IngestJob, Item, Place, Taken, changed_by
from headgate.core.states import INGEST_JOB
from headgate.stores.sql import queue_statements as sql
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.moments import moment, to_micro
from headgate.stores.sql.queue_moving import check_owner, hold_still, lost, owned, put, told_columns
from headgate.stores.sql.queue_reaping import reap_dead
from headgate.stores.sql.queue_rows import JOBS, Noun, dead_worker, noun_of, number_of

#: States of a job that has left the queue.
LEFT = {row.target for row in INGEST_JOB.rows if row.also & (Also.DROP_ENTRY | Also.DROP_ALL)}


def take(tx: Transaction, noun: Noun, state: str, asker: Asker, after: Place | None, max_crashes: int) -> Item | None:
    """The first that nobody has; or what this very request took already, when its answer may have been lost.

    What a dead owner had is reaped first, and passed over when it is held for that.
    """
    if tx.again and (row := tx.one(noun.sql.find_repeated, state=state, request_id=asker.request_id)):
        return noun.read(row)
    find = noun.sql.find_behind if after else noun.sql.find_free
    while row := tx.one(find, state=state, **place_columns(noun, after)):
        item: Item = noun.read(row)
        if dead_worker(row) is not None:
            item = reap_dead(tx, noun, int(row[0]), max_crashes) or item
        if item.state == state:
            token, who = tx.next_token(), actor().principal
            tx.run(noun.sql.take, id=row[0], token=token, **taking_columns(asker))
            return replace(item, worker=asker.worker, token=token, lease=asker.lease, principal=who)
    return None


def place_columns(noun: Noun, after: Place | None) -> dict[str, object]:
    """Where to look on; batches have no priority."""
    if after is None:
        return {}
    place: dict[str, object] = {"after": number_of(after.id)}
    return {**place, "priority": after.priority} if noun is JOBS else place


def taking_columns(asker: Asker) -> dict[str, Any]:
    """What is kept of whoever takes an item."""
    return {"worker": asker.worker, "request_id": asker.request_id, "lease": to_micro(asker.lease)}


def renew(tx: Transaction, taken: Taken, lease: float) -> float:
    """The owner lives."""
    if not tx.count(noun_of(taken.id).sql.renew, **_guard(taken), lease=to_micro(lease)):
        raise _lost(tx, taken)
    return lease


def give_back(tx: Transaction, taken: Taken, message: str) -> None:
    """The owner lets go of it. The same again, when its answer was lost, finds it given back."""
    if tx.count(noun_of(taken.id).sql.give_back, **_guard(taken), message=message):
        return
    held = hold_still(tx, taken.id) if tx.again else None
    given = held and (held.item.token, held.item.state, held.item.lease) == (taken.token, taken.state, None)
    if not given:
        raise _lost(tx, taken)


def change(tx: Transaction, taken: Taken, changes: Changes) -> Item:
    """The owner writes something down, and keeps it."""
    held = owned(tx, taken)
    new = changed_by(changes, held.item, moment(held.at))
    put(tx, held.item, new, drop_owner=False)
    return new


def set_priority(tx: Transaction, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
    """Another place in the order, for a job that is still in it."""
    held = hold_still(tx, job_id)
    if held is None or not isinstance(held.item, IngestJob):
        raise UnknownName(INGEST_JOB.name, job_id)
    job = held.item
    if job.state in LEFT:
        raise QueueRefused(job.id, "set-priority", f"it is {job.state}, and no longer in the queue")
    if job.priority == priority:
        return job
    tx.run(sql.SET_PRIORITY, id=number_of(job.id), priority=priority)
    why = f"priority {job.priority} to {priority}" + (f": {reason}" if reason else "")
    tx.run(sql.TELL, **told_columns(job, "set-priority", who, job.state, job.state, why), at=held.at, spent=None)
    return replace(job, priority=priority)


def _guard(taken: Taken) -> dict[str, Any]:
    principal = actor().compared
    return {"id": number_of(taken.id), "state": taken.state, "token": taken.token, "principal": principal}


def _lost(tx: Transaction, taken: Taken) -> Exception:
    held = hold_still(tx, taken.id)
    if held is not None:
        check_owner(held.item, taken)
    return lost(taken, None if held is None else held.item)

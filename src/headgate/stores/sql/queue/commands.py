"""Commands of the queue within a transaction: the core decides, and its decision is applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headgate.calls.actor import actor
from headgate.core.daemons import Daemon
from headgate.core.errors import ItemLost
from headgate.core.ledger.model import Asker
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import MESSAGE_LENGTH, Batch, Hold, Item, NewJob, Place, Submission, Taken
from headgate.core.tables.machine import By
from headgate.stores.sql.database.moments import moment, to_micro
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.queue import statements as sql
from headgate.stores.sql.queue.changes import add_entry, apply, carry_out, new_numbers
from headgate.stores.sql.queue.rows import BATCHES, JOBS, Noun, dead_worker, noun_of, number_of, read_batch
from headgate.stores.sql.queue.snapshots import load, read_collection_hold, rules_of, snapshot_of

# ---------------------------------------------------------------- new items


def submit(tx: Transaction, submission: Submission, who: str) -> Batch:
    """A new batch, or the one that this request has created already."""
    submit_id = submission.request_id or None
    if submit_id and (row := tx.one(sql.READ_SUBMITTED, submit_id=submit_id)):
        return read_batch(row)
    batch_id = BATCHES.id_of(new_numbers(tx, BATCHES, 1))
    now = moment(_now(tx))
    apply(tx, queue_work.submit(rules_of(tx), batch_id, submission, who, now, actor()), now)
    return read_batch(tx.one(BATCHES.sql.read, id=number_of(batch_id)))


def create_jobs(tx: Transaction, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
    """Those of these jobs that the batch does not have yet."""
    return carry_out(tx, taken.id, lambda seen: queue_work.create_jobs(seen, taken, position, jobs, work_folder))


# ---------------------------------------------------------------- consumers


def take(tx: Transaction, noun: Noun, state: str, asker: Asker, after: Place | None) -> Item | None:
    """The first free one; or the one that this request has taken already, if its answer may have been lost.

    A dead consumer's item is reaped first, and skipped when that puts it on hold.
    """
    if tx.again and (row := tx.one(noun.sql.find_repeated, state=state, request_id=asker.request_id)):
        return noun.read_taken(row)
    find = noun.sql.find_behind if after else noun.sql.find_free
    while row := tx.one(find, state=state, **place_columns(noun, after)):
        item = noun.read_taken(row)
        if dead_worker(row[:-1]) is not None and (reaped := reap(tx, item.id)):
            item = replace(reaped, hold=item.hold)
        if item.state == state:
            seen, token = snapshot_of(tx, item), tx.next_token()
            taken = queue_work.take(seen, state, asker.worker, asker.lease, token).result
            if taken is not None:
                tx.run(noun.sql.take, id=row[0], token=token, **taking_columns(asker))
            return taken
    return None


def place_columns(noun: Noun, after: Place | None) -> dict[str, object]:
    """The position to continue from; batches have no priority."""
    if after is None:
        return {}
    place: dict[str, object] = {"after": number_of(after.id)}
    return {**place, "priority": after.priority} if noun is JOBS else place


def taking_columns(asker: Asker) -> dict[str, Any]:
    """What is recorded about the consumer that takes an item."""
    return {"worker": asker.worker, "request_id": asker.request_id, "lease": to_micro(asker.lease)}


def renew(tx: Transaction, taken: Taken, lease: float) -> float:
    """The consumer lives. In one statement; the core explains a loss."""
    if tx.count(noun_of(taken.id).sql.renew, **_guard(taken), lease=to_micro(lease)):
        return lease
    queue_work.owned(load(tx, taken.id), taken)
    raise ItemLost(taken.id, taken.token, "its lease expired")


def give_back(tx: Transaction, taken: Taken, message: str) -> None:
    """The consumer releases it. In one statement; if nothing was written, the core finds out what has happened."""
    if not tx.count(noun_of(taken.id).sql.give_back, **_guard(taken), message=message[:MESSAGE_LENGTH]):
        carry_out(tx, taken.id, lambda seen: queue_work.give_back(seen, taken, message))


def _guard(taken: Taken) -> dict[str, Any]:
    principal = actor().compared
    return {"id": number_of(taken.id), "state": taken.state, "token": taken.token, "principal": principal}


# ---------------------------------------------------------------- operators and daemons


def act(tx: Transaction, item_id: str, event: str, by: By, reason: str, who: str, seen: list[Item]) -> Item:
    """An operator's or a daemon's event. `seen`: the item as an earlier attempt at the same action found it."""
    snapshot = load(tx, item_id, event)
    if tx.again and (done := _done_already(tx, snapshot.item, item_id, event, reason, who, seen)):
        return done
    seen.extend([snapshot.item] if snapshot.item else [])
    return apply(tx, queue_work.act(snapshot, item_id, event, by, reason, who), snapshot.now)


def _done_already(
    tx: Transaction, item: Item | None, item_id: str, event: str, reason: str, who: str, seen: list[Item]
) -> Item | None:
    """The effect of an earlier attempt at the same action before it was interrupted."""
    told = tx.one(sql.READ_LAST_TOLD, noun=noun_of(item_id).name, subject=str(number_of(item_id)))
    if told is None or tuple(told[:3]) != (event, who, reason[:MESSAGE_LENGTH]) or not seen:
        return None
    if item is None:
        return seen[-1]
    return item if item.state == told[3] and item.since != seen[-1].since else None


def reap(tx: Transaction, item_id: str) -> Item | None:
    """Reap an item if its consumer is dead; None when it is not (any more)."""
    return carry_out(tx, item_id, queue_work.reap)


def report_late(tx: Transaction, taken: Taken) -> None:
    """An owner whose lease expired is alive after all: no crash is counted, unless the item was reaped meanwhile."""
    tx.run(noun_of(taken.id).sql.free_late, id=number_of(taken.id), state=taken.state, token=taken.token)


def set_hold(tx: Transaction, hold: Hold) -> Hold:
    """Put the collection on hold; returns the hold in force."""
    at = _now(tx)
    if tx.count(sql.ADD_HOLD, profile=hold.profile, reason=hold.reason, who=hold.who, at=at) > 0:
        add_entry(tx, queue_work.record_hold(hold, actor()), moment(at))
    standing = read_collection_hold(tx, hold.profile)
    assert standing  # noqa: S101 - its row is ours, or was there
    return standing


def clear_hold(tx: Transaction, profile: str, who: str) -> bool:
    """Clear the hold of the collection. False: there was none."""
    standing = read_collection_hold(tx, profile)
    if standing is None or not tx.count(sql.DROP_HOLD, profile=profile):
        return False
    add_entry(tx, queue_work.record_clearing(standing, who, actor()), moment(_now(tx)))
    return True


def sign_on(tx: Transaction, daemon: Daemon) -> None:
    """Record that a daemon is alive; daemons that died before are removed."""
    said = {
        "id": daemon.id, "worker": daemon.worker, "steps": " ".join(daemon.steps), "lease": to_micro(daemon.lease),
    }  # fmt: skip
    if not tx.count(sql.RENEW_DAEMON, **said):
        tx.run(sql.DROP_DEAD_DAEMONS)
        tx.run(sql.ADD_DAEMON, **said)


def _now(tx: Transaction) -> int:
    return int(tx.one(sql.READ_WALL)[0])

"""Loads the snapshot for a decision about the queue: its rows are locked until the changes are written.

A job's row is always locked before its batch's, so that transactions never deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.calls.actor import actor
from headgate.core.queue.model import COUNTERS, Hold, IngestJob, Item, JobCounts, folder_of
from headgate.core.queue.rules import DESIGN, Look, QueueRules
from headgate.core.queue.snapshot import QueueSnapshot
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.queue import statements as sql
from headgate.stores.sql.queue.rows import JOBS, dead_worker, noun_of, number_of, read_hold

#: A placeholder, if no query has returned the time and no decision needs it.
_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)


def rules_of(tx: Transaction) -> QueueRules:
    """The active tables."""
    return tx.options.queue_rules[DESIGN]


def load(tx: Transaction, item_id: str, event: str = "") -> QueueSnapshot:
    """An item, with the facts that the rows of an event look at. Nobody else changes it until this is done."""
    rules, noun, more = rules_of(tx), noun_of(item_id), dict[str, Any]()
    if rules.concerns_jobs(item_id, event):
        more["taken_job"] = _taken_job(tx, item_id)
    row = tx.one(noun.sql.lock, id=number_of(item_id))
    if row is None:
        return snapshot_of(tx, None)
    item = noun.read(row[:-1])
    looks = rules.looks(item_id, item.state, event)
    if Look.HOLD in looks:
        more["hold"] = read_collection_hold(tx, item.profile)
    if Look.BATCH in looks and isinstance(item, IngestJob):
        state = tx.one(sql.LOCK_BATCH_STATE, id=number_of(item.batch))
        more["batch_state"] = "" if state is None else str(state[0])
    return snapshot_of(tx, item, moment(int(row[-1])), dead=dead_worker(row[:-1]), **more)


def snapshot_of(tx: Transaction, item: Item | None, now: datetime = _UNKNOWN, **more: Any) -> QueueSnapshot:
    """An item that has been read already."""
    taken = item is not None and item.lease is not None
    return QueueSnapshot(
        rules=rules_of(tx), item=item, now=now, stamp=now, actor=actor(), taken=taken, again=tx.again,
        max_crashes=tx.options.max_crashes, **more,
    )  # fmt: skip


def read_collection_hold(tx: Transaction, profile: str) -> Hold | None:
    """The hold of a collection, if there is one."""
    row = tx.one(sql.READ_HOLD, profile=profile)
    return None if row is None else read_hold(row)


def jobs_held_still(tx: Transaction, batch: str) -> Sequence[Row]:
    """The jobs of a batch, locked until the transaction ends: number, state, and whether it is taken."""
    return tx.all(sql.LOCK_JOBS_OF, batch=number_of(batch))


def count_folders(states: Sequence[str]) -> JobCounts:
    """The correct counters of a batch, by the states of its jobs."""
    folders = [folder_of(state) for state in states]
    return JobCounts(*(folders.count(folder) for folder in COUNTERS))


def _taken_job(tx: Transaction, batch: str) -> str:
    """A job of the batch that a consumer has taken. All of them are locked before the batch."""
    number = next((number for number, _, alive in jobs_held_still(tx, batch) if alive), None)
    return "" if number is None else JOBS.id_of(int(number))

"""What a principal holds: locks, claims, batches and ingest jobs."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.access.owners import Holding
from headgate.core.locks.model import Lock
from headgate.core.queue.model import Item
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue


def held_by(locks: Locks, queue: Queue, principal: str) -> Sequence[Holding]:
    """Return everything that a principal currently holds."""
    found = [_lock(each) for each in locks.list() if each.principal == principal]
    found += [_item("batch", each) for each in queue.batches(taken=True) if each.principal == principal]
    found += [_item("ingest job", each) for each in queue.jobs(taken=True) if each.principal == principal]
    return found


def _lock(lock: Lock) -> Holding:
    return Holding("lock", lock.id, lock.resource, lock.client, lock.since)


def _item(noun: str, item: Item) -> Holding:
    return Holding(noun, item.id, item.state, item.worker, item.since)

"""Locks in memory, decided by the core alone: the reference for every store."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TypeVar

from headgate.core.locks import work
from headgate.core.locks.model import Lock, Request, Waiter
from headgate.core.locks.rules import LockRules
from headgate.core.locks.snapshot import (
    Change,
    ChangeLock,
    ConfirmLock,
    CountRefusal,
    EndLock,
    GrantLock,
    HandLock,
    JoinQueue,
    LeaveQueue,
    LengthenLease,
    LockOutcome,
    LockRecord,
    LockSnapshot,
    QueueEntry,
    ResourceSnapshot,
)
from headgate.core.locks.tickets import Granted, Ticket

T = TypeVar("T")
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def apply_to_locks(locks: dict[str, Lock], change: Change) -> None:
    match change:
        case GrantLock(lock=lock) | HandLock(lock=lock):
            assert lock.id not in locks
            locks[lock.id] = lock
        case ChangeLock(before=before, after=after):
            assert locks[before.id] == before
            locks[after.id] = after
        case EndLock(lock=lock):
            del locks[lock.id]
        case ConfirmLock(lock=lock):
            locks[lock.id] = replace(lock, expires_in=lock.lease)
        case LengthenLease(lock=lock, lease=lease):
            locks[lock.id] = replace(lock, lease=lease, expires_in=lease)


def apply_to_queue(queue: list[QueueEntry], change: Change, tag: str, ticket: int) -> None:
    if isinstance(change, LeaveQueue):
        queue.remove(change.entry)
    elif isinstance(change, JoinQueue):
        request, single = change.request, len(change.request.wants) == 1 and not change.request.reentrant
        for want in request.wants:
            waiter = Waiter(change.number or ticket, want.resource, request.client, want.mode, NOW)
            lock_id = request.lock_id(tag, want.resource) if single else ""
            queue.append(QueueEntry(waiter, request.id, lock_id=lock_id))


def replay(
    resources: Mapping[str, ResourceSnapshot], outcome: LockOutcome[object], tag: str, ticket: int
) -> dict[str, ResourceSnapshot]:
    """The resources after the changes, as a store keeps them that only applies changes."""
    locks = {lock.id: lock for each in resources.values() for lock in (*each.locks, *each.expired)}
    queue = [entry for each in resources.values() for entry in each.queue]
    for change in outcome.changes:
        apply_to_locks(locks, change)
        apply_to_queue(queue, change, tag, ticket)
    queue.sort(key=lambda entry: entry.waiter.ticket)
    return {
        uri: ResourceSnapshot(
            uri, after.token, after.known, tuple(lock for lock in locks.values() if lock.resource == uri), (),
            tuple(entry for entry in queue if entry.waiter.resource == uri),
        )
        for uri, after in outcome.resources.items()
    }  # fmt: skip


class LockReference:
    """It has the methods of a store that the tests' scripts call."""

    def __init__(self, rules: LockRules, tag: str) -> None:
        self.tag = tag
        #: What happened: client, event, before, after.
        self.told: list[tuple[str, str, str, str]] = []
        self._rules = rules
        self._resources: dict[str, ResourceSnapshot] = {}
        self._numbers = count(1)
        self._refused: set[object] = set()

    def acquire(self, request: Request) -> Granted:
        return granted(self._act(partial(work.acquire, request=request), *request.resources)[0])

    def queue_up(self, request: Request) -> Granted | Ticket:
        found, number = self._act(partial(work.queue_up, request=request), *request.resources)
        return Ticket(found.number or number, request) if isinstance(found, work.MustWait) else found

    def take_turn(self, ticket: Ticket) -> Granted | None:
        unit = partial(work.take_turn, request=ticket.request, number=ticket.number)
        found, _ = self._act(unit, *ticket.request.resources)
        return None if isinstance(found, work.MustWait) else found

    def give_up(self, ticket: Ticket) -> Granted:
        unit = partial(work.give_up, request=ticket.request, number=ticket.number)
        return granted(self._act(unit, *ticket.request.resources)[0])

    def withdraw(self, ticket: Ticket) -> None:
        self._act(partial(work.withdraw, request=ticket.request), *ticket.request.resources)

    def release(self, lock_id: str, token: int) -> None:
        self._act(partial(work.release, lock_id=lock_id, token=token), self._of(lock_id))

    def upgrade(self, lock_id: str, token: int) -> Lock:
        return granted(self._act(partial(work.upgrade, lock_id=lock_id, token=token), self._of(lock_id))[0])

    def downgrade(self, lock_id: str, token: int) -> Lock:
        return self._act(partial(work.downgrade, lock_id=lock_id, token=token), self._of(lock_id))[0]

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        return self._act(partial(work.hand_over, lock_id=lock_id, to=to, reason=reason), self._of(lock_id))[0]

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        return self._act(partial(work.break_lock, lock_id=lock_id, reason=reason, by=by), self._of(lock_id))[0]

    def expire(self) -> int:
        """Every lease has run out."""
        for uri, each in self._resources.items():
            dead = tuple(lock for lock in each.locks if lock.lease is not None)
            rest = tuple(lock for lock in each.locks if lock.lease is None)
            self._resources[uri] = replace(each, locks=rest, expired=dead)
        return sum(self._act(work.expire, uri)[0] for uri in list(self._resources))

    def held(self, resource: str) -> tuple[Lock, ...]:
        return self._resource(resource).locks

    def waiting(self, resource: str) -> list[Waiter]:
        return [entry.waiter for entry in self._resource(resource).queue]

    def _resource(self, uri: str) -> ResourceSnapshot:
        return self._resources.get(uri) or ResourceSnapshot(uri)

    def _of(self, lock_id: str) -> str:
        """The resource of a lock, or the first one if the lock is missing."""
        ids = {lock.id: uri for uri, each in self._resources.items() for lock in each.locks}
        return ids.get(lock_id) or next(iter(self._resources))

    def _act(self, unit: Callable[[LockSnapshot], LockOutcome[T]], *resources: str) -> tuple[T, int]:
        seen = {uri: self._resource(uri) for uri in resources}
        outcome, number = unit(LockSnapshot(self.tag, seen, NOW, rules=self._rules)), next(self._numbers)
        self._resources |= replay(seen, outcome, self.tag, number)
        for each in outcome.changes:
            if isinstance(each, CountRefusal):
                self._tell(each.record, once=True)
            elif isinstance(each, LockRecord):
                self._tell(each)
        return outcome.result, number

    def _tell(self, record: LockRecord, *, once: bool = False) -> None:
        """Record it; a refusal only `once`, because a test takes less than a minute."""
        entry = (record.client, record.event, record.before, record.after)
        if not once or (record.resource, entry) not in self._refused:
            self.told.append(entry)
        if once:
            self._refused.add((record.resource, entry))


def granted(result: T | Exception) -> T:
    """The result; a refusal is raised."""
    if isinstance(result, Exception):
        raise result
    return result

"""Applies decisions about locks: each kind of change is a statement, for one resource or for many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from headgate.calls.actor import log_override
from headgate.core.access.owners import Override
from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.locks.model import Request
from headgate.core.locks.rules import summary
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
)
from headgate.stores.sql.database.dialect import Columns
from headgate.stores.sql.database.moments import MICROSECONDS, micro, to_micro
from headgate.stores.sql.database.transaction import Transaction, by_column
from headgate.stores.sql.locks import statements as sql
from headgate.stores.sql.locks.snapshots import LoadedLocks, load

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

#: Waiters to wake: (channel, number).
Wakes = list[tuple[str, int]]
#: A waiter without a sign of life for this long counts as dead.
WAITER_LEASE = 10 * MICROSECONDS
#: Number of characters of a reason in the history.
REASON_LENGTH = 1000


class Committed(NamedTuple, Generic[T]):
    """The result of a command, after the commit."""

    result: T
    wakes: Wakes
    #: The number of its positions in the queues.
    number: int | None = None
    #: The datasets with chunks on which locks ended or changed: claims may be possible now.
    freed: frozenset[str] = frozenset()
    #: Whether another process may be waiting for news.
    listened: bool = True


def carry_out(
    tx: Transaction,
    tag: str,
    resources: Sequence[str],
    unit: Callable[[LockSnapshot], LockOutcome[T]],
    channel: str = "",
) -> Committed[T]:
    """Load these resources, decide, and write the changes. `channel`: the channel on which this process listens, if it
    waits.
    """
    loaded = load(tx, tag, resources)
    outcome = unit(loaded.snapshot)
    number = _Writer(tx, loaded, outcome).write(channel)
    return Committed(outcome.result, wakes(outcome.wakes), number, _freed(outcome.changes), tx.listened)


def _freed(changes: Iterable[Change]) -> frozenset[str]:
    touched = [change.lock for change in changes if isinstance(change, EndLock)]
    touched += [change.after for change in changes if isinstance(change, ChangeLock)]
    return frozenset(chunk[0] for lock in touched if (chunk := parse_chunk_resource(lock.resource)))


def wakes(entries: Iterable[QueueEntry]) -> Wakes:
    """The channels of these waiters, with their numbers."""
    return [(str(entry.ref), entry.waiter.ticket) for entry in entries]


def ticket_columns(request: Request, tag: str, channel: str) -> dict[str, object]:
    """The columns of a request in its ticket's row; a single resource can be granted to it directly."""
    single = len(request.wants) == 1 and not request.reentrant
    return {
        "request_id": request.id, "client": request.client, "owner": request.owner, "alive": WAITER_LEASE,
        "channel": channel, "lock_id": request.lock_id(tag, request.wants[0].resource) if single else "",
        "lease": to_micro(request.lease), "lock_delay": to_micro(request.lock_delay),
        "note": request.note, "principal": request.principal,
    }  # fmt: skip


class _Writer:
    """The changes of one outcome, sorted by kind: ends before beginnings."""

    def __init__(self, tx: Transaction, loaded: LoadedLocks, outcome: LockOutcome[object]) -> None:
        self._tx = tx
        self._rows = loaded.rows
        self._snapshot = loaded.snapshot
        self._outcome = outcome
        self._changes: dict[type[Any], list[Any]] = {}
        for change in outcome.changes:
            self._changes.setdefault(type(change), []).append(change)

    def _all(self, kind: type[C]) -> list[C]:
        return self._changes.get(kind, [])

    def write(self, channel: str) -> int | None:
        """Write all of it. Returns the number of the new positions."""
        for override in self._all(Override):
            log_override(override.what, override.owner)
        if ended := self._all(EndLock):
            self._tx.run(sql.DELETE_LOCKS, ids=sorted({change.lock.id for change in ended}))
        self._grant(self._all(GrantLock))
        self._lengthen(self._all(LengthenLease))
        self._change(self._all(ChangeLock))
        if confirmed := self._all(ConfirmLock):
            self._tx.run(sql.CONFIRM_LOCKS, ids=[change.lock.id for change in confirmed])
        for handed in self._all(HandLock):
            self._hand(handed)
        self._leave(self._all(LeaveQueue))
        numbers = [self._join(join, channel) for join in self._all(JoinQueue)]
        self._record(self._all(LockRecord), self._all(CountRefusal))
        self._write_resources()
        return numbers[0] if numbers else None

    def _grant(self, grants: Sequence[GrantLock]) -> None:
        if not grants:
            return
        locks, lock = [grant.lock for grant in grants], grants[0].lock
        columns: Columns = {
            **by_column(locks, "id", "token"),
            "rkey": [self._rows[lock.resource].key for lock in locks],
            "mode": [lock.mode.value for lock in locks],
            "lock_delay": [to_micro(grant.lock_delay) for grant in grants],
        }
        # An existing id is a dead lock of the same request, kept by its lock-delay.
        self._tx.many(
            sql.WRITE_LOCK, columns,
            client=lock.client, since=micro(lock.since), lease=to_micro(lock.lease), request_id=lock.request_id,
            owner=lock.owner, note=lock.note, principal=lock.principal,
        )  # fmt: skip

    def _lengthen(self, changes: Sequence[LengthenLease]) -> None:
        for lease, same in _grouped(changes, lambda change: change.lease):
            self._tx.run(sql.LENGTHEN_LOCKS, ids=[change.lock.id for change in same], lease=to_micro(lease))

    def _change(self, changes: Sequence[ChangeLock]) -> None:
        """Several changes of one lock are combined."""
        if not changes:
            return
        first = {change.before.id: change.before for change in reversed(changes)}
        last = {change.after.id: change.after for change in changes}
        floor = self._snapshot.floor

        def difference(lock_id: str) -> tuple[str, int, str, str, int]:
            before, after = first[lock_id], last[lock_id]
            given = after.token - max(self._rows[after.resource].token, floor) if after.token != before.token else 0
            return after.mode.value, after.count - before.count, after.request_id, after.principal, given

        for (mode, more, request_id, owner, given), ids in _grouped(last, difference):
            self._tx.run(
                sql.CHANGE_LOCKS,
                ids=ids, mode=mode, more=more, request_id=request_id, owner=owner, given=given, floor=floor,
            )  # fmt: skip

    def _hand(self, change: HandLock) -> None:
        lock = change.lock
        self._tx.run(
            sql.HAND_LOCK,
            rkey=self._rows[lock.resource].key, mode=lock.mode.value, token=lock.token, since=micro(lock.since),
            trial=to_micro(change.trial), ticket=change.entry.waiter.ticket,
        )  # fmt: skip

    def _leave(self, changes: Sequence[LeaveQueue]) -> None:
        if changes:
            numbers = sorted({change.entry.waiter.ticket for change in changes})
            self._tx.all(sql.TAKE_TICKETS, tickets=numbers)
            self._tx.run(sql.DELETE_PLACES, tickets=numbers, keys=[row.key for row in self._rows.values()])
            self._tx.run(sql.DELETE_TICKETS, tickets=numbers)

    def _join(self, change: JoinQueue, channel: str) -> int:
        request, number = change.request, change.number
        columns = ticket_columns(request, self._snapshot.tag, channel)
        if number is None:
            self._tx.run(sql.WRITE_TICKET, **columns)
            number = int(self._tx.one(sql.READ_NUMBER, request_id=request.id)[0])
        else:
            self._tx.run(sql.TAKE_NUMBER_AGAIN, ticket=number, **columns)
        keys = [self._rows[want.resource].key for want in request.wants]
        modes = [want.mode.value for want in request.wants]
        self._tx.many(sql.WRITE_PLACE, {"rkey": keys, "mode": modes}, ticket=number)
        return number

    def _record(self, records: Sequence[LockRecord], refusals: Sequence[CountRefusal]) -> None:
        """All history entries, including the first refusal of a client within a minute; later ones are counted."""
        first = self._first_refusals([refusal.record for refusal in refusals])
        self._write_history([*records, *first])
        if first:
            keys = [self._rows[record.resource].key for record in first]
            new: Columns = {"rkey": keys, "id": [record.lock_id for record in first]}
            self._tx.many(sql.WRITE_REFUSALS, new, client=first[0].client, event=first[0].event)

    def _first_refusals(self, records: Sequence[LockRecord]) -> list[LockRecord]:
        if not records:
            return []
        client = records[0].client
        keys = {record.resource: self._rows[record.resource].key for record in records}
        found = self._tx.all(sql.READ_REFUSALS, keys=sorted(keys.values()), client=client)
        known = {bytes(key): int(number) for key, number in found}
        if known:
            self._tx.run(sql.COUNT_REFUSALS, ids=sorted(known.values()))
        return [record for record in records if keys[record.resource] not in known]

    def _write_history(self, records: Sequence[LockRecord]) -> None:
        if not records:
            return
        columns = by_column(records, "event", "lock_id", "client", "token", "before", "after", "principal")
        reasons = [record.reason[:REASON_LENGTH] for record in records]
        self._tx.many(sql.WRITE_HISTORY, {**columns, "reason": reasons})

    def _write_resources(self) -> None:
        """Update the rows of the resources, those with equal values together."""
        floor = self._snapshot.floor

        def row_of(uri: str) -> tuple[int, str, int, bool, int]:
            after, token = self._outcome.resources[uri], self._rows[uri].token
            given = after.token - max(token, floor) if after.token != token else 0
            mode = summary([lock.mode for lock in after.locks]).value
            return len(after.locks), mode, len(after.queue), after.known, given

        changed = {uri: after for uri, row in self._rows.items() if (after := row_of(uri)) != (*row[2:], 0)}
        for (holders, mode, waiting, known, given), uris in _grouped(changed, changed.__getitem__):
            self._tx.run(
                sql.WRITE_RESOURCES,
                holders=holders, mode=mode, waiting=waiting, known=known, given=given,
                floor=floor if given else 0, keys=[self._rows[uri].key for uri in uris],
            )  # fmt: skip


def _grouped(values: Iterable[C], key: Callable[[C], K]) -> Iterable[tuple[K, list[C]]]:
    """Groups of equal values, in order."""
    found: dict[K, list[C]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found.items()

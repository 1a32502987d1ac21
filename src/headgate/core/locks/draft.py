"""A snapshot in the making: events are fired at it as the table says, and every effect becomes a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.core.access.principals import must_own
from headgate.core.errors import BadValue, LockRefused
from headgate.core.locks.decisions import Decision, claim_blockers, decide, refusal_reasons, repeated_grant
from headgate.core.locks.model import Blocker, Lock, Mode, Request, Waiter, Want
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
from headgate.core.tables.machine import Also, By, Transition

T = TypeVar("T")

#: The states that are not modes of a lock.
NEW, WAITING = "new", "waiting"
#: Seconds that a lock granted to a waiter lives until the waiter accepts it, since the waiter may have died.
TRIAL_SECONDS = 30.0
#: The reason for an expiry, as the history records it.
EXPIRED = "the lease expired"
_MODES = frozenset(mode.value for mode in Mode)
#: Effects that may make room for the next waiter.
_MAKES_ROOM = Also.FREE_RESOURCE | Also.SERVE_QUEUE | Also.LEAVE_QUEUE


@dataclass(slots=True)
class _Resource:
    """A resource as it changes."""

    uri: str
    token: int
    known: bool
    locks: list[Lock]
    queue: list[QueueEntry]
    claims: tuple[Lock, ...]
    #: Something was released: the queue has to be served.
    roomy: bool = False

    def snapshot(self) -> ResourceSnapshot:
        known = self.known or bool(self.locks) or bool(self.queue)
        return ResourceSnapshot(self.uri, self.token, known, tuple(self.locks), (), tuple(self.queue), self.claims)


class LockDraft:
    """A snapshot of locks, as events change it. Locks that expired and waiters that died are ended first."""

    def __init__(self, snapshot: LockSnapshot) -> None:
        self.snapshot = snapshot
        self.rules = snapshot.rules
        self._changes: list[Change] = []
        self._wakes: list[QueueEntry] = []
        self._resources = {
            uri: _Resource(uri, each.token, each.known, list(each.locks), list(each.queue), each.claims)
            for uri, each in snapshot.resources.items()
        }
        #: Number of expired locks that were ended.
        self.expired = 0
        for each in snapshot.resources.values():
            if each.expired or each.queue:
                self.expired += self._expire(each)

    def outcome(self, result: T) -> LockOutcome[T]:
        """Serve the queues, and list everything that changes."""
        for each in self._resources.values():
            if each.roomy and each.queue:
                self._serve(each)
        after = {uri: each.snapshot() for uri, each in self._resources.items()}
        return LockOutcome(result, tuple(self._changes), after, tuple(self._wakes))

    # ------------------------------------------------------------ looking

    def find(self, lock_id: str) -> Lock | None:
        """The lock of that id."""
        for lock in self._locks():
            if lock.id == lock_id:
                return lock
        return None

    def decide(self, request: Request, number: int | None = None) -> Decision:
        """May it be granted, from its position in the queue (or from the end)?"""
        earlier = [entry.waiter for entry in self.ahead(request, number)]
        decision = decide(request, self._locks(), earlier, self.rules.compatible)
        claims = [claim for each in self._resources.values() for claim in each.claims]
        more = claim_blockers(request, claims, self.rules.compatible) if claims else ()
        return Decision((*decision.blockers, *more), decision.entered) if more else decision

    def ahead(self, request: Request, number: int | None = None) -> list[QueueEntry]:
        """The positions of others ahead of a request, in every queue."""
        return [entry for want in request.wants for entry in self._ahead(request, want.resource, number)]

    def obstacle(self, request: Request, number: int | None = None) -> QueueEntry | Lock | None:
        """The nearest waiter ahead that blocks a request or, where there is none, a lock that does."""
        compatible = self.rules.compatible
        # A waiter does not block a request that may enter a lock of its own client.
        own = [lock for lock in self._locks() if request.reentrant and lock.client == request.client]
        for entry in sorted(self.ahead(request, number), key=lambda entry: entry.waiter.ticket, reverse=True):
            if not decide(request, own, [entry.waiter], compatible).granted:
                return entry
        return next((lock for lock in self._locks() if not decide(request, [lock], (), compatible).granted), None)

    def others(self, lock: Lock) -> list[Lock]:
        """The other locks on a lock's resource, and the claims on it."""
        each = self._resources[lock.resource]
        return [other for other in each.locks if other.id != lock.id]

    def claims(self, resource: str) -> Sequence[Lock]:
        """The jobs that are running on a resource."""
        return self._resources[resource].claims

    def repeated(self, request: Request) -> tuple[Lock, ...]:
        """The grant that this request has already received, or nothing."""
        return repeated_grant(request, self.snapshot.tag, self._locks())

    def number_of(self, request: Request) -> int | None:
        """Its number in every queue; None: in some queue it has no position."""
        queues = [self._resources[want.resource].queue for want in request.wants]
        if not all(queues):
            return None
        found = [{entry.waiter.ticket for entry in queue if entry.is_of(request)} for queue in queues]
        return min(set.intersection(*found), default=None)

    # ------------------------------------------------------------ asking

    def grant(self, request: Request, decision: Decision, before: str) -> tuple[Lock, ...]:
        """Nothing blocks the request: grant all of it."""
        entered = decision.entered
        new = {
            want: self.rules.row(before, "grant", want.mode) for want in request.wants if want.resource not in entered
        }
        if entered or any(row.also.has(Also.LEAVE_QUEUE) for row in new.values()):
            self.leave_queue(request)
        held = {want.resource: self._grant(request, want, row) for want, row in new.items()}
        if entered:
            modes = {want.resource: want.mode for want in request.wants}
            held |= {uri: self._enter(request, own, modes[uri]) for uri, own in entered.items()}
        return tuple(held[want.resource] for want in request.wants)

    def confirm(self, lock: Lock) -> Lock:
        """Accept a lock that may have been granted provisionally: its requested lease begins."""
        if lock.expires_in is None:
            return lock
        self._changes.append(ConfirmLock(lock))
        return self._replace(lock, replace(lock, expires_in=lock.lease))

    def refuse(self, request: Request, blockers: Sequence[Blocker], before: str) -> LockRefused:
        """Count it, and record it once a minute."""
        row = self.rules.row(before, "refuse")
        for resource, reason in refusal_reasons(request, blockers).items():
            record = LockRecord(
                row.event, resource, request.client, request.lock_id(self.snapshot.tag, resource),
                self._resources[resource].token, row.source, row.target, reason, self.snapshot.actor.principal,
            )  # fmt: skip
            if row.also.has(Also.COUNT_REFUSAL):
                self._changes.append(CountRefusal(record))
            elif row.also.has(Also.RECORD_HISTORY):
                self._changes.append(record)
        if row.also.has(Also.LEAVE_QUEUE):
            self.leave_queue(request)
        return LockRefused(request, blockers)

    def join_queue(self, request: Request, number: int | None = None) -> None:
        """Join the end of each queue, or keep the position of its number."""
        row = self.rules.row(NEW, "wait")
        if not row.also.has(Also.JOIN_QUEUE):
            return
        self._changes.append(JoinQueue(request, number))
        for want in request.wants:
            waiter = Waiter(number or 0, want.resource, request.client, want.mode, self.snapshot.now, request.owner)
            self._resources[want.resource].queue.append(QueueEntry(waiter, request.id))

    def leave_queue(self, request: Request, keep: int | None = None) -> None:
        """Give up its positions, except those of one number."""
        for want in request.wants:
            own = [entry for entry in self._resources[want.resource].queue if entry.is_of(request)]
            for entry in own:
                if keep is None or entry.waiter.ticket != keep:
                    self._leave(entry)

    # ------------------------------------------------------------ holding

    def fire(
        self, lock: Lock, event: str, *, count: int = 0, request_id: str = "", owner: str | None = None,
        reason: str = "",
    ) -> Lock:  # fmt: skip
        """Fire an event at a lock: it ends, or stays with another mode, token, count or owner, as the row says."""
        row = self.rules.row(lock.mode, event)
        if row.by is By.OPERATOR and not reason:
            raise BadValue("reason", reason, "is missing: say why")
        # An operator's reason is kept as given.
        by = self.snapshot.actor.principal if row.by is By.OPERATOR else None
        each = self._resources[lock.resource]
        if row.target not in _MODES:
            each.locks = [other for other in each.locks if other.id != lock.id]
            self._changes.append(EndLock(lock, event))
            self._effects(each, row, lock, reason, by)
            return lock
        after = Lock(
            lock.id, lock.resource, lock.client, Mode(row.target),
            self._next_token(each) if row.also.has(Also.NEW_TOKEN) else lock.token, lock.since, lock.lease,
            lock.expires_in, lock.count + (count if row.also.has(Also.COUNT_HOLD) else 0), lock.owner, lock.note,
            request_id or lock.request_id, lock.principal if owner is None else owner,
        )  # fmt: skip
        self._changes.append(ChangeLock(lock, after))
        self._replace(lock, after)
        self._effects(each, row, after, reason, by)
        return after

    def lengthen(self, lock: Lock, lease: float | None) -> Lock:
        """Its lease restarts with this length; None: it is persistent."""
        self._changes.append(LengthenLease(lock, lease))
        return self._replace(lock, replace(lock, lease=lease, expires_in=lease))

    def must_own(self, lock: Lock) -> None:
        """NotOwner when the caller may not change it; overriding another owner is logged."""
        self._changes += must_own(self.snapshot.actor, f"lock {lock.id}", lock.principal)

    def make_known(self) -> None:
        """These resources are listed from now on."""
        for each in self._resources.values():
            each.known = True

    def make_room(self) -> None:
        """Check every queue as if a lock had been released."""
        for each in self._resources.values():
            each.roomy = True

    # ------------------------------------------------------------ within

    def _locks(self) -> list[Lock]:
        return [lock for each in self._resources.values() for lock in each.locks]

    def _ahead(self, request: Request, resource: str, number: int | None) -> list[QueueEntry]:
        """The waiters ahead of this request, by its entry, or by its number if the entry is lost."""
        queue = self._resources[resource].queue
        if not queue:
            return []
        own = next((place for place, entry in enumerate(queue) if entry.is_of(request)), None)
        if own is None and number is not None:
            return [entry for entry in queue if entry.waiter.ticket < number]
        return queue[:own]

    def _expire(self, seen: ResourceSnapshot) -> int:
        each, ended = self._resources[seen.uri], 0
        for lock in seen.expired:
            row = self.rules.find(lock.mode, "expire")
            if row is None:
                each.locks.append(lock)
                continue
            ended += 1
            self._changes.append(EndLock(lock, row.event))
            # No caller did it: the history names its owner.
            self._effects(each, row, lock, EXPIRED, lock.principal)
        lapse = self.rules.find(WAITING, "lapse")
        if lapse and lapse.also.has(Also.LEAVE_QUEUE):
            for entry in [entry for entry in each.queue if not entry.alive]:
                self._leave(entry)
        return ended

    def _leave(self, entry: QueueEntry) -> None:
        each = self._resources[entry.waiter.resource]
        each.queue.remove(entry)
        each.roomy = True
        self._changes.append(LeaveQueue(entry))

    def _grant(self, request: Request, want: Want, row: Transition) -> Lock:
        each = self._resources[want.resource]
        lock = Lock(
            request.lock_id(self.snapshot.tag, want.resource), want.resource, request.client, Mode(row.target),
            self._next_token(each) if row.also.has(Also.NEW_TOKEN) else each.token, self.snapshot.now, request.lease,
            request.lease, 1, request.owner, request.note, request.id, request.principal,
        )  # fmt: skip
        each.locks.append(lock)
        self._changes.append(GrantLock(lock, request.lock_delay))
        self._effects(each, row, lock, "", request.principal)
        return lock

    def _enter(self, request: Request, own: Lock, mode: Mode) -> Lock:
        """The same client enters a lock again; the longer of the two leases applies."""
        if own.request_id == request.id:
            return own
        if own.lease is not None:
            own = self.lengthen(own, None if request.lease is None else max(own.lease, request.lease))
        if (own.mode, mode) == (Mode.SHARED, Mode.EXCLUSIVE):
            own = self.fire(own, "upgrade")
        return self.fire(own, "enter", count=1, request_id=request.id)

    def _serve(self, each: _Resource) -> None:
        """Grant to the waiters whose turn it is; wake those that have to acquire themselves."""
        held = (*each.locks, *each.claims)
        queue = each.queue[: self.snapshot.most_handed]
        for entry in list(first_in_line(queue, held, self.rules)):
            row = self.rules.find(WAITING, "grant", entry.waiter.mode)
            if row and entry.lock_id:
                self._hand(each, entry, row)
            self._wakes.append(entry)

    def _hand(self, each: _Resource, entry: QueueEntry, row: Transition) -> None:
        waiter = entry.waiter
        trial = min(TRIAL_SECONDS, entry.lease or TRIAL_SECONDS)
        lock = Lock(
            entry.lock_id, each.uri, waiter.client, Mode(row.target),
            self._next_token(each) if row.also.has(Also.NEW_TOKEN) else each.token, self.snapshot.now, entry.lease,
            trial, owner=waiter.owner, request_id=entry.request_id, principal=entry.principal,
        )  # fmt: skip
        each.locks.append(lock)
        self._changes.append(HandLock(lock, entry, trial))
        if row.also.has(Also.LEAVE_QUEUE):
            self._leave(entry)
        self._effects(each, row, lock, "", entry.principal)

    def _effects(self, each: _Resource, row: Transition, lock: Lock, reason: str, by: str | None = None) -> None:
        """The other effects of a row: serving the queue, and a history entry. `by`: someone other than the caller."""
        each.roomy = each.roomy or row.also.has(_MAKES_ROOM)
        if row.also.has(Also.RECORD_HISTORY):
            actor = self.snapshot.actor
            who, why = (actor.principal, actor.reason(reason)) if by is None else (by, reason)
            self._changes.append(
                LockRecord(row.event, each.uri, lock.client, lock.id, lock.token, row.source, row.target, why, who)
            )

    def _next_token(self, each: _Resource) -> int:
        each.token = max(each.token, self.snapshot.floor) + 1
        return each.token

    def _replace(self, old: Lock, new: Lock) -> Lock:
        each = self._resources[old.resource]
        each.locks = [new if other.id == old.id else other for other in each.locks]
        return new


def first_in_line(queue: Iterable[QueueEntry], held: Sequence[Lock], rules: LockRules) -> Iterator[QueueEntry]:
    """The waiters whose turn it is beside these locks: the first, and with it every one compatible with those ahead.

    One that takes its turn itself may wait re-entrantly: locks of its own client are not in its way then, nor are
    waiters, who would wait for that client's locks.
    """
    modes, ahead, is_open = {lock.mode for lock in held}, set[Mode](), True
    for entry in queue:
        waiter = entry.waiter
        if not entry.lock_id and any(lock.client == waiter.client for lock in held):
            if rules.agrees(waiter.mode, {lock.mode for lock in held if lock.client != waiter.client}):
                yield entry
        elif is_open and rules.agrees(waiter.mode, modes | ahead):
            yield entry
        ahead.add(waiter.mode)
        is_open = is_open and any(rules.agrees(mode, ahead) for mode in Mode)
        if not (is_open or held):
            return

"""The steps of acquiring locks, none of which waits: each grant is backed by real locks of the storage.

The real locks are acquired before the store is asked: while a program outside Headgate holds one, nothing is granted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate.core.errors import HeadgateError, LockRefused, NotAllowed, StorageGuardFailed
from headgate.core.filters import LockFilter
from headgate.core.locks.decisions import decide
from headgate.core.locks.model import Blocker, Lock, Request, Waiter
from headgate.core.locks.rules import LockRules
from headgate.core.locks.tickets import Granted, Ticket
from headgate.service.guards.keeper import GuardKeeper, GuardsBusy
from headgate.service.guards.kinds import GuardBusy
from headgate.service.leases.clock import steady
from headgate.stores.options import DEFAULT_OPTIONS
from headgate.telemetry import event

#: How often, and after which short pause, a busy guard is retried if the store knows no holder: a releasing process of
#: ours notifies the store first.
BRIEF_TRIES, BRIEF_SECONDS = 4, 0.02


class Grants(Protocol):
    """A store or a service that grants locks, in steps that do not wait long. The methods are those of LockStore."""

    #: The tables that decide there.
    rules: LockRules

    def acquire(self, request: Request) -> Granted: ...

    def queue_up(self, request: Request) -> Granted | Ticket: ...

    def place_of(self, request: Request) -> Ticket | None: ...

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None: ...

    def look(self, ticket: Ticket) -> float: ...

    def take_turn(self, ticket: Ticket) -> Granted | None: ...

    def keep_places(self, tickets: Sequence[Ticket]) -> None: ...

    def give_up(self, ticket: Ticket) -> Granted: ...

    def withdraw(self, ticket: Ticket) -> None: ...

    def release(self, lock_id: str, token: int) -> None: ...

    def list(self, which: LockFilter) -> Sequence[Lock]: ...

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]: ...


@dataclass(frozen=True, slots=True)
class Obtained:
    """A grant, and when its request was sent (monotonic): its lease is counted from then."""

    grant: Granted
    sent: float


class Obtaining:
    """The store or service that grants locks, and the guards of this process."""

    def __init__(
        self, store: Grants, guards: GuardKeeper, answer_within: float = DEFAULT_OPTIONS.answer_within, *,
        records: bool = True,
    ) -> None:  # fmt: skip
        """`records`: log grants and waits; a service does so itself."""
        self.store = store
        self.records = records
        self.answer_within = answer_within
        self._guards = guards

    def acquire(self, request: Request) -> Granted:
        """Everything that is wanted, at once; LockRefused otherwise."""
        if not self._guards.check(request):
            return self._told(self.store.acquire(request))
        for left in reversed(range(BRIEF_TRIES)):
            try:
                with self._guards.reserving(request):
                    return self._guarded(request, self.store.acquire(request))
            except GuardsBusy as busy:
                if self._is_blocked(request):
                    return self._guarded(request, self.store.acquire(request))
                if not left:
                    raise LockRefused(request, busy.blockers) from busy
            time.sleep(BRIEF_SECONDS)
        raise AssertionError("unreachable")

    def queue_up(self, request: Request) -> Obtained | Ticket:
        """Like `acquire`, but with a position at the end of the queue. LockRefused due to guards only: retry soon."""
        sent = steady()
        if not self._guards.check(request):
            result = self.store.queue_up(request)
            return result if isinstance(result, Ticket) else Obtained(self._told(result), sent)
        try:
            with self._guards.reserving(request, waits=True):
                return self._queued(request, sent)
        except GuardsBusy as busy:
            # Requests further back in this process's line must not overtake others on the way into the queue.
            if self._guards.is_first(request) and self._is_blocked(request):
                try:
                    return self._queued(request, sent)
                finally:
                    self._guards.leave_line(request.id)
            raise LockRefused(request, busy.blockers) from busy

    def take_turn(self, ticket: Ticket) -> Obtained | None:
        """The grant if it is the ticket's turn, else None. GuardsBusy: a program outside blocks it."""
        sent = steady()
        grant = self._step(ticket, self.store.take_turn)
        return Obtained(grant, sent) if grant else None

    def give_up(self, ticket: Ticket) -> Obtained:
        """The time is over: the grant if it is the ticket's turn after all, else LockRefused."""
        sent = steady()
        try:
            grant = self._step(ticket, self.store.give_up)
        except GuardsBusy as busy:
            self.store.withdraw(ticket)
            raise LockRefused(ticket.request, busy.blockers) from busy
        return Obtained(grant or (), sent)  # A store that gives up either refuses or grants.

    def leave_line(self, request: Request) -> None:
        """The request no longer waits for guards."""
        self._guards.leave_line(request.id)

    def _step(self, ticket: Ticket, ask: Callable[[Ticket], Granted | None]) -> Granted | None:
        """The store's answer, with real locks under a grant. Otherwise GuardsBusy, without asking the store."""
        if not self._guards.check(ticket.request):
            grant = ask(ticket)
            return self._told(grant) if grant else None
        with self._guards.reserving(ticket.request):
            grant = ask(ticket)
            return self._guarded(ticket.request, grant) if grant else None

    def _queued(self, request: Request, sent: float) -> Obtained | Ticket:
        result = self.store.queue_up(request)
        return result if isinstance(result, Ticket) else Obtained(self._guarded(request, result), sent)

    def _is_blocked(self, request: Request) -> bool:
        """Whether the store itself has a reason to refuse: then its answer names the blockers."""
        wanted = [want.resource for want in request.wants]
        try:
            held = [lock for each in wanted for lock in self.store.list(LockFilter(resource=each))]
            waiting = [waiter for each in wanted for waiter in self.store.waiters(each)]
        except NotAllowed:  # Then only the answer itself shows it.
            return True
        return not decide(request, held, waiting, self.store.rules.compatible).granted

    # ---------------------------------------------------------------- guards

    def _guarded(self, request: Request, grant: Granted) -> Granted:
        """The grant with real locks under it; LockRefused, after releasing it, when one of them is busy."""
        busy = self._guard(grant)
        if not busy:
            return self._told(grant)
        failed = self.give_back(grant)
        raise failed[0] if failed else LockRefused(request, busy)

    def _guard(self, grant: Granted) -> list[Blocker]:
        """Acquire real locks under the granted ones. Returns the busy ones; on an error, everything is released and the
        error is raised.
        """
        busy: list[Blocker] = []
        try:
            for lock in grant:
                if self._guards.covers(lock.resource):
                    busy += self._guard_one(lock)
        except BaseException as error:
            for failed in self.give_back(grant):
                error.add_note(str(failed))
            raise
        return busy

    def _guard_one(self, lock: Lock) -> list[Blocker]:
        try:
            self._guards.take(lock)
        except GuardBusy as error:
            return [Blocker("guard", lock.resource, "", lock.mode, note=str(error))]
        return []

    def _told(self, grant: Granted) -> Granted:
        for lock in grant if self.records else ():
            event(
                "lock.granted",
                lock=lock.id, resource=lock.resource, client=lock.client, mode=lock.mode, token=lock.token,
            )  # fmt: skip
        return grant

    def give_back(self, grant: Granted) -> list[HeadgateError]:
        """Release everything, even if some releases fail. Returns what failed."""
        failed: list[HeadgateError] = []
        for lock in grant:
            try:
                self._guards.leave(lock.id, lock.request_id)
            except StorageGuardFailed as error:
                failed.append(error)
            try:
                self.store.release(lock.id, lock.token)
            except HeadgateError as error:
                failed.append(error)
        return failed

"""Getting locks: at once or by waiting in the queue, with real locks of the storage put under them.

The real locks are taken before the store is asked, so that a program outside Headgate which has one leads to no grant.
A request that waits keeps its place in the store's queue meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headgate.core.errors import HeadgateError, LockRefused, NotAllowed, StorageGuardFailed, StoreUnavailable
from headgate.core.locks import Blocker, Lock, Request, decide
from headgate.service.clock import steady
from headgate.service.guard_keeper import GuardKeeper, GuardsBusy
from headgate.service.guards import GuardBusy
from headgate.service.undoing import keep, undo_later
from headgate.stores.base import Grant, LockFilter, LockStore, Ticket
from headgate.stores.deadlines import within
from headgate.stores.options import DEFAULT_OPTIONS
from headgate.telemetry import event

#: A waiter tells the store at least this often that it lives.
SIGN_OF_LIFE_SECONDS = 3.0
#: The number of a place in a queue that may have been taken, when its number is not known.
NO_NUMBER = 0
#: A pause before a store that does not answer, or a busy guard, is asked again.
PAUSE_SECONDS = 0.2
#: A guard that is busy though the store knows of nobody is asked again so often, after so short a pause: a process of
#: ours that releases tells the store first.
BRIEF_TRIES, BRIEF_SECONDS = 4, 0.02


@dataclass(frozen=True, slots=True)
class Obtained:
    """A grant, and when the request that brought it was sent (monotonic): its lease runs at most from then."""

    grant: Grant
    sent: float


class Obtaining:
    """One store, and the guards of this process."""

    def __init__(
        self, store: LockStore, guards: GuardKeeper, answer_within: float = DEFAULT_OPTIONS.answer_within
    ) -> None:
        self._store = store
        self._guards = guards
        self._answer_within = answer_within

    def obtain(self, request: Request, deadline: float) -> Obtained:
        """All that is wanted, by the deadline (steady); LockRefused otherwise, and nothing is taken.

        StoreUnavailable at the latest `answer_within` seconds after the deadline. If its outcome is unknown, what was
        taken is given back in the background, unless the caller asks again with the same request id.
        """
        keep(request.id)
        try:
            with within(max(deadline - steady(), 0.0) + self._answer_within):
                return self._obtain(request, deadline)
        except StoreUnavailable as error:
            error.request_id = request.id
            if error.outcome != "none" and request.fresh:
                self._undo_later(Ticket(NO_NUMBER, request))
            raise

    def _obtain(self, request: Request, deadline: float) -> Obtained:
        sent = steady()
        if deadline <= sent:
            return Obtained(self.acquire(request), sent)
        while True:
            try:
                return self._queue_and_wait(request, deadline)
            except LockRefused as refused:
                if not waits_outside(refused) or steady() + PAUSE_SECONDS > deadline:
                    self._guards.leave_line(request.id)
                    raise
                time.sleep(PAUSE_SECONDS)

    # ---------------------------------------------------------------- steps, none of which waits

    def acquire(self, request: Request) -> Grant:
        """All that is wanted, at once; LockRefused otherwise."""
        if not self._guards.check(request):
            return _told(self._store.acquire(request))
        for left in reversed(range(BRIEF_TRIES)):
            try:
                with self._guards.reserving(request):
                    return self._guarded(request, self._store.acquire(request))
            except GuardsBusy as busy:
                if self._is_blocked(request):
                    return self._guarded(request, self._store.acquire(request))
                if not left:
                    raise LockRefused(request, busy.blockers) from busy
            time.sleep(BRIEF_SECONDS)
        raise AssertionError("unreachable")

    def queue_up(self, request: Request) -> Grant | Ticket:
        """As `acquire`, but a place at the end of the queue. LockRefused by guards alone: ask again, soon."""
        if not self._guards.check(request):
            result = self._store.queue_up(request)
            return result if isinstance(result, Ticket) else _told(result)
        try:
            with self._guards.reserving(request, waits=True):
                return self._queued(request)
        except GuardsBusy as busy:
            # Who stands further back in the line of this process must not overtake on the way into the queue.
            if self._guards.is_first(request) and self._is_blocked(request):
                try:
                    return self._queued(request)
                finally:
                    self._guards.leave_line(request.id)
            raise LockRefused(request, busy.blockers) from busy

    def take_turn(self, ticket: Ticket) -> Grant | None:
        """The grant if it is the ticket's turn and no program outside is in the way, else None; the place is kept."""
        try:
            return self._step(ticket, self._store.take_turn)
        except GuardsBusy:
            self._store.keep_places([ticket])
            return None

    def give_up(self, ticket: Ticket) -> Grant:
        """The time is over: the grant if it is the ticket's turn after all, else LockRefused."""
        try:
            grant = self._step(ticket, self._store.give_up)
        except GuardsBusy as busy:
            self._store.withdraw(ticket)
            raise LockRefused(ticket.request, busy.blockers) from busy
        return grant or ()  # A store that gives up refuses or grants.

    def _step(self, ticket: Ticket, ask: Callable[[Ticket], Grant | None]) -> Grant | None:
        """What the store answers, with real locks under a grant. GuardsBusy, and it is not asked, otherwise."""
        if not self._guards.check(ticket.request):
            grant = ask(ticket)
            return _told(grant) if grant else None
        if self._store.sleeps_in_turn:  # No real lock is held while somebody waits.
            grant = ask(ticket)
            return self._guarded(ticket.request, grant) if grant else None
        with self._guards.reserving(ticket.request):
            grant = ask(ticket)
            return self._guarded(ticket.request, grant) if grant else None

    def _queued(self, request: Request) -> Grant | Ticket:
        result = self._store.queue_up(request)
        return result if isinstance(result, Ticket) else self._guarded(request, result)

    def _is_blocked(self, request: Request) -> bool:
        """Whether the store itself has a reason to refuse: its answer then says who is in the way."""
        wanted = [want.resource for want in request.wants]
        try:
            held = [lock for each in wanted for lock in self._store.list(LockFilter(resource=each))]
            waiting = [waiter for each in wanted for waiter in self._store.waiters(each)]
        except NotAllowed:  # Then only the answer itself can tell.
            return True
        return not decide(request, held, waiting).granted

    # ---------------------------------------------------------------- waiting

    def _queue_and_wait(self, request: Request, deadline: float) -> Obtained:
        result = self._join_queue(request, deadline)
        return self._wait_in_queue(result, deadline) if isinstance(result, Ticket) else result

    def _join_queue(self, request: Request, deadline: float) -> Obtained | Ticket:
        """Join the queue; again while there is time to wait, when the store did nothing because it was busy or away."""
        while True:
            sent = steady()
            try:
                result = self.queue_up(request)
            except StoreUnavailable as error:
                if error.outcome != "none" or steady() + PAUSE_SECONDS > deadline:
                    raise
                event("lock.wait_interrupted", client=request.client, why=str(error))
                time.sleep(PAUSE_SECONDS)
            else:
                return result if isinstance(result, Ticket) else Obtained(result, sent)

    def _wait_in_queue(self, ticket: Ticket, deadline: float) -> Obtained:
        event("lock.waiting", client=ticket.request.client, ticket=ticket.number)
        try:
            while (left := deadline - steady()) > 0:
                obtained = self._wait_a_while(ticket, min(left, SIGN_OF_LIFE_SECONDS))
                if obtained:
                    return obtained
            sent = steady()
            return Obtained(self.give_up(ticket), sent)
        except LockRefused:
            raise
        except BaseException:
            try:
                self._store.withdraw(ticket)
            except StoreUnavailable:
                self._undo_later(ticket)
            raise

    def _undo_later(self, ticket: Ticket) -> None:
        """A place lapses by itself, and so does a leased lock; a persistent one would stay."""
        undo_later(ticket.request.id, self._store, lambda: self._store.withdraw(ticket))

    def _wait_a_while(self, ticket: Ticket, seconds: float) -> Obtained | None:
        try:
            self._store.await_turn(ticket, seconds)
            sent = steady()
            grant = self._step(ticket, self._store.take_turn)
        except GuardsBusy:
            with suppress(StoreUnavailable):
                self._store.keep_places([ticket])
            time.sleep(min(PAUSE_SECONDS, seconds))
            return None
        except StoreUnavailable as error:  # It may be back before the time to wait is over.
            event("lock.wait_interrupted", client=ticket.request.client, why=str(error))
            time.sleep(min(PAUSE_SECONDS, seconds))
            return None
        return Obtained(grant, sent) if grant else None

    # ---------------------------------------------------------------- guards

    def _guarded(self, request: Request, grant: Grant) -> Grant:
        """The grant with real locks under it; LockRefused, and it is given back, when one of them is busy."""
        busy = self._guard(grant)
        if not busy:
            return _told(grant)
        failed = self._give_back(grant)
        raise failed[0] if failed else LockRefused(request, busy)

    def _guard(self, grant: Grant) -> list[Blocker]:
        """Put real locks under the granted ones. Returns what was busy; what breaks is given back and raised."""
        busy: list[Blocker] = []
        try:
            for lock in grant:
                if self._guards.covers(lock.resource):
                    busy += self._guard_one(lock)
        except BaseException as error:
            for failed in self._give_back(grant):
                error.add_note(str(failed))
            raise
        return busy

    def _guard_one(self, lock: Lock) -> list[Blocker]:
        try:
            self._guards.take(lock)
        except GuardBusy as error:
            return [Blocker("guard", lock.resource, "", lock.mode, note=str(error))]
        return []

    def _give_back(self, grant: Grant) -> list[HeadgateError]:
        """Everything, whatever fails on the way. Returns what failed."""
        failed: list[HeadgateError] = []
        for lock in grant:
            try:
                self._guards.leave(lock.id, lock.request_id)
            except StorageGuardFailed as error:
                failed.append(error)
            try:
                self._store.release(lock.id, lock.token)
            except HeadgateError as error:
                failed.append(error)
        return failed


def waits_outside(refused: LockRefused) -> bool:
    """Whether only programs outside Headgate are in the way: asking again soon is all that can be done."""
    return bool(refused.blockers) and all(blocker.kind == "guard" for blocker in refused.blockers)


def _told(grant: Grant) -> Grant:
    for lock in grant:
        event(
            "lock.granted",
            lock=lock.id, resource=lock.resource, client=lock.client, mode=lock.mode, token=lock.token,
        )  # fmt: skip
    return grant

"""Waiting for locks: one request, from joining the queue to the grant, in steps that never wait.

Callers take steps until one returns the grant, and sleep in between until they are woken, or for as long as the step
says. The library sleeps in the calling thread (`obtain`), the service in a task of its event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.calls.deadlines import within
from headgate.core.errors import LockRefused, StoreUnavailable
from headgate.core.locks.model import Request
from headgate.core.locks.tickets import Granted, Ticket
from headgate.service.guards.keeper import GuardsBusy
from headgate.service.leases.clock import steady
from headgate.service.locks.obtaining import Obtained, Obtaining
from headgate.service.locks.undoing import keep, undo_later
from headgate.telemetry import event

#: The number of a queue position that may have been taken, when its number is not known.
NO_NUMBER = 0
#: A waiter sends a sign of life to the store at least this often.
SIGN_OF_LIFE_SECONDS = 3.0
#: The pause before an unavailable store, or a busy guard, is retried.
PAUSE_SECONDS = 0.2
#: The pause before the next check after a turn that had not come.
SOON_SECONDS = 0.001


class LockWait:
    """One waiting request, and its state so far. Its steps are taken one after another, in any thread."""

    def __init__(
        self,
        obtaining: Obtaining,
        request: Request,
        deadline: float,
        wake: Callable[[], None],
        *,
        ticket: Ticket | None = None,
        kept: bool = False,
    ) -> None:
        """`wake` is called, from any thread, when it is time for the next step. `ticket`: its existing position.
        `kept`: the caller sends the waiter's signs of life.
        """
        self.request = request
        self.deadline = deadline
        #: Its position in the queue; None: it has none yet.
        self.ticket = ticket
        self._obtaining = obtaining
        self._store = obtaining.store
        self._wake = wake
        self._listens = False
        self._signs_off = float("inf") if kept else steady() + SIGN_OF_LIFE_SECONDS
        self._kept = kept
        self._grant: Granted = ()

    def step(self, *, woken: bool = False) -> Obtained | float:
        """The grant, or the maximum seconds to sleep. LockRefused: it left the queue. StoreUnavailable."""
        with self._in_time():
            try:
                found = self._join() if self.ticket is None else self._try_turn(self.ticket, woken=woken)
            except LockRefused as refused:
                self._leave_queue()
                if not waits_outside(refused) or steady() + PAUSE_SECONDS > self.deadline:
                    self._obtaining.leave_line(self.request)
                    raise
                return PAUSE_SECONDS
        if not isinstance(found, float):
            self._grant = found.grant
        return found

    def give_up(self) -> Obtained:
        """The time is over: the grant if it is the turn after all, else LockRefused."""
        if self.ticket is None:
            raise TypeError("it has no queue position")
        with self._in_time():
            found = self._obtaining.give_up(self.ticket)
        self._grant = found.grant
        return found

    def withdraw(self) -> None:
        """Undo the request: leave the queue, and release what was granted."""
        self._obtaining.leave_line(self.request)
        if self._grant:
            self._obtaining.give_back(self._grant)
        elif ticket := self.ticket:
            try:
                self._store.withdraw(ticket)
            except StoreUnavailable:
                undo_later(self.request.id, self._store, lambda: self._store.withdraw(ticket))

    def _in_time(self) -> within:
        """Every step ends before the caller must get its answer."""
        return within(max(self.deadline - steady(), 0.0) + self._obtaining.answer_within)

    def _join(self) -> Obtained | float:
        """Join the queue; retry while there is time to wait, if the store did nothing because it was busy or
        unavailable.
        """
        try:
            result = self._obtaining.queue_up(self.request)
        except StoreUnavailable as error:
            if error.outcome != "none" or steady() + PAUSE_SECONDS > self.deadline:
                raise
            return self._interrupted(error)
        if not isinstance(result, Ticket):
            return result
        self.ticket = result
        if self._obtaining.records:
            event("lock.waiting", client=self.request.client, ticket=result.number)
        return 0.0

    def _try_turn(self, ticket: Ticket, *, woken: bool) -> Obtained | float:
        try:
            if not self._listens:
                self._store.listen(ticket, self._wake)
                self._listens = True
            now = steady()
            if not woken and now < self._signs_off and (pause := self._store.look(ticket)) > 0:
                return min(pause, max(self._signs_off - now, 0.0))
            if not self._kept:
                self._signs_off = steady() + SIGN_OF_LIFE_SECONDS
            return self._obtaining.take_turn(ticket) or SOON_SECONDS
        except GuardsBusy:
            return self._keep_place(ticket)
        except StoreUnavailable as error:  # It may be back before the time to wait is over.
            return self._interrupted(error)

    def _keep_place(self, ticket: Ticket) -> float:
        try:
            self._store.keep_places([ticket])
        except StoreUnavailable as error:
            return self._interrupted(error)
        return PAUSE_SECONDS

    def _interrupted(self, error: StoreUnavailable) -> float:
        event("lock.wait_interrupted", client=self.request.client, why=str(error))
        return PAUSE_SECONDS

    def _leave_queue(self) -> None:
        self.ticket, self._listens = None, False


def obtain(obtaining: Obtaining, request: Request, deadline: float) -> Obtained:
    """Wait in this thread until the deadline (steady). Returns the grant; raises LockRefused, and nothing is taken.

    Raises StoreUnavailable at the latest `answer_within` seconds after the deadline. If the outcome is unknown, a grant
    is released in the background, unless the caller retries with the same request id.
    """
    keep(request.id)
    store = obtaining.store
    try:
        with within(max(deadline - steady(), 0.0) + obtaining.answer_within):
            sent = steady()
            if deadline <= sent:
                return Obtained(obtaining.acquire(request), sent)
            return _wait(obtaining, request, deadline)
    except StoreUnavailable as error:
        error.request_id = request.id
        if error.outcome != "none" and request.fresh:
            undo_later(request.id, store, lambda: store.withdraw(Ticket(NO_NUMBER, request)))
        raise


def _wait(obtaining: Obtaining, request: Request, deadline: float) -> Obtained:
    """Take steps, and sleep in between in this thread."""
    signal, woken = threading.Event(), False
    waiting = LockWait(obtaining, request, deadline, signal.set)
    try:
        while waiting.ticket is None or steady() < deadline:
            found = waiting.step(woken=woken)
            if isinstance(found, Obtained):
                return found
            woken = signal.wait(min(found, max(deadline - steady(), 0.0)))
            if woken:  # Otherwise it may just be set.
                signal.clear()
        return waiting.give_up()
    except LockRefused:
        raise
    except BaseException:
        waiting.withdraw()
        raise


def waits_outside(refused: LockRefused) -> bool:
    """Whether only programs outside Headgate block it: then only retrying soon can help."""
    return bool(refused.blockers) and all(blocker.kind == "guard" for blocker in refused.blockers)

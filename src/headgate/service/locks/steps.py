"""The steps of waiting for locks, for a service whose callers wait without a thread."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.locks.model import Request
from headgate.core.locks.tickets import Granted, Ticket
from headgate.service.guards.keeper import GuardKeeper, GuardsBusy
from headgate.service.locks.obtaining import Obtaining
from headgate.service.locks.waiting import LockWait


class LockSteps:
    """Each step of a request that was created and checked elsewhere; none of them waits."""

    def __init__(self, obtaining: Obtaining, guards: GuardKeeper) -> None:
        self._obtaining = obtaining
        self._store = obtaining.store
        self._guards = guards

    def grant(self, request: Request) -> Granted:
        """Return the grant for a request that was made elsewhere, or raise LockRefused; never waits."""
        return self._obtaining.acquire(request)

    def queue_up(self, request: Request) -> Granted | Ticket:
        """Return the grant, or a ticket at the end of the queue. If only guards block it, raises LockRefused: retry
        soon.
        """
        found = self._obtaining.queue_up(request)
        return found if isinstance(found, Ticket) else found.grant

    def place_of(self, request: Request) -> Ticket | None:
        """Return the ticket of this request; None: it has none that this process can see."""
        return self._store.place_of(request)

    def waiting(
        self, request: Request, deadline: float, wake: Callable[[], None], ticket: Ticket | None = None
    ) -> LockWait:
        """Wait for a request in steps until the deadline (steady); `wake` is called when the next step is due.

        The caller keeps the queue position alive. `ticket`: the existing position of the request.
        """
        return LockWait(self._obtaining, request, deadline, wake, ticket=ticket, kept=True)

    def take_turn(self, ticket: Ticket) -> Granted | None:
        """Return the grant if the ticket is first and no guard blocks it, else None; the ticket stays valid."""
        try:
            found = self._obtaining.take_turn(ticket)
        except GuardsBusy:
            self._store.keep_places([ticket])
            return None
        return found.grant if found else None

    def give_up(self, ticket: Ticket) -> Granted:
        """Leave the queue. Returns the grant if the ticket became first meanwhile, else raises LockRefused."""
        return self._obtaining.give_up(ticket).grant

    def withdraw(self, request: Request, ticket: Ticket) -> None:
        """Leave the queue, whether or not the request was granted."""
        self._guards.leave_line(request.id)
        self._store.withdraw(ticket)

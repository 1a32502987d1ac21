"""The steps of waiting for locks, for a service whose callers wait without a thread."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.locks import Request
from headgate.core.tickets import Grant, Ticket
from headgate.service.guard_keeper import GuardKeeper, GuardsBusy
from headgate.service.obtaining import Obtaining
from headgate.service.waiting import Waiting


class LockSteps:
    """Each step of a request that was made and checked elsewhere; none of them waits."""

    def __init__(self, obtaining: Obtaining, guards: GuardKeeper) -> None:
        self._obtaining = obtaining
        self._store = obtaining.store
        self._guards = guards

    def grant(self, request: Request) -> Grant:
        """Return what is asked for, at once; LockRefused otherwise."""
        return self._obtaining.acquire(request)

    def queue_up(self, request: Request) -> Grant | Ticket:
        """As `grant`, but a place at the end of the queue. LockRefused by guards alone: ask again, soon."""
        found = self._obtaining.queue_up(request)
        return found if isinstance(found, Ticket) else found.grant

    def place_of(self, request: Request) -> Ticket | None:
        """The place that this very request has in the queue; None: none that is seen from here."""
        return self._store.place_of(request)

    def waiting(
        self, request: Request, deadline: float, wake: Callable[[], None], ticket: Ticket | None = None
    ) -> Waiting:
        """Wait for a request in steps until the deadline (steady); `wake` is called when it is time for the next one.

        The caller keeps the place alive. `ticket`: the place that the request has already.
        """
        return Waiting(self._obtaining, request, deadline, wake, ticket=ticket, kept=True)

    def take_turn(self, ticket: Ticket) -> Grant | None:
        """The grant if it is the ticket's turn and no program outside is in the way, else None; the place is kept."""
        try:
            found = self._obtaining.take_turn(ticket)
        except GuardsBusy:
            self._store.keep_places([ticket])
            return None
        return found.grant if found else None

    def give_up(self, ticket: Ticket) -> Grant:
        """Leave the queue: the grant if it is the ticket's turn after all, else LockRefused."""
        return self._obtaining.give_up(ticket).grant

    def withdraw(self, request: Request, ticket: Ticket) -> None:
        """Leave the queue, whatever happened."""
        self._guards.leave_line(request.id)
        self._store.withdraw(ticket)

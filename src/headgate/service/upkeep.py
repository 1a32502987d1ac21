"""What a running service does for the store that it speaks for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from headgate.core.locks.tickets import Ticket
from headgate.service.history import overdue
from headgate.service.leases.clock import wall
from headgate.stores.store import Store
from headgate.telemetry import event


class Upkeep:
    """The upkeep of one store."""

    def __init__(self, store: Store, history_keep: float | None, log_keep: float | None) -> None:
        """How long history and logs are kept, in seconds; None: forever."""
        self._store = store
        self._history_keep, self._log_keep = history_keep, log_keep
        #: What errors call the store, and the four letters that its lock ids begin with.
        self.name, self.tag = store.name, store.tag
        #: How many calls one process should send at a time.
        self.side_by_side = store.side_by_side

    def ping(self) -> None:
        """Raise StoreUnavailable when the store does not answer."""
        self._store.ping()

    def sign_of_life(self, tickets: Sequence[Ticket]) -> None:
        """Record that this service is running, and that the waiters with these tickets are alive."""
        if tickets:
            self._store.locks.keep_places(tickets)
        if self._store.outages is not None:
            self._store.outages.tell_alive()

    def history_overdue(self) -> timedelta:
        """Return how long ago the oldest entry of the history should have been removed; not positive: none should."""
        return overdue(self._store.history.books, self._history_keep, wall())

    def logs_overdue(self) -> timedelta:
        """Return the same for the oldest log."""
        return overdue([] if self._store.logs is None else [self._store.logs], self._log_keep, wall())

    def bridge_outage(self) -> None:
        """Extend leases by the time without a service, in which nobody could renew them."""
        if self._store.outages is not None:
            event("http.outage_bridged", seconds=self._store.outages.bridge())

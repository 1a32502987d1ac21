"""The tasks of a running service for the store behind it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from headgate.core.locks.tickets import Ticket
from headgate.service.history import overdue
from headgate.service.leases.clock import wall
from headgate.stores.store import Store
from headgate.telemetry import event


class Upkeep:
    """The tasks for one store."""

    def __init__(self, store: Store, history_keep: float | None, log_keep: float | None) -> None:
        """The retention times of history and logs, in seconds; None: forever."""
        self._store = store
        self._history_keep, self._log_keep = history_keep, log_keep
        #: The store's name in error messages, and the prefix of its lock ids.
        self.name, self.tag = store.name, store.tag
        #: Number of calls that one process should send at a time.
        self.side_by_side = store.side_by_side

    def ping(self) -> None:
        """Raise StoreUnavailable when the store does not answer."""
        self._store.ping()

    def sign_of_life(self, tickets: Sequence[Ticket]) -> None:
        """Record that this service is running, and that the waiters with these tickets are alive."""
        if tickets:
            self._store.locks.keep_places(tickets)
        if self._store.outages is not None:
            self._store.outages.report_alive()

    def history_overdue(self) -> timedelta:
        """Return how overdue the removal of the oldest history entry is; not positive: none is overdue."""
        return overdue(self._store.history.books, self._history_keep, wall())

    def logs_overdue(self) -> timedelta:
        """Return the same for the oldest log."""
        return overdue([] if self._store.logs is None else [self._store.logs], self._log_keep, wall())

    def bridge_outage(self) -> None:
        """Extend leases by the time without a service, in which they could not be renewed."""
        if self._store.outages is not None:
            event("http.outage_bridged", seconds=self._store.outages.bridge())

"""Which consumers process which steps: daemons register, and other consumers are noted when they ask for work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from headgate.core.daemons import Daemon
from headgate.core.errors import BadValue, HeadgateError
from headgate.core.values.names import check_name
from headgate.service.checks import check_names, check_positive_lease
from headgate.service.leases.clock import steady
from headgate.stores.ports.queue import QueueStore

#: A dead daemon must not appear alive for longer.
LONGEST_LEASE_SECONDS = 86_400.0
#: Seconds for which a consumer that asked for work counts as available.
ASKED_LEASE_SECONDS = 600.0
#: It is noted once in this many seconds.
NOTED_SECONDS = 60.0
#: Maximum number of consumers that are remembered.
MOST_NOTED = 1000


class Presence:
    """The registry of a queue's workers, as one process reports them to the store."""

    def __init__(self, store: QueueStore, *, notes: bool) -> None:
        self._store = store
        #: Whether consumers are noted; a service notes those that ask it.
        self._notes = notes
        self._noted: dict[tuple[str, str], float] = {}

    def sign_on(self, daemon: Daemon) -> None:
        """Renew the lease of a daemon."""
        check_name("daemon", daemon.id)
        check_name("worker", daemon.worker)
        lease = check_positive_lease(daemon.lease)
        if lease > LONGEST_LEASE_SECONDS:
            raise BadValue("lease", lease, "is too long; a daemon renews its lease at least once a day")
        given = replace(daemon, steps=tuple(dict.fromkeys(check_names("steps", daemon.steps))), lease=lease)
        self._store.sign_on(given)
        for step in given.steps:
            self._remember(given.worker, step, given.lease)

    def sign_off(self, daemon_id: str) -> None:
        """A daemon has ended."""
        self._store.sign_off(check_name("daemon", daemon_id))

    def living(self) -> Sequence[Daemon]:
        """The daemons with a valid lease, by id."""
        return self._store.daemons()

    def asked(self, worker: str, step: str) -> None:
        """A consumer asked for work and got none. If the store is unavailable, this is recorded the next time."""
        if not self._notes or self._noted.get((worker, step), 0.0) > steady():
            return
        self._remember(worker, step, NOTED_SECONDS)
        with suppress(HeadgateError):
            self._store.sign_on(Daemon(f"{step} {worker}"[:255], worker, (step,), ASKED_LEASE_SECONDS))

    def _remember(self, worker: str, step: str, seconds: float) -> None:
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted[worker, step] = steady() + seconds

"""A service, and the root of the store behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.client.connection import Connection
from headgate.client.history import ServiceHistory
from headgate.client.inventory import ServiceInventory
from headgate.client.ledger import ServiceLedger
from headgate.client.locks import ServiceLocks
from headgate.client.queue import ServiceQueue
from headgate.client.sending import send
from headgate.client.tokens import ServiceSessions, ServiceTokens
from headgate.operations import locks, whole
from headgate.stores.base import SIDE_BY_SIDE

if TYPE_CHECKING:
    from headgate.client.ingest import RemoteAlarms, ServiceIngest
    from headgate.stores.history import HistoryKeeper, HistorySource


class RemoteService:
    """One service: the store that it speaks for, and what it does itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        about = send(connection, whole.about)
        self.store = ServiceStore(connection, about)
        #: URI schemes whose storage guards the service keeps.
        self.guards = tuple(about.get("guards", ()))
        self.tokens = ServiceTokens(connection)
        self.sessions = ServiceSessions(connection)

    @cached_property
    def ingest(self) -> ServiceIngest:
        """What the service does for ingest."""
        from headgate.client.ingest import ServiceIngest

        return ServiceIngest(self._connection)

    @cached_property
    def alarms(self) -> RemoteAlarms:
        """What the service finds stuck."""
        from headgate.client.ingest import RemoteAlarms

        return RemoteAlarms(self._connection)

    def unguarded(self) -> Sequence[tuple[str, str]]:
        """Locks without the storage guard that the service should keep, each with what is wrong."""
        return [(each.lock, each.what) for each in send(self._connection, locks.unguarded)]


class ServiceStore:
    """The store behind a service. What only its own processes use is not reached from here."""

    side_by_side = SIDE_BY_SIDE
    tokens, sessions, repeats, epochs, outages, keeper = None, None, None, None, None, None

    def __init__(self, connection: Connection, about: Mapping[str, Any]) -> None:
        self.name, self.tag = connection.name, str(about["tag"])
        self.parts = (self,)
        self.locks = ServiceLocks(connection, self.tag)
        self.history = ServiceHistory(connection)
        self.queue = ServiceQueue(connection, str(about["spelling"]))
        self.ledger = ServiceLedger(connection) if about["ledger"] else None
        self.inventory = ServiceInventory(connection) if about["inventory"] else None
        self._connection = connection

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Nothing to do: the service reads all of its history."""

    def history_sources(self) -> Sequence[HistorySource]:
        """Return nothing: the service's own daemons move its history."""
        return ()

    def files(self) -> Sequence[Path]:
        """Return nothing: its files are the service's own."""
        return ()

    def notices(self) -> Sequence[str]:
        """Return nothing: the service knows how its store is reached."""
        return ()

    def ping(self) -> None:
        """Ask for the shortest answer there is."""
        send(self._connection, whole.about)

    def close(self) -> None:
        """Close connections."""
        self._connection.close()

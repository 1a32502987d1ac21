"""A service as the root of a gate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.client.connection import ServiceConnection
from headgate.client.history import RemoteHistory
from headgate.client.inventory import RemoteInventory
from headgate.client.sending import send
from headgate.client.tokens import ServiceSessions, ServiceTokens
from headgate.operations import whole

if TYPE_CHECKING:
    from headgate.client.expectations import RemoteExpectations
    from headgate.client.incidents import RemoteIncidents
    from headgate.client.ingest import RemoteAlarms, ServiceIngest
    from headgate.client.ledger import RemoteLedger
    from headgate.client.locks import RemoteLocks
    from headgate.client.queue import RemoteQueue
    from headgate.client.watches import RemoteWatches
    from headgate.settings import Settings


class RemoteService:
    """One service: its own operations, and the properties of the store that it represents."""

    #: Its own processes raise its tokens.
    epochs = None

    def __init__(self, connection: ServiceConnection) -> None:
        about = send(connection, whole.about)
        self.name, self.tag = connection.name, str(about["tag"])
        self.connection = connection
        #: URI schemes with storage guards at the service.
        self.guards = tuple(about.get("guards", ()))
        self.history = RemoteHistory(connection)
        #: The spelling of the states in its queue.
        self.spelling = str(about["spelling"])
        self.keeps_ledger = bool(about["ledger"])
        self.inventory = RemoteInventory(connection) if about["inventory"] else None
        self.tokens = ServiceTokens(connection)
        self.sessions = ServiceSessions(connection)

    def locks(self, settings: Settings, guards: Sequence[str]) -> RemoteLocks:
        """Build the locks, with the storage guards of this process."""
        from headgate.client.locks import RemoteLocks
        from headgate.service.guards.keeper import GuardKeeper
        from headgate.service.guards.kinds import load_guards

        keeper, most = GuardKeeper(load_guards(list(guards))), settings.count("resource_limit")
        return RemoteLocks(self.connection, keeper, settings.seconds("lock_delay"), most)

    def ledger(self, settings: Settings) -> RemoteLedger | None:
        """Build the ledger; secrets are sealed and opened here. None if the service has none."""
        from headgate.client.ledger import RemoteCustody, RemoteLedger
        from headgate.service.secrets.use_cases import Secrets

        if not self.keeps_ledger:
            return None
        secrets = Secrets(RemoteCustody(self.connection), settings)
        return RemoteLedger(self.connection, secrets, settings.variables("job_variables"), settings.log_keep)

    @property
    def watches(self) -> RemoteWatches | None:
        """The watchers; None if the service has no ledger."""
        from headgate.client.watches import RemoteWatches

        return RemoteWatches(self.connection) if self.keeps_ledger else None

    @cached_property
    def incidents(self) -> RemoteIncidents:
        """Incidents of the service's ledger."""
        from headgate.client.incidents import RemoteIncidents

        return RemoteIncidents(self.connection)

    @cached_property
    def expectations(self) -> RemoteExpectations:
        """Expectations of the service's ledger."""
        from headgate.client.expectations import RemoteExpectations

        return RemoteExpectations(self.connection)

    @cached_property
    def queue(self) -> RemoteQueue:
        """The queue; the service manages the profiles."""
        from headgate.client.queue import RemoteQueue

        return RemoteQueue(self.connection, self.spelling)

    @cached_property
    def ingest(self) -> ServiceIngest:
        """Ingest at the service."""
        from headgate.client.ingest import ServiceIngest

        return ServiceIngest(self.connection)

    @cached_property
    def alarms(self) -> RemoteAlarms:
        """Alarms of the service."""
        from headgate.client.ingest import RemoteAlarms

        return RemoteAlarms(self.connection)

    def files(self) -> Sequence[Path]:
        """Return nothing: its files belong to the service."""
        return ()

    def notices(self) -> Sequence[str]:
        """Return nothing: the service itself reports about the connection to its store."""
        return ()

    def ping(self) -> None:
        """Send the shortest possible request."""
        send(self.connection, whole.about)

    def close(self) -> None:
        """Close connections."""
        self.connection.close()

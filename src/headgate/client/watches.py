"""The watchers of a service. A watcher works on the store itself: a service does not read its callers' folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from headgate.client.connection import ServiceConnection
from headgate.client.sending import send
from headgate.core.errors import BadValue
from headgate.core.ledger.watches.model import Sighting, Watcher
from headgate.operations import daemons
from headgate.service.ledger.watches import Watches


class RemoteWatches(Watches):
    """The watchers of a service: listing and removing them."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    def list(self) -> Sequence[Watcher]:
        found: Sequence[Watcher] = send(self._connection, daemons.watchers)
        return found

    def forget(self, dataset: str, *, reason: str, by: str | None = None) -> None:
        del by  # The service knows the caller.
        send(self._connection, daemons.forget_watcher, dataset=dataset, reason=reason)

    def take_turn(self, seen: Sighting) -> NoReturn:
        del seen
        raise BadValue(
            "url", self._connection.name, "is a service; a watcher works on the store itself: name its URL with --url"
        )

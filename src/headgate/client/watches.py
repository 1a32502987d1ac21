"""The watchers of a service. A watcher works on the store itself: a service does not read its callers' folders."""

from __future__ import annotations

from typing import NoReturn

from headgate.client.sending import ServicePart, remote
from headgate.core.errors import BadValue
from headgate.core.ledger.watches.model import Sighting
from headgate.operations import daemons
from headgate.service.ledger.watches import Watches


@remote("watches", daemons.declared)
class RemoteWatches(ServicePart, Watches):
    """The watchers of a service: listing and removing them."""

    def take_turn(self, seen: Sighting) -> NoReturn:
        del seen
        raise BadValue(
            "url", self.connection.name, "is a service; a watcher works on the store itself: name its URL with --url"
        )

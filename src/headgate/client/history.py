"""The history of a service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headgate.client.sending import ServicePart, same_as, send, send_pages
from headgate.core.history import Happened, HistoryPage
from headgate.operations import whole
from headgate.service.checks import check_limit
from headgate.service.history import History
from headgate.stores.ports.history import HistoryBook


class RemoteHistory(ServicePart, History):
    """Pages and counts, as returned by the service."""

    @same_as(History.__call__)
    def __call__(self, *, limit: int, **which: Any) -> HistoryPage:
        page = send_pages(self.connection, whole.history, **which, limit=check_limit(limit))
        return HistoryPage(page.items, page.next)

    @property
    def books(self) -> Sequence[HistoryBook]:
        """Return None: the service's own processes follow them."""
        return ()

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        found: Sequence[Happened] = send(self.connection, whole.history_counts, since=since, event=events)
        return found

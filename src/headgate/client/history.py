"""The history behind a service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headgate.client.connection import MOST, Connection
from headgate.client.sending import send, send_page
from headgate.core.history import Entry, Happened, HistoryPage
from headgate.operations import whole
from headgate.service.checks import check_limit
from headgate.service.history import History
from headgate.stores.history import HistoryBook


class RemoteHistory(History):
    """Pages and counts, as the service reads them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(  # noqa: PLR0913 - each is a filter by its name
        self,
        resource: str | None = None,
        client: str | None = None,
        event: str | None = None,
        *,
        noun: str | None = None,
        lock_id: str | None = None,
        job: str | None = None,
        dataid: str | None = None,
        item: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> HistoryPage:
        which = {
            "resource": resource, "client": client, "event": event, "noun": noun, "lock_id": lock_id, "job": job,
            "dataid": dataid, "item": item, "since": since, "until": until,
        }  # fmt: skip
        most = check_limit(limit)
        found: list[Entry] = []
        while len(found) < most:
            page = send_page(self._connection, whole.history, **which, after=after, limit=min(most - len(found), MOST))
            found += page.items
            after = page.next
            if after is None:
                break
        return HistoryPage(found, after)

    @property
    def books(self) -> Sequence[HistoryBook]:
        """Return nothing: the service's own processes follow them."""
        return ()

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        found: Sequence[Happened] = send(self._connection, whole.history_counts, since=since, event=events)
        return found

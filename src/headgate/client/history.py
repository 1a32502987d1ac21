"""The history behind a service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headgate.client.connection import MOST, Connection
from headgate.client.sending import send, send_page
from headgate.core.history import Entry, Happened, HistoryFilter, HistoryPage
from headgate.operations import whole
from headgate.stores.history import HistoryBook


class ServiceHistory:
    """Pages and counts, as the service reads them."""

    #: Its own processes follow them.
    books: Sequence[HistoryBook] = ()

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, which: HistoryFilter, after: str | None = None) -> HistoryPage:
        names = ("event", "resource", "lock_id", "job", "dataid", "item", "client", "since", "until")
        query = {name: getattr(which, name) for name in names}
        noun = which.nouns[0] if which.nouns else None
        found: list[Entry] = []
        while len(found) < which.limit:
            limit = min(which.limit - len(found), MOST)
            page = send_page(self._connection, whole.history, **query, noun=noun, after=after, limit=limit)
            found += page.items
            after = page.next
            if after is None:
                break
        return HistoryPage(found, after)

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        found: Sequence[Happened] = send(self._connection, whole.history_counts, since=since, event=events)
        return found

"""The history behind a service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headgate.client.connection import MOST, Connection
from headgate.core.history import Entry, Happened, HistoryFilter, HistoryPage
from headgate.core.wire import parse, plain
from headgate.stores.history import HistoryBook


class ServiceHistory:
    """Pages and counts, as the service reads them."""

    #: Its own processes follow them.
    books: Sequence[HistoryBook] = ()

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, which: HistoryFilter, after: str | None = None) -> HistoryPage:
        names = ("event", "resource", "lock_id", "job", "dataid", "item", "client", "since", "until")
        query = {name: plain(getattr(which, name)) for name in names}
        noun = which.nouns[0] if which.nouns else None
        found: list[Entry] = []
        while len(found) < which.limit:
            limit = min(which.limit - len(found), MOST)
            page = self._connection.get("history", **query, noun=noun, after=after, limit=limit)
            found += [parse(Entry, each) for each in page["items"]]
            after = page["next"]
            if after is None:
                break
        return HistoryPage(found, after)

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        found = self._connection.pages("history", "counts", since=plain(since), event=list(events))
        return [parse(Happened, each) for each in found]

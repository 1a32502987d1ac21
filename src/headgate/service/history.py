"""The history of all nouns: read page by page, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from headgate.core.errors import BadValue
from headgate.core.history import EVENTS, Entry, Happened, HistoryFilter, HistoryPage
from headgate.core.locks.parsing import parse_lock_id
from headgate.core.queue.model import check_item_id
from headgate.core.values.names import check_name, check_resource
from headgate.core.values.words import check_word
from headgate.service.activity import Activity
from headgate.service.checks import check_limit

if TYPE_CHECKING:
    from headgate.stores.ports.history import HistoryBook, HistoryStore
    from headgate.stores.ports.logs import LogBook

#: Maximum number of entries that are read after a break.
MOST_MISSED = 10_000


class History:
    """The history of locks, chunks, jobs, batches, ingest jobs and holds; `gate.history`.

    :param since: Earliest time.
    """

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

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
        """Return one page of the history, newest first. Raises BadValue for invalid values.

        :param resource: The resource, compared exactly; that of a chunk is `data:DATASET/DATAID`.
        :param client: Name of the client.
        :param event: The event, such as `grant` or `success`.
        :param noun: `lock`, `chunk`, `job`, `batch`, `ingest job` or `hold`.
        :param lock_id: Id of the lock.
        :param job: Name of the job.
        :param dataid: Data id of the chunk.
        :param item: Id of the ingest job, or of the batch, which includes its jobs.
        :param until: Latest time.
        :param after: The `next` of the previous page.
        :param limit: Largest number of entries.
        """
        which = HistoryFilter(
            nouns=() if noun is None else (check_word("noun", noun, tuple(EVENTS)),),
            event=None if event is None else _check_event(event),
            resource=None if resource is None else check_resource(resource),
            lock_id=None if lock_id is None else parse_lock_id(lock_id),
            job=None if job is None else check_name("job", job),
            dataid=None if dataid is None else check_name("dataid", dataid),
            item=None if item is None else check_item_id(item),
            client=None if client is None else check_name("client", client),
            since=check_time("since", since),
            until=check_time("until", until),
            limit=check_limit(limit),
        )
        return self._store.page(which, None if after is None else check_name("after", after))

    @property
    def books(self) -> Sequence[HistoryBook]:
        """The history of each store; empty for a service."""
        return self._store.books

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """Count events by noun and hour.

        :param events: The events to count.
        """
        return self._store.count(since, events)

    @cached_property
    def activity(self) -> Activity:
        """The events of the last day, by hour."""
        return Activity(self.count)


def entries_after(book: HistoryBook, last: int) -> list[Entry]:
    """Return the entries after an id, by id; if there are too many, the newest of them."""
    return sorted(book.read(HistoryFilter(newer=last, limit=MOST_MISSED)), key=lambda entry: entry.id)


def overdue(books: Sequence[HistoryBook | LogBook], keep: float | None, at: datetime) -> timedelta:
    """How overdue the removal of the oldest entry is. `keep`: the retention time in seconds; None: forever."""
    oldest = [] if keep is None else [since for book in books if (since := book.oldest()) is not None]
    return max((at - since - timedelta(seconds=keep or 0) for since in oldest), default=timedelta())


def check_time(name: str, value: object) -> datetime | None:
    """Return a time, or None. Raises BadValue for anything else."""
    if value is None or isinstance(value, datetime):
        return value
    raise BadValue(name, value, "is not a time")


def _check_event(event: str) -> str:
    return check_word("event", event, tuple(dict.fromkeys(each for events in EVENTS.values() for each in events)))

"""Everything that happened, to locks, to chunks and in the queue: their histories read as one, newest first.

Each keeps ids of its own, so a place in the whole is an id of each. Nothing is read that is not shown, but for entries
that a filter leaves out, and of those only so many in one go.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, NamedTuple

from headgate.core.errors import BadValue
from headgate.core.history import Entry
from headgate.core.ledger import parse_chunk_resource
from headgate.core.names import check_name, check_resource
from headgate.core.queue import HOLD_EVENTS, JOB_EVENTS, REPAIR_EVENT, check_item_id
from headgate.core.states import BATCH, CHUNK, INGEST_JOB, LOCK
from headgate.core.words import check_word
from headgate.service.checks import check_limit
from headgate.stores.base import HistoryFilter, LedgerHistoryFilter
from headgate.stores.queue_port import QueueHistoryFilter

#: Entries that one question looks at in each history; beyond, the answer says how far it came.
MOST_LOOKED = 5000
#: Every noun that something may happen to, and the events of each.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "lock": LOCK.told,
    "chunk": CHUNK.told,
    "job": ("pause", "unpause"),
    "batch": (*BATCH.told, REPAIR_EVENT),
    "ingest job": (*INGEST_JOB.told, *JOB_EVENTS, REPAIR_EVENT),
    "hold": HOLD_EVENTS,
}
Ask = Callable[[Any], Sequence[Entry]]
#: Of locks (one, or of two stores that are joined), ledger and queue.
Asks = tuple[Sequence[Ask], Ask | None, Ask]
Filter = HistoryFilter | LedgerHistoryFilter | QueueHistoryFilter
#: Where the next page begins in a history: before that id; None: at its newest.
Mark = int | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries; None: any."""

    noun: str | None = None
    event: str | None = None
    #: A resource, exact; a chunk's is `data:DATASET/DATAID`.
    resource: str | None = None
    #: A job of the ledger, a data id.
    job: str | None = None
    dataid: str | None = None
    #: A batch (with its jobs) or an ingest job.
    item: str | None = None
    #: Who did it, or to whom it happened.
    client: str | None = None
    #: From this time on, and up to this time.
    since: datetime | None = None
    until: datetime | None = None


class Told(NamedTuple):
    """A page of the whole."""

    entries: Sequence[Entry]
    #: Where the next page begins; None: this is the end.
    next: str | None
    #: Set when more would have had to be looked at than is in one go: how far back this page looked.
    looked_to: datetime | None


@dataclass(frozen=True, slots=True)
class Book:
    """One of the histories."""

    ask: Ask
    #: Without filters, and with those that the store knows; None: it has nothing of what is wanted.
    plain: Filter
    filtered: Filter | None

    def page(self, before: Mark, limit: int, *, whole: bool = False) -> Sequence[Entry]:
        """Entries before that one; `whole`: whatever the filters."""
        which = self.plain if whole or self.filtered is None else self.filtered
        return self.ask(replace(which, before=before, limit=limit))

    def place_of(self, until: datetime) -> int:
        """The id before which everything happened up to that time. Ids grow with time: it is searched by halves."""
        newest = self.page(None, 1, whole=True)
        low, high = 0, newest[0].id + 1 if newest else 0
        while low < high:
            middle = (low + high + 1) // 2
            found = self.page(middle, 1, whole=True)
            if not found or found[0].at <= until:
                low = middle
            else:
                high = found[0].id
        return low


@dataclass(slots=True)
class _Read:
    """What was read of a book for one page."""

    found: list[Entry]
    #: Where it stopped looking; None: at the book's end, or at enough.
    cut: Entry | None = None


def read(asks: Asks, which: Wanted, after: str | None = None, limit: int = 100) -> Told:
    """A page of the histories of locks, ledger and queue."""
    _check(which)
    books = _books(asks, which)
    marks = _marks(after, len(books))
    if after is None and which.until is not None:
        marks = [book.place_of(which.until) if book.filtered else 0 for book in books]
    return _page(books, marks, which, check_limit(limit))


def read_locks(asks: Sequence[Ask], which: HistoryFilter, after: str | None = None) -> Told:
    """A page of the histories of locks alone, which two stores that are joined have one each of."""
    books = [Book(ask, HistoryFilter(), which) for ask in asks]
    return _page(books, _marks(after, len(books)), Wanted(since=which.since), check_limit(which.limit))


def _page(books: Sequence[Book], marks: Sequence[Mark], which: Wanted, limit: int) -> Told:
    """The newest entries before these marks. Each book is shown in the order of its ids, whatever its clock did: what
    was shown of it is always its beginning, so that the next page goes on behind it.
    """
    reads = [_read(book, mark, which, limit) for book, mark in zip(books, marks, strict=True)]
    looked_to = max((each.cut.at for each in reads if each.cut), default=None)
    merged = heapq.merge(*(each.found for each in reads), key=lambda entry: entry.at, reverse=True)
    rows = list(islice(takewhile(lambda entry: looked_to is None or entry.at >= looked_to, merged), limit))
    shown = {id(entry) for entry in rows}
    nexts = [_next(each, shown) for each in reads]
    return Told(rows, ".".join(map(str, nexts)) if any(nexts) else None, looked_to)


def _read(book: Book, mark: Mark, which: Wanted, limit: int) -> _Read:
    """One more than a page of what is wanted, or as far as is looked in one go."""
    found: list[Entry] = []
    if book.filtered is None or mark == 0:
        return _Read(found)
    looked = 0
    while True:
        portion = book.page(mark, limit + 1)
        looked += len(portion)
        for entry in portion:
            if which.since is not None and entry.at < which.since:
                return _Read(found)
            if _fits(entry, which):
                found.append(entry)
        if len(portion) <= limit or len(found) > limit:
            return _Read(found[: limit + 1])
        mark = portion[-1].id
        if looked >= MOST_LOOKED:
            return _Read(found, portion[-1])


def _next(read: _Read, shown: set[int]) -> int:
    """Where a book goes on: before the first entry that was not shown; 0 at its end."""
    left = next((entry for entry in read.found if id(entry) not in shown), None)
    if left is not None:
        return left.id + 1
    return 0 if read.cut is None else read.cut.id


def _fits(entry: Entry, which: Wanted) -> bool:
    """What no store filters by."""
    if which.noun not in (None, entry.noun) or which.resource not in (None, entry.resource):
        return False
    return which.until is None or entry.at <= which.until


def _books(asks: Asks, which: Wanted) -> list[Book]:
    locks, ledger, queue = asks
    chunk = parse_chunk_resource(which.resource) if which.resource else None
    common: dict[str, Any] = {"event": which.event, "client": which.client}
    of_chunks = any((which.job, which.dataid))
    lock_book = HistoryFilter(resource=which.resource, **common)
    ledger_book = LedgerHistoryFilter(job=which.job, dataid=chunk[1] if chunk else which.dataid, **common)
    queue_book = QueueHistoryFilter(item=which.item, noun=which.noun, **common)
    no_locks = of_chunks or which.item is not None
    no_chunks = which.item is not None or (which.resource is not None and chunk is None)
    no_queue = of_chunks or which.resource is not None
    return [
        *(Book(each, HistoryFilter(), None if no_locks or not _may(which, "lock") else lock_book) for each in locks),
        Book(ledger or (lambda _which: ()), LedgerHistoryFilter(),
             None if no_chunks or ledger is None or not _may(which, "chunk", "job") else ledger_book),
        Book(queue, QueueHistoryFilter(),
             None if no_queue or not _may(which, "batch", "ingest job", "hold") else queue_book),
    ]  # fmt: skip


def _may(which: Wanted, *nouns: str) -> bool:
    """Whether what is wanted may be among what happens to these."""
    wanted = [noun for noun in nouns if which.noun in (None, noun)]
    return any(which.event is None or which.event in EVENTS[noun] for noun in wanted)


def _check(which: Wanted) -> None:
    events = dict.fromkeys(event for events in EVENTS.values() for event in events)
    for name, value, known in (("noun", which.noun, EVENTS), ("event", which.event, events)):
        if value is not None:
            check_word(name, value, tuple(known))
    for name, value in (("client", which.client), ("job", which.job), ("dataid", which.dataid)):
        if value is not None:
            check_name(name, value)
    if which.resource is not None:
        check_resource(which.resource)
    if which.item is not None:
        check_item_id(which.item)


def _marks(text: str | None, count: int) -> list[Mark]:
    parts = [""] * count if text is None else text.split(".")
    if len(parts) != count or not all(not part or (part.isdecimal() and len(part) < 19) for part in parts):
        raise BadValue("after", text, "is not a cursor of the history; use the `next` of a page")
    return [int(part) if part else None for part in parts]

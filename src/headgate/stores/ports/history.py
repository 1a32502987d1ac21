"""The port of the history: one for all nouns, with pages, counts, removal, and copying to another store."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Protocol

from headgate.core.errors import BadValue
from headgate.core.history import Entry, Happened, HistoryFilter, HistoryPage, HistoryPlace

#: The cursor of a book that has been read to its end.
END = HistoryPlace(0, 0)


class HistoryBook(Protocol):
    """The entries of one store, with their own ids and order."""

    def read(self, which: HistoryFilter) -> Sequence[Entry]:
        """Return the matching entries, newest first."""

    def last(self) -> int:
        """Return the greatest id; 0: there is none."""

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """Return how often each of these events happened in each hour since then."""

    def oldest(self) -> datetime | None:
        """Return the time of the oldest entry that `forget` may remove; None: there is no such entry."""

    def forget(self, until: datetime, limit: int) -> int:
        """Remove at most `limit` entries from before that time, oldest first. Returns how many."""


class HistoryStore(Protocol):
    """The history of a store, or of two that act as one."""

    @property
    def books(self) -> Sequence[HistoryBook]:
        """One for each store; none for the history of a service."""

    def page(self, which: HistoryFilter, after: str | None = None) -> HistoryPage:
        """Return matching entries, newest first, after the cursor `after`. BadValue when that is not a cursor."""

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """Return how often each of these events happened in each hour since then."""


class MergedHistory:
    """Several books read as one, by time. Each keeps its own order, so that a page continues exactly where the last one
    ended.
    """

    def __init__(self, *books: HistoryBook) -> None:
        self.books: Sequence[HistoryBook] = books

    def page(self, which: HistoryFilter, after: str | None = None) -> HistoryPage:
        places = _places(after, len(self.books))
        reads = [
            () if place == END else book.read(replace(which, before=place, limit=which.limit + 1))
            for book, place in zip(self.books, places, strict=True)
        ]
        merged = heapq.merge(*reads, key=lambda entry: entry.at, reverse=True)
        shown = list(islice(merged, which.limit))
        seen = {id(entry) for entry in shown}
        left = [next((entry.place for entry in read if id(entry) not in seen), None) for read in reads]
        return HistoryPage(shown, _cursor(left) if any(left) else None)

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        return [found for book in self.books for found in book.count(since, events)]


def _cursor(left: Sequence[HistoryPlace | None]) -> str:
    """The position at which each book continues: its first entry that was not shown."""
    return "_".join(f"{at}.{number + 1}" for at, number in (place or HistoryPlace(0, -1) for place in left))


def _places(after: str | None, count: int) -> list[HistoryPlace | None]:
    if after is None:
        return [None] * count
    parts = [part.split(".") for part in after.split("_")]
    if len(parts) != count or not all(len(part) == 2 and all(map(_is_number, part)) for part in parts):
        raise BadValue("after", after, "is not a cursor of the history; use the `next` of a page")
    return [HistoryPlace(int(at), int(number)) for at, number in parts]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def all_entries(book: HistoryBook, which: HistoryFilter, portion: int) -> Iterator[Entry]:
    """Every matching entry of a book, newest first, read in portions."""
    before = which.before
    while found := book.read(replace(which, before=before, limit=portion)):
        yield from found
        before = found[-1].place


@dataclass(frozen=True, slots=True)
class Leaf:
    """An entry that is being copied to another store."""

    #: The entry, with its id in its own store.
    entry: Entry
    #: Its name in the store that it leaves.
    name: str
    #: How often it was changed there: refusals are counted.
    version: int
    #: The batch that it belongs to; empty: none.
    batch: str = ""


class HistorySource(Protocol):
    """A store from which entries are moved elsewhere."""

    #: The tag of the store.
    tag: str

    def oldest(self, seconds: float, limit: int) -> Sequence[Leaf]:
        """Return entries that are not needed there and have been unchanged for that long; none: there are no more."""

    def remove(self, leaves: Sequence[Leaf]) -> int:
        """Remove entries that have not changed since they were read. Returns how many. Only for entries that are stored
        elsewhere.
        """


class HistoryKeeper(Protocol):
    """A store that keeps the entries of another one."""

    def copy(self, tag: str, leaves: Sequence[Leaf]) -> None:
        """Store each entry once, however often it is passed; of two counts the later one.

        ForeignStore when its id belongs to another entry.
        """

    def read(self, which: HistoryFilter, tag: str | None = None) -> Sequence[Entry]:
        """Return what was copied from that store, newest first."""

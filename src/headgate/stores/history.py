"""History beside the ports of locks, ledger and queue: how it is counted, and how it moves to where there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from headgate.core.history import Entry
from headgate.stores.base import HistoryFilter, LedgerHistoryFilter
from headgate.stores.queue_port import QueueHistoryFilter

#: Entries that are read at once where a store does not count them itself.
PORTION = 1000
HOUR_SECONDS = 3600


#: How each history is asked.
FILTERS: Mapping[str, Callable[..., Any]] = {
    "locks": HistoryFilter,
    "ledger": LedgerHistoryFilter,
    "queue": QueueHistoryFilter,
}


@dataclass(frozen=True, slots=True)
class Happened:
    """How often an event happened in an hour."""

    noun: str
    event: str
    #: Hours since 1970.
    hour: int
    count: int


@runtime_checkable
class CountsHistory(Protocol):
    """A store that counts the events of its history itself."""

    def happened(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """How often each of these events happened in each hour since then."""


def count_history(of: str, store: Any, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
    """How often each of these events happened in each hour; `of`: what the store keeps, locks, ledger or queue."""
    if isinstance(store, CountsHistory):
        return store.happened(since, events)
    counts: Counter[tuple[str, str, int]] = Counter()
    for event in events:
        before: int | None = None
        while True:
            found: Sequence[Entry] = store.history(FILTERS[of](event=event, since=since, before=before, limit=PORTION))
            for entry in found:
                counts[entry.noun, entry.event, hour_of(entry.at)] += entry.count
            if len(found) < PORTION:
                break
            before = found[-1].id
    return [Happened(*key, count) for key, count in counts.items()]


def hour_of(at: datetime) -> int:
    """The hour of a moment, in hours since 1970."""
    return int(at.timestamp() // HOUR_SECONDS)


@dataclass(frozen=True, slots=True)
class Book:
    """A series of entries whose ids are its own."""

    #: The tag of the store that it began in.
    store: str
    #: What it tells of: locks or queue.
    about: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """An entry on its way."""

    #: With the id that it keeps for ever.
    entry: Entry
    #: What names it in the store that it leaves.
    name: str
    #: How often it was changed there: refusals are counted.
    version: int
    #: The batch that it belongs to; empty: to none.
    batch: str = ""


class HistorySource(Protocol):
    """Where a book is written."""

    book: Book

    def oldest(self, seconds: float, limit: int) -> Sequence[Leaf]:
        """Entries that nobody needs here, and that nothing has touched for so long; none when there are no more."""

    def forget(self, leaves: Sequence[Leaf]) -> int:
        """Gone from here, if unchanged since they were read. Gives how many went. Only for what is kept elsewhere."""


class HistoryKeeper(Protocol):
    """Where books are kept."""

    def keep(self, book: Book, leaves: Sequence[Leaf]) -> None:
        """Each is kept once, however often it is given; of two versions the later. ForeignStore when another entry
        has its id."""

    def read(self, book: Book, which: HistoryFilter | QueueHistoryFilter) -> Sequence[Entry]:
        """What is kept of a book, newest first."""

"""The ports by which old history moves from a store that has little room for it to one that has much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headgate.core.history import Entry
from headgate.stores.base import HistoryFilter
from headgate.stores.queue_port import QueueHistoryFilter


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


@runtime_checkable
class MovesHistory(Protocol):
    """A store whose old history should go elsewhere."""

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Old history may be there: read it too. To be said before anything is asked."""

    def history_sources(self) -> Sequence[HistorySource]:
        """Its books."""


@runtime_checkable
class KeepsHistory(Protocol):
    """A store that has room for the history of others."""

    @property
    def keeper(self) -> HistoryKeeper:
        """Where it is kept."""

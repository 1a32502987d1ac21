"""The ports for moving a whole store: out of a database or a file, into a database or a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from headgate.core.history import Entry
from headgate.core.jumps import Jump
from headgate.core.queue.model import Batch, Hold, IngestJob
from headgate.stores.ports.history import HistoryBook
from headgate.stores.ports.queue import QueueStore

#: A row in JSON types: its values in the order of the table's columns.
Row = Sequence[Any]
#: Number of rows that are read and written at once.
PORTION = 1000


@dataclass(frozen=True, slots=True)
class Contents:
    """A store's description at the moment when its rows were read."""

    #: The version of its schema.
    schema: str
    #: The prefix of its lock ids.
    tag: str
    #: When it was read: microseconds since 1970 (for display), and on the clock of its leases.
    at: int
    now: int
    #: No lock, claim, or owner of a batch or ingest job was issued a greater token.
    token: int
    #: The last numbers issued to batches (bid) and ingest jobs (jid).
    numbers: Mapping[str, int]
    #: How far earlier copies of this store jumped beyond its tokens and ids.
    jumped: Jump
    #: Other facts about the store, by name.
    facts: Mapping[str, str]
    #: Each table with its columns, in the order in which its rows come.
    tables: Mapping[str, Sequence[str]]
    #: Number of rows of each table.
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.counts.values())


@dataclass(slots=True)
class Digest:
    """The digest of a table's rows, independent of their order."""

    rows: int = 0
    _sum: int = field(default=0)

    def add(self, rows: Sequence[Row]) -> None:
        """These too."""
        for row in rows:
            text = json.dumps(list(row), ensure_ascii=False, separators=(",", ":"))
            self._sum = (self._sum + int.from_bytes(sha256(text.encode()).digest())) % 2**256
        self.rows += len(rows)

    @property
    def text(self) -> str:
        """For files and display."""
        return f"{self._sum:064x}"


class Source(Protocol):
    """The source of a move, as it was at one moment."""

    #: Its name in error messages.
    name: str
    contents: Contents

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        """A table's rows, in portions. The tables are requested in the order of the contents."""

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        """Raise HalfMoved when the source changed after it was read, unless that was allowed."""

    def jump(self) -> Jump:
        """Return how far the target's tokens and ids must jump beyond the source's; the jump is recorded for the next
        move.
        """


class Target(Protocol):
    """The target of a move. It cannot be used until it is finished."""

    #: Its name in error messages.
    name: str

    def begin(self, contents: Contents) -> None:
        """Empty, or left by an interrupted attempt with the same store: prepare it for the rows. Otherwise BadValue."""

    def add(self, table: str, rows: Sequence[Row]) -> None:
        """These rows too."""

    def digests(self) -> Iterator[tuple[str, Digest]]:
        """The digest of each table's rows, read again from the target."""

    def finish(self, digests: Mapping[str, Digest], jump: Callable[[], Jump]) -> None:
        """Everything is copied: the store can be used from now on. Its tokens and ids continue that far beyond the
        source's.
        """


class QueuePlace(Protocol):
    """A queue that is moved alone, between stores that keep it differently."""

    #: Its name in error messages.
    name: str
    #: The prefix of the store's lock ids.
    tag: str
    #: Another store is being moved into it, or was and did not finish.
    half_moved: bool

    @property
    def queue(self) -> QueueStore:
        """The queue itself, for reading."""

    @property
    def history(self) -> HistoryBook:
        """The history, for reading."""

    def last_numbers(self) -> Mapping[str, int]:
        """The last numbers issued to batches (bid) and ingest jobs (jid)."""

    def last_token(self) -> int:
        """No lock was granted here with a greater token."""

    def begin(self, tag: str) -> None:
        """If there is no batch, hold or history, or only those of an interrupted attempt from that store: prepare it.
        Otherwise BadValue.
        """

    def put_holds(self, holds: Sequence[Hold]) -> None:
        """These holds too."""

    def put_batches(self, batches: Sequence[Batch]) -> None:
        """Add these batches, not taken by any worker. Their jobs follow later."""

    def put_jobs(self, jobs: Sequence[IngestJob]) -> None:
        """Add these ingest jobs, by id, not taken by any worker."""

    def put_history(self, entries: Sequence[tuple[Entry, str]]) -> None:
        """The history, oldest first: each entry with the batch that it belongs to."""

    def finish(self, numbers: Mapping[str, int], token: int) -> None:
        """Everything is copied: the queue can be used. Ids continue after these numbers; tokens, including those of
        locks, after that one.

        Locks are not moved. But clients that keep them here in future must not get a token that was issued there.
        """

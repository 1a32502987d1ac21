"""The ports by which a whole store moves: out of a database or a file, into a database or a file."""

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

#: A row in the types of JSON: its values in the order of the table's columns.
Row = Sequence[Any]
#: Rows that are read, and written, at once.
PORTION = 1000


@dataclass(frozen=True, slots=True)
class Contents:
    """What a store says about itself at the moment at which its rows were read."""

    #: The version of its schema.
    schema: str
    #: The tag that its lock ids begin with.
    tag: str
    #: When it was so: micro-seconds since 1970 (for people), and on the clock by which its leases run.
    at: int
    now: int
    #: No greater token was given to a lock, to a claim, or to the owner of a batch or an ingest job.
    token: int
    #: The last numbers that were given: of batches (bid), of ingest jobs (jid).
    numbers: Mapping[str, int]
    #: How far earlier copies of this store went beyond its tokens and ids, as far as it is known.
    jumped: Jump
    #: What else is known of the store, by name.
    facts: Mapping[str, str]
    #: Each table with its columns, in the order in which the rows come.
    tables: Mapping[str, Sequence[str]]
    #: How many rows each has.
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.counts.values())


@dataclass(slots=True)
class Digest:
    """The digest of a table's rows, whatever the order in which they are read."""

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
        """For files and people."""
        return f"{self._sum:064x}"


class Source(Protocol):
    """Where a store is read from, as it was at one moment."""

    #: What errors call it.
    name: str
    contents: Contents

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        """A table's rows, in portions. The tables are asked for in the order of the contents."""

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        """Raise HalfMoved when the source changed after it was read, unless that was allowed."""

    def jump(self) -> Jump:
        """Return how far the target's tokens and ids go beyond the source's; remembered for the next move."""


class Target(Protocol):
    """Where a store is written to. Until it is finished, nobody can work with it."""

    #: What errors call it.
    name: str

    def begin(self, contents: Contents) -> None:
        """Empty, or what an interrupted try of the same store left: ready for its rows. Otherwise BadValue."""

    def add(self, table: str, rows: Sequence[Row]) -> None:
        """These rows too."""

    def digests(self) -> Iterator[tuple[str, Digest]]:
        """What each table's rows come to, read again from where they are now."""

    def finish(self, digests: Mapping[str, Digest], jump: Callable[[], Jump]) -> None:
        """All is there: from now on it can be worked with. Its tokens and ids go on that far behind the source's."""


class QueuePlace(Protocol):
    """A queue that moves by itself, between stores that keep it differently."""

    #: What errors call it.
    name: str
    #: What the store's lock ids begin with.
    tag: str
    #: Something is being moved into it, or was, and not to the end.
    half_moved: bool

    @property
    def queue(self) -> QueueStore:
        """The queue itself, for reading."""

    @property
    def history(self) -> HistoryBook:
        """The history, for reading."""

    def last_numbers(self) -> Mapping[str, int]:
        """The last numbers that were given: of batches (bid), of ingest jobs (jid)."""

    def last_token(self) -> int:
        """No lock was granted here with a greater one."""

    def begin(self, tag: str) -> None:
        """No batch, hold or history, or what an interrupted try from that store left: ready. Otherwise BadValue."""

    def put_holds(self, holds: Sequence[Hold]) -> None:
        """These holds too."""

    def put_batches(self, batches: Sequence[Batch]) -> None:
        """These batches too, taken by nobody. Their jobs come later."""

    def put_jobs(self, jobs: Sequence[IngestJob]) -> None:
        """These ingest jobs too, by id, taken by nobody."""

    def put_history(self, entries: Sequence[tuple[Entry, str]]) -> None:
        """What happened, oldest first: each entry with the batch that it belongs to."""

    def finish(self, numbers: Mapping[str, int], token: int) -> None:
        """All is there: it can be worked with. Ids go on behind these numbers; tokens, those of locks too, behind that.

        Locks do not move. But clients that keep them here from now on must not get a token that was given there.
        """

"""Filters: which locks, chunks, batches and ingest jobs to list. The history has its own filter (history.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Callers have loaded what they ask for: the command starts faster without the others.
    from headgate.core.ledger.model import Kind
    from headgate.core.locks.model import Lock, Mode


@dataclass(frozen=True, slots=True)
class LockFilter:
    """Which locks to list; None: any."""

    resource: str | None = None
    client: str | None = None
    mode: Mode | None = None
    #: Only those that are taken.
    taken: bool = False
    #: Only ids after this one (keyset pagination).
    after: str | None = None
    limit: int | None = None

    def admits(self, lock: Lock) -> bool:
        """Whether a lock matches, regardless of the limit."""
        wanted = ((self.resource, lock.resource), (self.client, lock.client), (self.mode, lock.mode))
        return all(want is None or want == has for want, has in wanted) and (self.after is None or lock.id > self.after)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows of chunks to list; None: any."""

    dataset: str | None = None
    job: str | None = None
    dataid: str | None = None
    kind: Kind | None = None
    status: str | None = None
    #: Only data ids after this one, in the dataset's order (keyset pagination); needs a dataset.
    after: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class SpanFilter:
    """Which data ids to picture, in the order of a dataset."""

    dataset: str
    #: Other datasets in which the same chunks are counted.
    beside: Sequence[str] = ()
    #: From this data id on, inclusive; None: from the first.
    start: str | None = None
    #: Up to this data id, inclusive; None: to the last.
    last: str | None = None
    #: Number of data ids in one span.
    size: int = 1
    #: Maximum number of spans.
    limit: int = 100


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """Which batches to list; None: any."""

    state: str | None = None
    profile: str | None = None
    submitter: str | None = None
    #: Only those that are taken.
    taken: bool = False
    #: Only ids after this one (keyset pagination).
    after: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which ingest jobs to list; None: any."""

    state: str | None = None
    batch: str | None = None
    profile: str | None = None
    #: Only those that are taken.
    taken: bool = False
    #: Only ids after this one (keyset pagination).
    after: str | None = None
    limit: int | None = None

"""History: the events of all nouns, each recorded in the same step as its change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from headgate.core.ledger.model import CLOSE_EVENT, COMMANDS_EVENT, LIST_EVENT, REOPEN_EVENT, UNLIST_EVENT
from headgate.core.queue.model import HOLD_EVENTS, JOB_EVENTS, REPAIR_EVENT
from headgate.core.tables.states import BATCH, CHUNK, INGEST_JOB, LOCK

#: Every noun that has a history, and the events of each.
EVENTS: Mapping[str, tuple[str, ...]] = {
    LOCK.name: LOCK.told,
    CHUNK.name: (*CHUNK.told, CLOSE_EVENT, REOPEN_EVENT, LIST_EVENT, UNLIST_EVENT),
    "job": ("pause", "unpause", COMMANDS_EVENT),
    BATCH.name: (*BATCH.told, REPAIR_EVENT),
    INGEST_JOB.name: (*INGEST_JOB.told, *JOB_EVENTS, REPAIR_EVENT),
    "hold": HOLD_EVENTS,
}
#: The nouns of the queue.
QUEUE_NOUNS = (BATCH.name, INGEST_JOB.name, "hold")
#: The nouns whose entries name a resource.
RESOURCE_NOUNS = (LOCK.name, CHUNK.name, "hold")
HOUR_SECONDS = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HistoryPlace(NamedTuple):
    """The position of an entry in the history, newest first: its time, then its id."""

    #: Microseconds since 1970.
    at: int
    id: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the history."""

    #: Its id; it grows with time within one store.
    id: int
    #: When it happened, by the store's clock.
    at: datetime
    #: What it happened to: lock, chunk, job, batch, ingest job or hold.
    noun: str
    #: An event of the noun's table.
    event: str
    #: The resource; a chunk's is `data:DATASET/DATAID`. Empty for an event of a job.
    resource: str
    #: Name of the client that caused it, or that it happened to.
    client: str
    #: The lock's id; empty for chunks and jobs.
    lock_id: str
    #: The token at that moment.
    token: int
    #: The state before.
    before: str
    #: The state after.
    after: str
    #: Reason, if one is required or known.
    reason: str = ""
    #: How many times it happened within that minute (for refusals).
    count: int = 1
    #: The job whose chunk it is; the batch or ingest job.
    job: str = ""
    #: Seconds spent in the previous state (batches and ingest jobs).
    spent: float | None = None
    #: The principal that caused it; empty: the store itself, or an event from before principals were recorded.
    principal: str = ""

    @property
    def place(self) -> HistoryPlace:
        """Where it stands."""
        return HistoryPlace((self.at - _EPOCH) // timedelta(microseconds=1), self.id)


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which entries to list, newest first; None: any."""

    #: Only these nouns; empty: all.
    nouns: tuple[str, ...] = ()
    event: str | None = None
    #: A resource, matched exactly; a chunk's is `data:DATASET/DATAID`.
    resource: str | None = None
    lock_id: str | None = None
    #: A job of the ledger, a data id.
    job: str | None = None
    dataid: str | None = None
    #: A batch (with its jobs) or an ingest job.
    item: str | None = None
    #: The name that the caller gave.
    client: str | None = None
    #: Only entries between these times.
    since: datetime | None = None
    until: datetime | None = None
    #: Only entries after this position: the next page.
    before: HistoryPlace | None = None
    #: Only entries with a greater id: those that are new.
    newer: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Happened:
    """How often an event happened in one hour."""

    noun: str  #: What it happened to.
    event: str  #: An event of the noun's table.
    #: Hours since 1970.
    hour: int
    count: int  #: How often it happened.


class HistoryPage(tuple[Entry, ...]):  # noqa: SLOT001 - it has an attribute
    """Entries, newest first, and the cursor of the next page."""

    #: The cursor of the next page; None: this is the last one.
    next: str | None

    def __new__(cls, entries: Iterable[Entry] = (), following: str | None = None) -> Self:
        """These entries, with the cursor of the next page."""
        page = super().__new__(cls, entries)
        page.next = following
        return page


def hour_of(at: datetime) -> int:
    """A time as whole hours since 1970."""
    return int(at.timestamp() // HOUR_SECONDS)

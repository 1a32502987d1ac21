"""Events of the last day, hour by hour: counted by the stores from the history."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headgate.core.history import HOUR_SECONDS, Happened, hour_of
from headgate.core.ledger import model as ledger
from headgate.core.locks.model import GRANT_EVENT, REFUSE_EVENT
from headgate.core.queue.model import FAIL_EVENT, FINISH_EVENT
from headgate.core.tables.states import CHUNK, INGEST_JOB, LOCK
from headgate.service.leases.clock import steady

#: Counts the history: how often each of these events happened in each hour since then.
AskCounts = Callable[[datetime, Sequence[str]], Sequence[Happened]]
HOURS = 24
#: The label of refused locks.
REFUSALS = "locks refused"
#: Counted events of locks: the noun and the event of its table, and the display label.
LOCK_EVENTS: dict[tuple[str, str], str] = {
    (LOCK.name, GRANT_EVENT): "locks granted",
    (LOCK.name, REFUSE_EVENT): REFUSALS,
}
#: Counted events of chunks and ingest jobs.
WORK_EVENTS: dict[tuple[str, str], str] = {
    (CHUNK.name, ledger.SUCCESS_EVENT): "chunks made",
    (CHUNK.name, ledger.FAIL_EVENT): "chunk failures",
    (CHUNK.name, ledger.REAP_EVENT): "chunk failures",
    (INGEST_JOB.name, FAIL_EVENT): "ingest job failures",
    (INGEST_JOB.name, FINISH_EVENT): "ingest steps finished",
}
COUNTED = {**LOCK_EVENTS, **WORK_EVENTS}
#: Events that are failures, by label.
FAILURES = ("chunk failures", "ingest job failures")
#: Not counted again within this time, or within this many times the length of the last count.
FRESH_SECONDS, PATIENCE = 1.0, 20
#: An hour is not counted again when it ended this long ago: transactions that were running then have ended.
SETTLED_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Line:
    """The number of events in each hour."""

    #: The label, such as chunk failures.
    what: str
    #: Oldest hour first, HOURS of them; the last one has not ended.
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """The total."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Day:
    """The last day."""

    lines: tuple[Line, ...]
    #: The start of the count: the beginning of the oldest hour.
    since: datetime

    @property
    def failures(self) -> int:
        """How often a chunk or an ingest job failed, or a worker died on a chunk."""
        return sum(self.total(what) for what in FAILURES)

    def total(self, what: str) -> int:
        """The total of the day."""
        return next(line.total for line in self.lines if line.what == what)


class Activity:
    """Counts the history. Hours that have ended are cached, the others are counted again."""

    def __init__(self, ask: AskCounts) -> None:
        """`ask`: counts the history."""
        self._locks, self._work = _Part(ask, LOCK_EVENTS), _Part(ask, WORK_EVENTS)

    def day(self) -> Day:
        """The last day, up to now."""
        return self._told(self._locks, self._work)

    def failures(self) -> int:
        """The failures of the last day."""
        return self._told(self._work).failures

    def _told(self, *parts: _Part) -> Day:
        newest = hour_of(datetime.now(UTC))
        hours = range(newest - HOURS + 1, newest + 1)
        counts = [(part.labels, part.counted(hours.start)) for part in parts]
        lines = [Line(what, tuple(found[what, hour] for hour in hours)) for labels, found in counts for what in labels]
        return Day(tuple(lines), datetime.fromtimestamp(hours.start * HOUR_SECONDS, UTC))


class _Part:
    """Some of the events."""

    def __init__(self, ask: AskCounts, events: dict[tuple[str, str], str]) -> None:
        self.labels = tuple(dict.fromkeys(events.values()))
        self._ask, self._events = ask, events
        self._names = sorted({event for _, event in events})
        self._counts: Counter[tuple[str, int]] = Counter()
        #: Hours before this one are not counted again.
        self._settled = 0
        self._next = 0.0
        self._guard = threading.Lock()

    def counted(self, oldest: int) -> Counter[tuple[str, int]]:
        """Counts by label and hour, from the oldest hour on. Meanwhile other callers get the previous count."""
        if self._guard.acquire(blocking=not self._settled):
            try:
                if steady() >= self._next:
                    began = steady()
                    self._count(oldest)
                    self._next = steady() + max(FRESH_SECONDS, PATIENCE * (steady() - began))
            finally:
                self._guard.release()
        return self._counts

    def _count(self, oldest: int) -> None:
        start = max(oldest, self._settled)
        found = Counter({key: count for key, count in self._counts.items() if oldest <= key[1] < start})
        since = datetime.fromtimestamp(start * HOUR_SECONDS, UTC)
        for each in self._ask(since, self._names):
            what = self._events.get((each.noun, each.event))
            if what is not None:
                found[what, each.hour] += each.count
        self._counts = found
        self._settled = hour_of(datetime.now(UTC) - timedelta(seconds=SETTLED_SECONDS))

"""What happened in the last day, hour by hour: counted from the histories, and kept up with them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.core.history import Entry
from headgate.service.clock import steady

#: Reads a history: entries before that one, or the newest; at most so many.
Ask = Callable[[int | None, int], Sequence[Entry]]
#: Entries that are read at once, and at most after a break; who was away longer reads the history.
PORTION, MOST_MISSED = 200, 10_000
HOURS = 24
#: What is counted: the noun and the event of its table, and the word under which it is shown.
COUNTED: dict[tuple[str, str], str] = {
    ("lock", "grant"): "locks granted",
    ("lock", "refuse"): "locks refused",
    ("chunk", "success"): "chunks made",
    ("chunk", "fail"): "chunks failed",
    ("chunk", "reap"): "chunks failed",
    ("ingest job", "fail"): "ingest jobs failed",
    ("ingest job", "finish"): "ingest steps finished",
}
#: Not asked again within this.
FRESH_SECONDS = 1.0


def asking(history: Callable[[Any], Sequence[Entry]], kind: Callable[..., Any]) -> Ask:
    """How to read a history that is asked by filters of that kind."""
    return lambda before, limit: history(kind(before=before, limit=limit))


def entries_after(ask: Ask, last: int, since: datetime | None = None) -> list[Entry]:
    """The entries after that one, oldest first; the newest of them, when there are too many."""
    found: list[Entry] = []
    before: int | None = None
    while len(found) < MOST_MISSED:
        portion = [entry for entry in ask(before, PORTION) if entry.id > last and (since is None or entry.at >= since)]
        found += portion
        if len(portion) < PORTION:
            break
        before = portion[-1].id
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Line:
    """How often something happened in each hour."""

    #: In words: chunks failed.
    what: str
    #: Oldest hour first, HOURS of them; the last one is not over.
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """In all of them."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Day:
    """The last day."""

    lines: tuple[Line, ...]
    #: Counted from here on: a day ago, or later where more happened than is read.
    since: datetime

    def total(self, what: str) -> int:
        """How often in the day."""
        return next(line.total for line in self.lines if line.what == what)


class Activity:
    """Follows the histories. The first question reads back, the next ones read on."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._asks = asks
        self._marks = [0] * len(asks)
        self._counts: Counter[tuple[str, int]] = Counter()
        self._since = datetime.fromtimestamp(0, UTC)
        self._read = -FRESH_SECONDS
        self._guard = threading.Lock()

    def day(self) -> Day:
        """The last day, up to now."""
        now = datetime.now(UTC)
        if self._guard.acquire(blocking=False):  # Who finds somebody reading shows what was read so far.
            try:
                if steady() - self._read > FRESH_SECONDS:
                    self._read_on(now)
                    self._read = steady()
            finally:
                self._guard.release()
        newest = _hour(now)
        hours = range(newest - HOURS + 1, newest + 1)
        lines = tuple(
            Line(what, tuple(self._counts[what, hour] for hour in hours)) for what in dict.fromkeys(COUNTED.values())
        )
        return Day(lines, max(self._since, now - timedelta(hours=HOURS)))

    def _read_on(self, now: datetime) -> None:
        since = now - timedelta(hours=HOURS)
        for place, ask in enumerate(self._asks):
            entries = entries_after(ask, self._marks[place], since)
            if len(entries) >= MOST_MISSED:
                self._since = max(self._since, entries[0].at)
            for entry in entries:
                self._count(entry)
            self._marks[place] = entries[-1].id if entries else self._marks[place]
        oldest = _hour(now) - HOURS
        for key in [key for key in self._counts if key[1] < oldest]:
            del self._counts[key]

    def _count(self, entry: Entry) -> None:
        what = COUNTED.get((entry.noun, entry.event))
        if what is not None:
            self._counts[what, _hour(entry.at)] += entry.count


def _hour(moment: datetime) -> int:
    return int(moment.timestamp() // 3600)

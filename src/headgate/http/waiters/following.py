"""Following the history: new events, in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headgate.core.errors import BadValue, Unavailable
from headgate.core.history import Entry
from headgate.gate import Gate
from headgate.service.history import entries_after

#: How long a gap in a history's ids is waited for: with many writers, a later entry may appear first.
GAP = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class FeedMark:
    """How far each of the histories has been read."""

    ids: tuple[int, ...]

    def __str__(self) -> str:
        return ".".join(map(str, self.ids))


def parse_mark(gate: Gate, text: str) -> FeedMark:
    """A position in the form of an event id."""
    parts = text.split(".")
    if len(parts) != len(gate.history.books) or not all(part.isdecimal() and len(part) < 19 for part in parts):
        raise BadValue("Last-Event-ID", text, "is not an event id of this stream")
    return FeedMark(tuple(map(int, parts)))


def newest(gate: Gate) -> FeedMark:
    """The current end of the histories."""
    return FeedMark(tuple(book.last() for book in gate.history.books))


def newer(gate: Gate, mark: FeedMark) -> list[tuple[FeedMark, Entry]]:
    """New events, oldest first, each with its position. A history is read in the order of its ids."""
    found = [
        [(place, entry) for entry in settled(entries_after(book, mark.ids[place]), mark.ids[place])]
        for place, book in enumerate(gate.history.books)
    ]
    marks = list(mark.ids)
    told = []
    for place, entry in heapq.merge(*found, key=lambda each: each[1].at):
        marks[place] = entry.id
        told.append((FeedMark(tuple(marks)), entry))
    return told


def settled(entries: Sequence[Entry], last: int) -> Sequence[Entry]:
    """Entries after which no others will appear before them: an entry with a lower number may not be committed yet."""
    now = datetime.now(UTC)
    for place, entry in enumerate(entries):
        if entry.id != last + 1 and abs(now - entry.at) < GAP:
            return entries[:place]
        last = entry.id
    return entries


class Follower:
    """A reader that continues where it stopped. An unavailable store is retried later."""

    def __init__(self, gate: Callable[[], Gate]) -> None:
        self._gate = gate
        self._mark: FeedMark | None = None

    def newer(self) -> list[Entry]:
        """Events since the last call; none at the first call."""
        try:
            if self._mark is None:
                self._mark = newest(self._gate())
            found = newer(self._gate(), self._mark)
        except Unavailable:
            return []
        if found:
            self._mark = found[-1][0]
        return [entry for _, entry in found]

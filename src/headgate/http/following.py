"""Following the histories of locks, ledger and queue: what happened since, in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.errors import BadValue, Unavailable
from headgate.core.history import Entry
from headgate.service.activity import entries_after
from headgate.wiring import Gate


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the three histories have been told: of locks, ledger and queue."""

    locks: int
    ledger: int
    queue: int

    def __str__(self) -> str:
        return f"{self.locks}.{self.ledger}.{self.queue}"


def parse_mark(text: str) -> Mark:
    """A mark, as the id of an event has it."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 19 for part in parts):
        raise BadValue("Last-Event-ID", text, "is not the id of an event of this stream")
    return Mark(*(int(part) for part in parts))


def newest(gate: Gate) -> Mark:
    """Where the histories end now."""
    found = [next(iter(ask(None, 1)), None) for ask in gate.histories()]
    return Mark(*(0 if entry is None else entry.id for entry in found))


def newer(gate: Gate, mark: Mark) -> list[tuple[Mark, Entry]]:
    """What happened since, oldest first, each with how far that is."""
    marks = [mark.locks, mark.ledger, mark.queue]
    found = [(place, entry) for place, ask in enumerate(gate.histories()) for entry in entries_after(ask, marks[place])]
    told = []
    for place, entry in sorted(found, key=lambda each: (each[1].at, each[0], each[1].id)):
        marks[place] = entry.id
        told.append((Mark(*marks), entry))
    return told


class Follower:
    """Somebody who reads on from where it was. A store that is away is asked again later."""

    def __init__(self, gate: Callable[[], Gate]) -> None:
        self._gate = gate
        self._mark: Mark | None = None

    def newer(self) -> list[Entry]:
        """What happened since the last time; at first, nothing."""
        try:
            if self._mark is None:
                self._mark = newest(self._gate())
            found = newer(self._gate(), self._mark)
        except Unavailable:
            return []
        if found:
            self._mark = found[-1][0]
        return [entry for _, entry in found]

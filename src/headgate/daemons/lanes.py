"""The order in which the items in one state are processed: from the first on, skipping those that must wait."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from headgate.core.queue.model import IngestJob, Item
from headgate.service.leases.clock import steady

#: The pause before an item is checked again, at first and at most; it doubles each time.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0


@dataclass(slots=True)
class _Wait:
    pause: float
    until: float


class Lane:
    """One state, shared by all workers of a consumer. Deferred items do not block the others.

    While items are deferred, the workers go in rounds: each item is taken once, the round ends when there is none after
    the last one, and the next begins after a pause. So every item is checked, without a busy loop.
    """

    def __init__(self, round_pause: float, *, grows: bool = True) -> None:
        #: The maximum pause between two rounds: new items wait for it.
        self._round_pause = round_pause
        #: Whether an item's pause grows each time; otherwise it is checked in every round.
        self._grows = grows
        self._guard = threading.Lock()
        self._waits: dict[str, _Wait] = {}
        self._last: Item | None = None
        self._next_round = 0.0

    def place(self) -> Item | None:
        """The item after which to search; None: from the first one."""
        with self._guard:
            return self._last

    def resting(self) -> float:
        """Seconds until the next round begins; 0: now."""
        with self._guard:
            return max(self._next_round - steady(), 0.0)

    def too_early(self, item: Item) -> bool:
        """Whether a taken item should wait longer: then the round continues after it."""
        with self._guard:
            early = item.id in self._waits and self._waits[item.id].until > steady()
            if early:
                self._go_past(item)
            return early

    def put_off(self, item: Item) -> float:
        """It was deferred. Returns the seconds until it is checked again."""
        with self._guard:
            before = self._waits.get(item.id)
            pause = FIRST_PAUSE_SECONDS if before is None else min(before.pause * 2, LONGEST_PAUSE_SECONDS)
            pause = pause if self._grows else self._round_pause
            self._waits[item.id] = _Wait(pause, steady() + (pause if self._grows else 0.0))
            self._go_past(item)
            return pause

    def moved(self, item: Item) -> None:
        """It is done, or no longer ours: forget it."""
        with self._guard:
            self._waits.pop(item.id, None)

    def end_round(self) -> None:
        """There is none after the last one: the next round begins after a pause."""
        with self._guard:
            self._last = None
            now = steady()
            # Items that others have moved meanwhile are forgotten after some time.
            self._waits = {key: wait for key, wait in self._waits.items() if wait.until > now - LONGEST_PAUSE_SECONDS}
            soonest = min((wait.until for wait in self._waits.values()), default=now)
            pause = max(soonest - now, FIRST_PAUSE_SECONDS) if self._grows else self._round_pause
            self._next_round = now + min(pause, self._round_pause)

    def _go_past(self, item: Item) -> None:
        """Several workers finish in any order: the round only moves forward."""
        if self._last is None or _order(item) > _order(self._last):
            self._last = item


def _order(item: Item) -> tuple[int, str]:
    return item.place if isinstance(item, IngestJob) else (0, item.id)

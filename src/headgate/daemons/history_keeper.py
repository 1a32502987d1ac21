"""The keeper of history: removes entries that are older than they need be kept, a few at a time.

Each step is a short transaction on the oldest entries, where nothing else writes, and rests for as long as it took.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.leases.clock import steady, wall
from headgate.stores.ports.history import HistoryBook

#: Entries that are removed together.
PORTION = 1000
#: Seconds between two looks, at least: history is kept for days.
LOOK_SECONDS = 60.0
LONGEST_REST_SECONDS = 1.0


def history_keeper(books: Sequence[HistoryBook], keep: float, interval: float) -> Rounds:
    """Removes what is older than `keep` seconds."""

    def act() -> int:
        return sum(until_nothing(lambda book=book: step(book, keep)) for book in books)  # type: ignore[misc]

    return Rounds("history to be removed", act, max(interval, LOOK_SECONDS), done_word="removed")


def step(book: HistoryBook, keep: float) -> int:
    """One portion. Returns how many entries were removed."""
    began = steady()
    removed = book.forget(wall() - timedelta(seconds=keep), PORTION)
    if removed == PORTION:
        time.sleep(min(steady() - began, LONGEST_REST_SECONDS))
    return removed

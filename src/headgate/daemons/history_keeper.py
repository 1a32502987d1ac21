"""The keeper of history and logs: removes what is older than its retention time, a few entries at a time.

Each step is a short transaction on the oldest entries, where nothing else writes, followed by a pause of the same
length.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.leases.clock import steady, wall

#: Number of entries that are removed together, and of logs, which are large.
PORTION, LOG_PORTION = 1000, 100
#: Minimum number of seconds between two checks: history is kept for days.
LOOK_SECONDS = 60.0
LONGEST_REST_SECONDS = 1.0


class Forgetful(Protocol):
    """A store from which the oldest entries can be removed."""

    def forget(self, until: datetime, limit: int) -> int: ...


def history_keeper(books: Sequence[Forgetful], keep: float, interval: float) -> Rounds:
    """Removes history that is older than `keep` seconds."""

    def act() -> int:
        return sum(until_nothing(lambda book=book: step(book, keep, PORTION)) for book in books)  # type: ignore[misc]

    return Rounds("history to be removed", act, max(interval, LOOK_SECONDS), done_word="removed")


def log_keeper(logs: Forgetful, keep: float, interval: float) -> Rounds:
    """Removes logs that are older than `keep` seconds."""
    return Rounds(
        "logs to be removed", lambda: until_nothing(lambda: step(logs, keep, LOG_PORTION)),
        max(interval, LOOK_SECONDS), done_word="removed",
    )  # fmt: skip


def step(book: Forgetful, keep: float, portion: int) -> int:
    """One portion. Returns how many entries were removed."""
    began = steady()
    removed = book.forget(wall() - timedelta(seconds=keep), portion)
    if removed >= portion:
        time.sleep(min(steady() - began, LONGEST_REST_SECONDS))
    return removed

"""The mover of history: copies old entries from ZooKeeper, which keeps everything in memory, to `url`.

An entry is written to the database before it is removed from ZooKeeper, and is written only once: a mover may die at
any moment, and several can run at once.
"""

from __future__ import annotations

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.checks import check_span
from headgate.stores.ports.history import HistoryKeeper, HistorySource

#: Number of entries that are moved together.
PORTION = 500


def history_mover(source: HistorySource, keeper: HistoryKeeper, age: float, interval: float) -> Rounds:
    """Moves entries that have not changed for `age` seconds."""
    seconds = check_span("history_age", age)
    return Rounds(
        "history",
        lambda: until_nothing(lambda: move(source, keeper, seconds)),
        interval,
        done_word="moved",
    )


def move(source: HistorySource, keeper: HistoryKeeper, age: float) -> int:
    """One portion. Returns how many entries were moved."""
    leaves = source.oldest(age, PORTION)
    if not leaves:
        return 0
    keeper.copy(source.tag, leaves)
    return source.remove(leaves)

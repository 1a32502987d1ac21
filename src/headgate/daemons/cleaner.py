"""The cleaner: removes completed jobs from the queue, and completed batches after their retention."""

from __future__ import annotations

from collections.abc import Callable

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.checks import check_span
from headgate.service.queue.use_cases import Queue


def cleaner(queue: Queue, retention: float, interval: float, sweep: Callable[[float], int]) -> list[Rounds]:
    """Clean up completed jobs, batches that completed `retention` seconds ago, and their working folders."""
    age = check_span("retention", retention)

    def clean() -> int:
        return until_nothing(lambda: len(queue.clean(age))) + sweep(age)

    return [Rounds("cleaner", clean, interval)]

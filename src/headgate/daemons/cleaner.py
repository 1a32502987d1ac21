"""The cleaner: what completed long ago leaves the queue; its history stays."""

from __future__ import annotations

from collections.abc import Callable

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.checks import check_span
from headgate.service.queue import Queue


def cleaner(queue: Queue, retention: float, interval: float, sweep: Callable[[float], int]) -> list[Rounds]:
    """Jobs, then batches, that completed `retention` seconds ago; then what they left in the work folder."""
    age = check_span("retention", retention)

    def clean() -> int:
        return until_nothing(lambda: len(queue.clean(age))) + sweep(age)

    return [Rounds("cleaner", clean, interval)]

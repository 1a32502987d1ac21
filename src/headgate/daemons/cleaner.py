"""The cleaner: what completed long ago leaves the queue; its history stays."""

from __future__ import annotations

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.checks import check_span
from headgate.service.queue import Queue


def cleaner(queue: Queue, retention: float, interval: float) -> list[Rounds]:
    """Jobs, then batches, that completed `retention` seconds ago."""
    age = check_span("retention", retention)
    return [Rounds("cleaner", lambda: until_nothing(lambda: len(queue.clean(age))), interval)]

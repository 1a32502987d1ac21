"""The batch watcher: sends batches whose last job has ended to reporting."""

from __future__ import annotations

from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds
from headgate.service.queue.use_cases import Queue

#: A depositor waits for the report: check at least this often.
INTERVAL_SECONDS = 1.0


def batch_watcher(queue: Queue, interval: float) -> list[Rounds]:
    """Several can run at once: only one of them finds a batch still processing."""
    act = lambda: until_nothing(lambda: len(queue.report_finished()))  # noqa: E731 - one act, named by its daemon
    return [Rounds("batch-watcher", act, min(interval, INTERVAL_SECONDS))]

"""Daemons that register as running, and the steps that they work on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headgate.core.tables.states import BATCH

#: Seconds that a daemon counts as alive without renewing its entry.
LEASE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process that works on some steps."""

    #: One entry for each id: a daemon's is its worker's name.
    id: str
    #: The process name that appears on the items it takes.
    worker: str
    #: Names of consumers (`job-downloading`) and of daemons that work in rounds (`batch-watcher`).
    steps: tuple[str, ...]
    #: Seconds that it counts as alive without renewing its entry.
    lease: float = LEASE_SECONDS
    #: When it started, by the store's clock; None: it has not been written yet.
    since: datetime | None = None
    #: Seconds that were left of its lease when the store was asked.
    left: float | None = None


def step_of(noun: str, state: str) -> str:
    """The name of the consumer that works on batches, or ingest jobs, in that state."""
    return f"{'batch' if noun == BATCH.name else 'job'}-{state}"

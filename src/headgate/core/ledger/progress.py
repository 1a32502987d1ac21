"""The progress of a job's chunks."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.ledger.model import ERROR, RESUBMIT, RUNNING, Job, Row
from headgate.core.values.plurals import plural

#: The largest number of chunks that one query covers, and of unfinished chunks and failures that an answer names.
LOOKED_AT, NAMED = 200, 20


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk that failed permanently."""

    dataid: str  #: Data id of the chunk.
    #: ERROR, HOLD, or a status that an operator has set.
    status: str
    message: str  #: Why, as the worker reported it.


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job, or of some of its chunks."""

    job: str  #: Name of the job.
    #: The first unfinished chunks, if the query named chunks.
    waiting: tuple[str, ...]
    #: How many are unfinished.
    left: int
    #: How many failed permanently.
    failed: int
    #: The first failed ones.
    failures: tuple[Failure, ...]
    #: Why the job is paused; empty: it is not.
    paused: str = ""

    @property
    def ended(self) -> bool:
        """Whether every chunk is done or has failed permanently."""
        return self.left == 0

    def sentence(self) -> str:
        """Return the unfinished chunks, for display."""
        named = f": {', '.join(self.waiting[:5])}{' …' if self.left > 5 else ''}" if self.waiting else ""
        paused = f"; the job is paused: {self.paused}" if self.paused else ""
        return f"waiting for {plural(self.left, 'chunk')} of {self.job}{named}{paused}"


def is_final(job: Job, row: Row) -> bool:
    """Whether the chunk waits for an operator."""
    if row.status in (RUNNING, RESUBMIT):
        return False
    used_up = 0 < job.max_attempts <= row.failures or 0 < job.max_crashes <= row.crashes
    return row.status != ERROR or used_up

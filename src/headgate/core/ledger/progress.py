"""How far the chunks of a job are."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.ledger.model import ERROR, RESUBMIT, RUNNING, Job, Row
from headgate.core.values.plurals import plural

#: The most chunks that one question covers, and the most unfinished chunks, and failures, that an answer names.
LOOKED_AT, NAMED = 200, 20


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk that failed for good."""

    dataid: str  #: Data id of the chunk.
    #: ERROR, HOLD, or a word that an operator has set.
    status: str
    message: str  #: Why, as the worker reported it.


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job, or some of its chunks, are."""

    job: str  #: Name of the job.
    #: The first chunks that are not finished, if they were named.
    waiting: tuple[str, ...]
    #: How many are not finished.
    left: int
    #: How many failed for good.
    failed: int
    #: The first of those.
    failures: tuple[Failure, ...]
    #: Why the job is paused; empty: it is not.
    paused: str = ""

    @property
    def ended(self) -> bool:
        """Whether every chunk is done or failed for good."""
        return self.left == 0

    def sentence(self) -> str:
        """Return what is not finished, for people."""
        named = f": {', '.join(self.waiting[:5])}{' …' if self.left > 5 else ''}" if self.waiting else ""
        paused = f"; the job is paused: {self.paused}" if self.paused else ""
        return f"waiting for {plural(self.left, 'chunk')} of {self.job}{named}{paused}"


def is_final(job: Job, row: Row) -> bool:
    """Whether nobody will work on it before a person has done something."""
    if row.status in (RUNNING, RESUBMIT):
        return False
    used_up = 0 < job.max_attempts <= row.failures or 0 < job.max_crashes <= row.crashes
    return row.status != ERROR or used_up

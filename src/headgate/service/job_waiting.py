"""How far the chunks of a job are: what is still to come, and what failed for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.core.census import EXPIRED
from headgate.core.ledger import DONE, ERROR, HOLD, READY, RESUBMIT, RUNNING, Job, Row
from headgate.core.plurals import plural
from headgate.service.counts import chunks_by_status

if TYPE_CHECKING:
    from headgate.service.ledger import Ledger

#: So many chunks are looked at in one round, and so many failures are named.
LOOKED_AT, NAMED = 200, 20
#: Between two rounds.
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk that nobody will try again by itself."""

    dataid: str
    #: ERROR, HOLD, or a word that support has set.
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is, or those of its chunks that somebody waits for."""

    job: str
    #: Chunks that are not finished, as far as they are named; the first ones.
    waiting: tuple[str, ...]
    #: How many are not finished.
    left: int
    #: How many failed for good.
    failed: int
    #: The first of them.
    failures: tuple[Failure, ...]
    #: Why the job gets no chunks; empty: it does.
    paused: str = ""

    @property
    def ended(self) -> bool:
        """Nothing more is to come."""
        return self.left == 0

    def sentence(self) -> str:
        """What is waited for."""
        named = f": {', '.join(self.waiting[:5])}{' …' if self.left > 5 else ''}" if self.waiting else ""
        paused = f"; the job is paused: {self.paused}" if self.paused else ""
        return f"waiting for {plural(self.left, 'chunk')} of {self.job}{named}{paused}"


class JobWait:
    """Looks again and again at a job, or at some of its chunks."""

    def __init__(self, ledger: Ledger, job: str, dataids: Sequence[str] = ()) -> None:
        """`dataids`: only these; none: every chunk that the job works on or may claim."""
        self._ledger, self._job = ledger, job
        self._left = list(dict.fromkeys(dataids))
        self._some = bool(self._left)
        self._failed: dict[str, Failure] = {}

    def look(self) -> JobProgress:
        """How far it is now. UnknownName when there is no such job."""
        job, _ = self._ledger.job(self._job)
        return self._look_at_some(job) if self._some else self._look_at_all(job)

    def _look_at_some(self, job: Job) -> JobProgress:
        for dataid in self._left[:LOOKED_AT]:
            rows = self._ledger.status(job.first, job.name, dataid, kind=job.counted)
            if rows and rows[0].status in (READY, DONE):
                self._left.remove(dataid)
            elif rows and is_final(job, rows[0]):
                self._failed[dataid] = Failure(dataid, rows[0].status, rows[0].message)
                self._left.remove(dataid)
        failures = tuple(self._failed.values())
        left = self._left
        return JobProgress(job.name, tuple(left[:NAMED]), len(left), len(failures), failures[:NAMED], job.paused)

    def _look_at_all(self, job: Job) -> JobProgress:
        now = chunks_by_status(self._ledger.store.standing(), job.name)
        running = now[RUNNING] + now[EXPIRED]
        left = running + self._ledger.left(job.name)
        listed = self._rows(job, RUNNING) if running else ()
        waiting = tuple(row.dataid for row in listed)
        if left:
            return JobProgress(job.name, waiting, left, 0, (), job.paused)
        stopped = [*self._rows(job, ERROR), *self._rows(job, HOLD)]
        failures = tuple(Failure(row.dataid, row.status, row.message) for row in stopped)
        return JobProgress(job.name, (), 0, now[ERROR] + now[HOLD], failures[:NAMED], job.paused)

    def _rows(self, job: Job, status: str) -> Sequence[Row]:
        return self._ledger.status(job.first, job.name, kind=job.counted, status=status, limit=NAMED)


def is_final(job: Job, row: Row) -> bool:
    """Whether nobody will work on it before a person has done something."""
    if row.status in (RUNNING, RESUBMIT):
        return False
    used_up = 0 < job.max_attempts <= row.failures or 0 < job.max_crashes <= row.crashes
    return row.status != ERROR or used_up

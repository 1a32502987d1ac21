"""How far the chunks of a job are: what is still to come, and what failed for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol

from headgate.core.ledger.census import EXPIRED, chunks_by_status
from headgate.core.ledger.model import DONE, ERROR, HOLD, READY, RESUBMIT, RUNNING, Job, Row
from headgate.core.values.plurals import plural
from headgate.service.leases.looking import Looking
from headgate.service.ledger.questions import LedgerReader
from headgate.stores.ports.news import Listening

#: So many chunks are looked at in one round at most, and so many that are not finished; so many failures are named.
LOOKED_AT, NAMED = 200, 20
#: Seconds between two looks at least, however much happens.
REST_SECONDS = 0.5


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


class DataIds(Protocol):
    """Data ids that may be too many to keep in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


class JobWait:
    """Looks again and again at a job, or at some of its chunks."""

    def __init__(self, ledger: LedgerReader, job: str, dataids: DataIds = ()) -> None:
        """`dataids`: only these; none: every chunk that the job works on or may claim."""
        self._ledger, self._job = ledger, job
        self._some = len(dataids) > 0
        #: Chunks that were not finished when they were looked at, and those that nobody has looked at.
        self._waiting: list[str] = []
        self._unseen, self._unseen_count = iter(dataids), len(dataids)
        self._failures: list[Failure] = []
        self._failed = 0

    def look(self) -> JobProgress:
        """How far it is now. UnknownName when there is no such job."""
        job, _ = self._ledger.job(self._job)
        return self._look_at_some(job) if self._some else self._look_at_all(job)

    @property
    def has_more(self) -> bool:
        """Whether all chunks that were looked at are finished, and there are others."""
        return not self._waiting and self._unseen_count > 0

    def until_ended(self, timeout: float | None) -> JobProgress:
        """How far it is when it has ended, or after that many seconds."""
        seen: list[JobProgress] = []

        def look() -> JobProgress | None:
            seen[:] = [self.look()]
            return seen[0] if seen[0].ended else None

        Looking(look, self.listen, REST_SECONDS).within(timeout)
        return seen[0]

    def listen(self, wake: Callable[[], None]) -> Listening:
        """Call `wake` when one of the job's chunks may have ended."""
        return JobListening(self, self._ledger.listen(self._job, wake))

    def _look_at_some(self, job: Job) -> JobProgress:
        before, self._waiting = self._waiting, []
        for dataid in islice(chain(before, self._not_seen()), LOOKED_AT):
            if not self._is_finished(job, dataid):
                self._waiting.append(dataid)
            if len(self._waiting) >= NAMED:
                break
        left, failures = len(self._waiting) + self._unseen_count, tuple(self._failures)
        return JobProgress(job.name, tuple(self._waiting), left, self._failed, failures, job.paused)

    def _not_seen(self) -> Iterator[str]:
        for dataid in self._unseen:
            self._unseen_count -= 1
            yield dataid

    def _is_finished(self, job: Job, dataid: str) -> bool:
        rows = self._ledger.status(job.first, job.name, dataid, kind=job.counted)
        if not rows:
            return False
        row = rows[0]
        failed = row.status not in (READY, DONE) and is_final(job, row)
        if failed:
            self._failed += 1
            self._failures += [Failure(dataid, row.status, row.message)] if self._failed <= NAMED else []
        return failed or row.status in (READY, DONE)

    def _look_at_all(self, job: Job) -> JobProgress:
        now = chunks_by_status(self._ledger.standing(), job.name)
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


class JobListening:
    """One who waits for the end of a job."""

    def __init__(self, waiting: JobWait, listening: Listening) -> None:
        self._waiting, self._listening = waiting, listening

    @property
    def pause(self) -> float:
        """Seconds after which to look, if nobody calls; none while there is more to look at."""
        return 0.0 if self._waiting.has_more else self._listening.pause

    def end(self) -> None:
        """Nobody waits any more."""
        self._listening.end()


def is_final(job: Job, row: Row) -> bool:
    """Whether nobody will work on it before a person has done something."""
    if row.status in (RUNNING, RESUBMIT):
        return False
    used_up = 0 < job.max_attempts <= row.failures or 0 < job.max_crashes <= row.crashes
    return row.status != ERROR or used_up

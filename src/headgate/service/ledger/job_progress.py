"""The progress of a job's chunks: the unfinished ones, and those that failed permanently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Protocol

from headgate.core.ledger.census import EXPIRED, chunks_by_status
from headgate.core.ledger.model import DONE, ERROR, HOLD, READY, RUNNING, Job, Row
from headgate.core.ledger.progress import LOOKED_AT, NAMED, Failure, JobProgress, is_final
from headgate.service.leases.ending import EndWait, Look
from headgate.service.leases.looking import Looking
from headgate.service.ledger.questions import LedgerReader

#: Returns the progress of some chunks of a job, or of all: given the data ids, the known number of unfinished ones, and
#: how many seconds a waiting side may take.
AskProgress = Callable[[Sequence[str], int | None, float], JobProgress]


class DataIds(Protocol):
    """Data ids that may be too many to keep in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


class JobWait:
    """Checks the progress of a job, or of some of its chunks, repeatedly: a few chunks with each query."""

    def __init__(self, ask: AskProgress, dataids: DataIds = ()) -> None:
        """`dataids`: only these; empty: every chunk that the job works on or may claim."""
        self._ask = ask
        self._some = len(dataids) > 0
        #: Chunks that are not known to be finished, and those that were not requested.
        self._open: list[str] = []
        self._unseen, self._unseen_count = iter(dataids), len(dataids)
        self._failures: list[Failure] = []
        self._failed = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether all requested chunks are finished, but there are others."""
        return not self._open and self._unseen_count > 0

    def ask(self, known: int | None, wait: float) -> JobProgress:
        """The current progress. UnknownName when there is no such job."""
        if not self._some:
            return self._ask((), known, wait)
        new = list(islice(self._unseen, LOOKED_AT - len(self._open)))
        asked, self._unseen_count = [*self._open, *new], self._unseen_count - len(new)
        found = self._ask(asked, None if known is None else known - self._unseen_count, wait)
        not_reached = asked[len(asked) - (found.left - len(found.waiting)) :]
        self._open = [*found.waiting, *not_reached]
        self._failed += found.failed
        self._failures += found.failures[: NAMED - len(self._failures)]
        left = found.left + self._unseen_count
        return replace(found, left=left, failed=self._failed, failures=tuple(self._failures))


def follow(
    ask: AskProgress, dataids: DataIds, looking: Callable[[JobWait, Look[JobProgress]], Looking[JobProgress]],
    left: int | None = None,
) -> EndWait[JobProgress]:  # fmt: skip
    """Follow a job, or some of its chunks, to its end. `left`: the last known number of unfinished chunks."""
    waiting = JobWait(ask, dataids)
    ended, mark = attrgetter("ended"), attrgetter("left")
    return EndWait(waiting.ask, ended, mark, partial(looking, waiting), left)


def progress_of(ledger: LedgerReader, name: str, dataids: Sequence[str]) -> JobProgress:
    """The progress of a job, or of the first of these chunks, until NAMED unfinished ones are found."""
    job, _ = ledger.job(name)
    return _of_some(ledger, job, dataids) if dataids else _of_all(ledger, job)


def _of_some(ledger: LedgerReader, job: Job, dataids: Sequence[str]) -> JobProgress:
    waiting: list[str] = []
    failures: list[Failure] = []
    left = len(dataids)
    for dataid in dataids:
        rows = ledger.status(job.first, job.name, dataid, kind=job.counted)
        done = bool(rows) and rows[0].status in (READY, DONE)
        if rows and not done and is_final(job, rows[0]):
            failures.append(Failure(dataid, rows[0].status, rows[0].message))
        elif not done:
            waiting.append(dataid)
            if len(waiting) == NAMED:
                break
            continue
        left -= 1
    return JobProgress(job.name, tuple(waiting), left, len(failures), tuple(failures), job.paused)


def _of_all(ledger: LedgerReader, job: Job) -> JobProgress:
    now = chunks_by_status(ledger.standing(), job.name)
    running = now[RUNNING] + now[EXPIRED]
    left = running + ledger.left(job.name)
    waiting = tuple(row.dataid for row in (_rows(ledger, job, RUNNING) if running else ()))
    if left:
        return JobProgress(job.name, waiting, left, 0, (), job.paused)
    stopped = [*_rows(ledger, job, ERROR), *_rows(ledger, job, HOLD)]
    failures = tuple(Failure(row.dataid, row.status, row.message) for row in stopped)
    return JobProgress(job.name, (), 0, now[ERROR] + now[HOLD], failures[:NAMED], job.paused)


def _rows(ledger: LedgerReader, job: Job, status: str) -> Sequence[Row]:
    return ledger.status(job.first, job.name, kind=job.counted, status=status, limit=NAMED)

"""Waiting for chunks: until there is one to claim, or until some are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from headgate.core.ledger.progress import JobProgress
from headgate.core.values.names import check_name
from headgate.service.checks import check_span
from headgate.service.leases.ending import EndWait, Look
from headgate.service.leases.looking import REST_SECONDS, Looking
from headgate.service.ledger.job_progress import DataIds, JobWait, follow, progress_of
from headgate.service.ledger.questions import LedgerReader


class LedgerWaits(LedgerReader):
    """Waits of the ledger that claim nothing."""

    def looking_for_work(self, job: str) -> Looking[bool]:
        """Wait in steps until a chunk of the job can be claimed, and claim none."""
        return Looking(partial(self._has_work, check_name("job", job)), partial(self._store.listen, job))

    def _distinct(self, dataids: str | Iterable[str]) -> list[str]:
        """Return the data ids in their order, each once."""
        given = [dataids] if isinstance(dataids, str) else dataids
        return list(dict.fromkeys(check_name("dataid", each) for each in given))

    def _has_work(self, job: str) -> bool | None:
        return bool(self.plan(job).next) or None

    def wait(self, job: str, dataids: Sequence[str] = (), *, timeout: float | None = None) -> JobProgress:
        """Wait until chunks are done or have failed permanently. Returns their progress.

        :param dataids: Data ids of the chunks (default: every chunk that the job may claim).
        :param timeout: Seconds to wait; None: no limit.
        """
        following = self.following(job, self._distinct(dataids))
        return following.to_its_end(None if timeout is None else check_span("timeout", timeout))

    def following(self, job: str, dataids: DataIds = (), *, left: int | None = None) -> EndWait[JobProgress]:
        """Follow chunks until they are done or have failed permanently. `left`: the last known number of unfinished
        chunks.
        """
        return follow(partial(self._progress, job), dataids, partial(self._looking, job), left)

    def _progress(self, job: str, dataids: Sequence[str], left: int | None, wait: float) -> JobProgress:
        del left, wait  # The store answers at once; see _looking.
        return progress_of(self, job, dataids)

    def _looking(self, job: str, waiting: JobWait, look: Look[JobProgress]) -> Looking[JobProgress]:
        listen = partial(self._store.listen, job)
        return Looking(partial(look, 0), listen, REST_SECONDS, lambda: waiting.is_unfinished)

"""Expectations: which chunks are late, and how that is judged."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.ledger.expectations.model import JUDGE_LEASE, Judged, LateChunk, Lateness, Recovered
from headgate.core.values.names import check_name
from headgate.service.checks import check_limit, check_positive_lease
from headgate.stores.ports.expectations import ExpectationStore
from headgate.telemetry import event

#: Default number of late chunks in one call: each has a reason, which is looked for upstream.
USUAL_LATE = 100
#: Number of data ids in one step of the judge: the reason of each late one is found there.
STEP = 100


class Expectations:
    """Chunks that are expected, and missing; `gate.expectations`. Expectations are defined with the datasets."""

    def __init__(self, store: ExpectationStore) -> None:
        self._store = store

    def late(
        self, dataset: str | None = None, *, after: int | None = None, limit: int = USUAL_LATE
    ) -> Sequence[LateChunk]:
        """List late chunks, the oldest first, each with the reason why it is not READY.

        :param dataset: Only chunks of this dataset.
        :param after: Number of the last one of the previous page.
        :param limit: Largest number of results.
        """
        name = None if dataset is None else check_name("dataset", dataset)
        number = None if after is None else check_limit(after)
        return self._store.late(name, number, check_limit(limit))

    def lateness(self) -> Sequence[Lateness]:
        """List the datasets with an expectation, by name: how many chunks are late, and what is expected next."""
        return self._store.lateness()

    def take_turn(self, worker: str, lease: float = JUDGE_LEASE) -> int | None:
        """Become the judge, or renew the lease. Returns the token of the turn; None: another worker is the judge.

        :param worker: Name of the process.
        :param lease: Seconds after which another worker takes over from a dead one.
        """
        return self._store.take_turn(check_name("worker", worker), check_positive_lease(lease))

    def end_turn(self, worker: str, token: int) -> None:
        """Let another worker become the judge at once.

        :param worker: Name of the process.
        :param token: Token of its turn.
        """
        self._store.end_turn(worker, token)

    def judge(self, token: int) -> Judged | None:
        """Judge some of the data ids that are due. Returns None if another worker has taken the turn.

        :param token: Token of the turn.
        """
        found = self._store.judge(token, STEP)
        if found is not None and found.late:
            event("chunk.late", count=found.late)
        return found

    def recover(self, token: int, after: int = 0) -> Recovered | None:
        """Check some of the late chunks: those that are READY are no longer late. Returns None if another worker has
        taken the turn.

        :param token: Token of the turn.
        :param after: Number of the last one of the previous check.
        """
        found = self._store.recover(token, after, STEP * 5)
        if found is not None and found.ready:
            event("chunk.recovered", count=found.ready)
        return found

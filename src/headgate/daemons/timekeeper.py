"""The timekeeper: judges which expected chunks are late, and notices when they arrive."""

from __future__ import annotations

from headgate.core.ledger.expectations.model import JUDGE_LEASE
from headgate.daemons.rounds import Rounds
from headgate.service.expectations import Expectations
from headgate.service.leases.clock import steady

#: Maximum number of seconds between two rounds: lateness is accurate to the minute.
INTERVAL_SECONDS = 5.0
#: Seconds after which a round ends, so that its end is reported; the rest waits for the next one.
ROUND_SECONDS = 5.0


class Timekeeper:
    """One worker among several: the one with the turn judges, and another takes over when its lease expires."""

    def __init__(self, expectations: Expectations, worker: str, lease: float = JUDGE_LEASE) -> None:
        self._expectations, self._worker, self._lease = expectations, worker, lease
        self._token: int | None = None
        #: Where the check of late chunks continues.
        self._after = 0

    def round(self) -> int:
        """Judge what is due, and check late chunks. Returns how many data ids that were; 0 while another worker has the
        turn.
        """
        done, until = 0, steady() + ROUND_SECONDS
        while self._renew() and (judged := self._expectations.judge(self._token or 0)) and judged.more:
            done += judged.seen
            if steady() >= until:
                break
        while self._renew() and (found := self._expectations.recover(self._token or 0, self._after)):
            done, self._after = done + found.ready, found.last or 0
            if found.last is None or steady() >= until:
                break
        return done

    def end(self) -> None:
        """Let another worker take over at once."""
        if self._token is not None:
            self._expectations.end_turn(self._worker, self._token)
            self._token = None

    def _renew(self) -> bool:
        self._token = self._expectations.take_turn(self._worker, self._lease)
        return self._token is not None


def timekeeper(expectations: Expectations, worker: str, interval: float) -> list[Rounds]:
    """Several can run at once: one of them judges."""
    keeper = Timekeeper(expectations, worker)
    return [Rounds("timekeeper", keeper.round, min(interval, INTERVAL_SECONDS), done_word="judged", end=keeper.end)]

"""The port of expectations: which chunks are late, and who judges that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.core.ledger.expectations.model import Judged, LateChunk, Lateness, Recovered


class ExpectationStore(Protocol):
    """Expectations of datasets. They are defined with the datasets. Every method that writes is one transaction."""

    #: What errors call this store.
    name: str

    def take_turn(self, worker: str, lease: float) -> int | None:
        """Nobody else judges: this worker does, and its lease runs. Returns its token; None: another one judges."""

    def end_turn(self, worker: str, token: int) -> None:
        """The worker judges no more; another one may at once. Of an earlier turn: nothing changes."""

    def judge(self, token: int, most: int) -> Judged | None:
        """Judge up to so many data ids of one dataset that are due: those not READY are late, and each opens an
        incident. None, changing nothing, when another worker has taken the turn.
        """

    def recover(self, token: int, after: int, most: int) -> Recovered | None:
        """Look at so many late chunks from behind a number: those that are READY are late no longer, and their
        incidents close. None, changing nothing, when another worker has taken the turn.
        """

    def late(self, dataset: str | None, after: int | None, limit: int) -> Sequence[LateChunk]:
        """Late chunks, the oldest first, from behind the one of a number; each with its reason."""

    def lateness(self) -> Sequence[Lateness]:
        """How every dataset with an expectation keeps to it, by name."""

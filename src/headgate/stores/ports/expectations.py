"""The port of expectations: which chunks are late, and which process judges that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.core.ledger.expectations.model import Judged, LateChunk, Lateness, Recovered


class ExpectationStore(Protocol):
    """Expectations of datasets. They are defined with the datasets. Every method that writes is one transaction."""

    #: The name of this store in error messages.
    name: str

    def take_turn(self, worker: str, lease: float) -> int | None:
        """If no other worker is the judge, this worker becomes the judge, and its lease starts or is renewed. Returns
        its token; None: another worker is the judge.
        """

    def end_turn(self, worker: str, token: int) -> None:
        """The worker gives up the turn; another one may take it at once. For an earlier turn: nothing changes."""

    def judge(self, token: int, most: int) -> Judged | None:
        """Judge up to this many due data ids of one dataset: those that are not READY are late, and each opens an
        incident. Returns None and changes nothing when another worker has taken the turn.
        """

    def recover(self, token: int, after: int, most: int) -> Recovered | None:
        """Check this many late chunks, starting after a number: those that are READY are no longer late, and their
        incidents close. Returns None and changes nothing when another worker has taken the turn.
        """

    def late(self, dataset: str | None, after: int | None, limit: int) -> Sequence[LateChunk]:
        """Late chunks, the oldest first, after a number, each with its reason."""

    def lateness(self) -> Sequence[Lateness]:
        """How well every dataset with an expectation meets it, by name."""

"""The leader's clock, which judges leases.

ZooKeeper stamps each write with its leader's time. Two stamps can be compared only under the same leader: the upper
half of a transaction's number is its epoch. Every lease restarts with a new epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headgate.core.errors import StoreMisconfigured
from headgate.stores.zookeeper.ensemble.asking import Question, children, look, make, remove, write
from headgate.stores.zookeeper.ensemble.session import ZkSession
from headgate.stores.zookeeper.ensemble.tries import Tries

#: Advice when the store was removed under a running process.
REMOVED = "Someone removed the nodes of this store. Restart the programs that use it to create an empty one"
#: The lower bits of a transaction's number count within its epoch.
EPOCH_BITS = 32


def moment(milliseconds: int) -> datetime:
    """The server's number as a time."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Now:
    """The leader's time in milliseconds, its epoch, and when that epoch was first noticed."""

    at: int
    epoch: int
    began: int

    def age(self, at: int, transaction: int) -> float:
        """Seconds since a stamp: since the start of the epoch if the stamp is from an earlier one. Never negative."""
        epoch = transaction >> EPOCH_BITS
        if epoch > self.epoch:
            return 0.0
        return max(self.at - (at if epoch == self.epoch else self.began), 0) / 1000

    def left(self, span: float, stat: Any) -> float:
        """The remaining seconds of a lease of this length, by the newest write of its node; 0 or less: none."""
        return span - self.age(stat.mtime, stat.mzxid)

    def left_before(self, outage: float, span: float, stat: Any) -> float:
        """The remaining seconds of a lease when the outage began; 0: none, or it was renewed just now.

        A lease that was renewed since is never longer than `span`.
        """
        age = self.age(stat.mtime, stat.mzxid)
        return max(span - max(age - outage, 0.0), 0.0) if age else 0.0


class Clock:
    """The clock of one store, by its nodes."""

    def __init__(self, path: str, epochs: str) -> None:
        self._path = path
        self._epochs = epochs
        self._began: dict[int, int] = {}

    def ask(self, session: ZkSession, questions: Sequence[Question]) -> tuple[Now, list[Any]]:
        """The time, and the answers to questions that were asked after it, in one trip."""
        tries = Tries(session.name)
        while True:
            stat, *answers = session.ask(write(self._path, b""), *questions)
            now = self.read(stat, session)
            if now:
                return now, answers
            tries.again("its leader changes all the time")

    def read(self, stat: Any, session: ZkSession) -> Now | None:
        """The time in the answer to a write; None: another epoch has begun meanwhile."""
        if isinstance(stat, Exception):
            raise StoreMisconfigured(session.name, f"node {self._path} is missing", REMOVED) from stat
        epoch = stat.mzxid >> EPOCH_BITS
        if epoch not in self._began and not self._begin(epoch, session):
            return None
        return Now(stat.mtime, epoch, self._began[epoch])

    def _begin(self, epoch: int, session: ZkSession) -> bool:
        """Record when any process first noticed an epoch. False: it has ended already."""
        path = f"{self._epochs}/{epoch}"
        _, _, stat, others = session.ask(make(self._epochs), make(path), look(path), children(self._epochs))
        if stat is None or stat.czxid >> EPOCH_BITS != epoch:
            return False
        self._began[epoch] = stat.ctime
        past = [name for name in others if name.isdigit() and int(name) < epoch]
        session.ask(*(remove(f"{self._epochs}/{name}") for name in past))
        return True

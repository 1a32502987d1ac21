"""The leader's clock, by which leases are judged.

ZooKeeper stamps each write with its leader's time. Two stamps can be compared only while the same leader is in office:
the upper half of a transaction's number tells its epoch. With a new epoch every lease begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import StoreMisconfigured
from headgate.stores.zookeeper.asking import Question, children, look, make, remove, write
from headgate.stores.zookeeper.session import Session
from headgate.stores.zookeeper.tree import Tree

#: What to do when the store was removed under a running process.
REMOVED = "Someone removed the nodes of this store. Restart the programs that use it to create an empty one"
#: The lower bits of a transaction's number count within its epoch.
EPOCH_BITS = 32


@dataclass(frozen=True, slots=True)
class Now:
    """The leader's time in milliseconds, its epoch, and when that was first noticed."""

    at: int
    epoch: int
    began: int

    def age(self, at: int, transaction: int) -> float:
        """Seconds since a stamp: since the epoch's beginning if the stamp is of an earlier one. Never negative."""
        epoch = transaction >> EPOCH_BITS
        if epoch > self.epoch:
            return 0.0
        return max(self.at - (at if epoch == self.epoch else self.began), 0) / 1000


class Clock:
    """The clock of one store."""

    def __init__(self, tree: Tree) -> None:
        self._path = tree.clock
        self._epochs = tree.epochs
        self._began: dict[int, int] = {}

    def ask(self, session: Session, questions: Sequence[Question]) -> tuple[Now, list[Any]]:
        """The time, and the answers to questions that were asked after it, in one trip."""
        while True:
            stat, *answers = session.ask(write(self._path, b""), *questions)
            now = self.read(stat, session)
            if now:
                return now, answers

    def read(self, stat: Any, session: Session) -> Now | None:
        """The time that the answer to a write tells; None: another epoch has begun meanwhile."""
        if isinstance(stat, Exception):
            raise StoreMisconfigured(session.name, f"node {self._path} is missing", REMOVED) from stat
        epoch = stat.mzxid >> EPOCH_BITS
        if epoch not in self._began and not self._begin(epoch, session):
            return None
        return Now(stat.mtime, epoch, self._began[epoch])

    def _begin(self, epoch: int, session: Session) -> bool:
        """Note when the epoch was first noticed, by whoever did. False: it is over already."""
        path = f"{self._epochs}/{epoch}"
        _, _, stat, others = session.ask(make(self._epochs), make(path), look(path), children(self._epochs))
        if stat is None or stat.czxid >> EPOCH_BITS != epoch:
            return False
        self._began[epoch] = stat.ctime
        past = [name for name in others if name.isdigit() and int(name) < epoch]
        session.ask(*(remove(f"{self._epochs}/{name}") for name in past))
        return True

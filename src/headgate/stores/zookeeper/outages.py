"""Outages of the service: while it was away nobody could renew through it, so leases are moved on by that time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.stores.zookeeper.asking import look, make, read, write
from headgate.stores.zookeeper.clock import Clock
from headgate.stores.zookeeper.questions import Questions
from headgate.stores.zookeeper.records import Stamp, read_stamp, write_span
from headgate.stores.zookeeper.session import Sessions, windows
from headgate.stores.zookeeper.tree import Tree

if TYPE_CHECKING:
    from headgate.stores.zookeeper.queue import ZookeeperQueue


class ZookeeperOutages:
    """When a service was last heard of on one ensemble."""

    def __init__(
        self,
        sessions: Sessions,
        tree: Tree,
        clock: Clock,
        questions: Questions,
        queue: Callable[[], ZookeeperQueue],
    ) -> None:
        self._sessions = sessions
        self._path = tree.service
        self._clock = clock
        self._questions = questions
        self._queue = queue

    def tell_alive(self) -> None:
        """A service lives."""
        self._sessions.base.ask(make(self._path), write(self._path, b""))

    def bridge(self) -> float:
        """Move leases on by the time that no service was there. Returns that time, in seconds."""
        now, (sign,) = self._clock.ask(self._sessions.base, [look(self._path)])
        outage = 0.0 if sign is None else now.age(sign.mtime, sign.mzxid)
        if outage:
            for portion in windows(list(self._locks())):
                self._move_on(portion, outage)
            self._queue().move_on(outage)
        self.tell_alive()
        return outage

    def _locks(self) -> Iterator[tuple[str, float]]:
        """The node and the length of each lease of a lock, dead or alive."""
        for view in self._questions.leased():
            for holder in view.state.holders:
                if holder.lease is not None and not holder.dead:
                    yield f"{view.path}/{holder.node}", holder.lease

    def _move_on(self, leases: Sequence[tuple[str, float]], outage: float) -> None:
        """What had not run out when the service was last heard of has again what it had then.

        Whoever renewed meanwhile, without the service, has its whole lease anyway, and is never given more.
        """
        session = self._sessions.base
        now, answers = self._clock.ask(session, [read(node) for node, _ in leases])
        moved = []
        for (node, lease), answer in zip(leases, answers, strict=True):
            stamp = read_stamp(answer)
            if stamp is None:
                continue
            age = now.age(stamp.renewed, stamp.transaction)
            left = _span(stamp, lease) - max(age - outage, 0.0)
            if left > 0 and age > 0:
                moved.append(write(node, write_span(left), stamp.version))
        session.ask(*moved)


def _span(stamp: Stamp, lease: float) -> float:
    return lease if stamp.span is None else stamp.span

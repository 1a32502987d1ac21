"""Outages of the service: clients could not renew through it, so leases are extended by that time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.stores.zookeeper.ensemble.asking import look, make, read, write
from headgate.stores.zookeeper.ensemble.clock import Clock
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.locks.questions import Questions
from headgate.stores.zookeeper.locks.records import read_stamp, write_span
from headgate.stores.zookeeper.tree import Tree

if TYPE_CHECKING:
    from headgate.stores.zookeeper.queue.store import ZookeeperQueue


class ZookeeperOutages:
    """The last sign of life of a service, on one ensemble."""

    def __init__(
        self,
        sessions: ZkSessions,
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

    def report_alive(self) -> None:
        """Record that a service is alive."""
        self._sessions.base.ask(make(self._path), write(self._path, b""))

    def bridge(self) -> float:
        """Extend leases by the time without a service. Returns that time in seconds."""
        now, (sign,) = self._clock.ask(self._sessions.base, [look(self._path)])
        outage = 0.0 if sign is None else now.age(sign.mtime, sign.mzxid)
        if outage:
            for portion in windows(list(self._locks())):
                self._move_on(portion, outage)
            self._queue().move_on(outage)
        self.report_alive()
        return outage

    def _locks(self) -> Iterator[tuple[str, float]]:
        """The node and the lease length of each lock, dead or alive."""
        for view in self._questions.leased():
            for holder in view.state.holders:
                if holder.lease is not None and not holder.dead:
                    yield f"{view.path}/{holder.node}", holder.lease

    def _move_on(self, leases: Sequence[tuple[str, float]], outage: float) -> None:
        """Leases that had not expired at the service's last sign of life get back their remaining time.

        Holders that renewed meanwhile, without the service, have their full lease anyway, and never get more.
        """
        session = self._sessions.base
        now, answers = self._clock.ask(session, [read(node) for node, _ in leases])
        moved = []
        for (node, lease), answer in zip(leases, answers, strict=True):
            stamp = read_stamp(answer)
            span = lease if stamp is None or stamp.span is None else stamp.span
            if stamp and (left := now.left_before(outage, span, stamp)):
                moved.append(write(node, write_span(left), stamp.version))
        session.ask(*moved)

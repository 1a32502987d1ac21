"""Changes of the queue: the stored form of their results, the server's time, and arrivals."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from headgate.calls.deadlines import within
from headgate.calls.idempotency import UNKNOWN
from headgate.core.queue.model import Batch, IngestJob
from headgate.stores.zookeeper.ensemble.asking import make, write
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.guarded import Answered, ChangePlan, GuardedChanges
from headgate.stores.zookeeper.history.store import NodeHistory
from headgate.stores.zookeeper.queue.tree import QueueTree
from headgate.stores.zookeeper.repeats import key_ops
from headgate.stores.zookeeper.tree import Tree

T = TypeVar("T")


class Commits:
    """Changes the queue of one store."""

    def __init__(self, sessions: ZkSessions, tree: QueueTree, beside: Tree, history: NodeHistory) -> None:
        self._sessions = sessions
        self._tree = tree
        #: The other parts of the same store.
        self._beside = beside
        self._changes = GuardedChanges(sessions, tree.own, beside, history)
        self._offset: float | None = None
        self._arrivals: set[str] = set()
        self.history = history

    # ------------------------------------------------------------------ time

    def now(self) -> datetime:
        """The server's time, estimated from its last answer."""
        if self._offset is None:
            stat = self._sessions.base.ask(write(self._beside.clock, b""))[0]
            self.learn(stat.mtime)
        return moment(int((time.time() + (self._offset or 0.0)) * 1000))

    def learn(self, milliseconds: int) -> None:
        """The server has just reported this time."""
        self._offset = milliseconds / 1000 - time.time()

    # ------------------------------------------------------------------ changing

    def run(self, build: Callable[[], ChangePlan[T]]) -> T:
        """Make the planned change; repeated from the read on, while others are first. Never twice."""

        def plan() -> ChangePlan[T]:
            made = build()
            made.kept, made.happened, made.missed = _kept(made.result), self._happened, self._arrivals.clear
            return made

        with within(self._sessions.answer_within):
            return self._changes.run(plan).result

    def key_ops(self, result: Any) -> list[Op]:
        """Return the part of a multi that creates the record of a request with an idempotency key."""
        return key_ops(self._sessions, self._beside, _kept(result))

    def _happened(self, done: Answered) -> None:
        if done.results and done.at:
            self.learn(done.at)

    # ------------------------------------------------------------------ arrivals

    def arrival(self, state: str, priority: int, job_id: str) -> Op:
        """Notify consumers at once that an item entered a state; an empty id: several did."""
        path = self._tree.arrivals(state, priority)
        if path not in self._arrivals:
            self._sessions.base.ask(make(path))
            self._arrivals.add(path)
        return Op("set", path, job_id.encode())


def _kept(result: Any) -> object:
    """The result as the record of a request with an idempotency key stores it."""
    known = result[0] if isinstance(result, tuple) and result else result
    return known if isinstance(known, Batch | IngestJob | int) else UNKNOWN

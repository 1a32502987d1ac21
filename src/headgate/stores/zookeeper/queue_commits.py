"""The one guarded multi of the queue: read, decide, change all of it at once, or read again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from headgate import chance
from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.core.queue import Batch, IngestJob
from headgate.stores.deadlines import time_limit, within
from headgate.stores.idempotency import UNKNOWN
from headgate.stores.zookeeper.asking import catch_up, make, write
from headgate.stores.zookeeper.multi import Op, checked_size, first_error, multi
from headgate.stores.zookeeper.queue_history import QueueHistory, Told
from headgate.stores.zookeeper.queue_tree import QueueTree
from headgate.stores.zookeeper.records import moment
from headgate.stores.zookeeper.repeats import check_keys, key_ops
from headgate.stores.zookeeper.session import Interrupted, Session, Sessions
from headgate.stores.zookeeper.transitions import BUSY_SECONDS, PAUSE_SECONDS, new_mark
from headgate.stores.zookeeper.tree import Tree

T = TypeVar("T")


@dataclass(slots=True)
class Plan(Generic[T]):
    """A change, and what it gives when it has happened."""

    ops: list[Op]
    result: T
    told: list[Told] = field(default_factory=list)
    session: Session | None = None


@dataclass(slots=True)
class _Act(Generic[T]):
    """One thing to be done, over all tries."""

    until: float
    tries: int = 0
    synced: bool = False
    #: A change of it was sent, and its answer was lost.
    lost: bool = False
    #: Folder, mark and result of what may have happened.
    doubts: list[tuple[str, str, T]] = field(default_factory=list)


class Again(Exception):
    """What was seen is not so any more: read again. For the stores, never for callers."""


class Commits:
    """Changes the queue of one store."""

    def __init__(self, sessions: Sessions, tree: QueueTree, beside: Tree, history: QueueHistory) -> None:
        self._sessions = sessions
        self._tree = tree
        #: The rest of the same store.
        self._beside = beside
        self._name = sessions.name
        self._offset: float | None = None
        self._arrivals: set[str] = set()
        self.history = history

    # ------------------------------------------------------------------ time

    def now(self) -> datetime:
        """The server's time, as near as the last answer told it."""
        if self._offset is None:
            stat = self._sessions.base.ask(write(self._beside.clock, b""))[0]
            self.learn(stat.mtime)
        return moment(int((time.time() + (self._offset or 0.0)) * 1000))

    def learn(self, milliseconds: int) -> None:
        """The server has just said this time."""
        self._offset = milliseconds / 1000 - time.time()

    # ------------------------------------------------------------------ changing

    def run(self, build: Callable[[], Plan[T]]) -> T:
        """Do what is planned; again, from reading on, while others are first. Never twice."""
        with within(self._sessions.answer_within):
            act: _Act[T] = _Act(time_limit(BUSY_SECONDS))
            try:
                return self._run(build, act)
            except StoreUnavailable as error:
                error.outcome = "unknown" if act.lost else "none"
                raise

    def _run(self, build: Callable[[], Plan[T]], act: _Act[T]) -> T:
        while True:
            act.tries += 1
            try:
                plan = build()
                return self._send(plan, act) if plan.ops else plan.result
            except Again as again:
                if done := self._settle(act):
                    return done[0]
                self._pause(act, again)
            except StoreUnavailable:
                raise
            except HeadgateError:
                # It may be our own change whose answer was lost, or a server that lags behind.
                if done := self._settle(act):
                    return done[0]
                if act.synced:
                    raise
                self._sessions.base.ask(catch_up(self._tree.own))
                act.synced = True

    def _send(self, plan: Plan[T], act: _Act[T]) -> T:
        session, mark = plan.session or self._sessions.base, new_mark()
        guards = [self.history.guard()] if plan.told else []
        entries = [self.history.op(told, mark, guards[0].path) for told in plan.told]
        keys = self.key_ops(plan.result)
        ops = [*guards, *plan.ops, *keys, *entries]
        try:
            results = session.change(multi(checked_size(ops)))[0]
        except Interrupted as error:
            act.lost = True
            if guards:
                act.doubts.append((guards[0].path, mark, plan.result))
            raise Again(str(error)) from error
        self._check(results, ops, keys)
        if entries:
            self.history.noticed(str(results[-1]))
        return plan.result

    def key_ops(self, result: Any) -> list[Op]:
        """Return the part of a multi that makes the record of a request with an idempotency key."""
        known = result[0] if isinstance(result, tuple) and result else result
        return key_ops(self._sessions, self._beside, known if isinstance(known, Batch | IngestJob | int) else UNKNOWN)

    def _check(self, results: Any, ops: Sequence[Op], keys: Sequence[Op]) -> None:
        """Again when a guard did not hold."""
        failed = 0 if isinstance(results, Exception) else first_error(results)
        check_keys(keys, None if failed is None else ops[failed])
        if failed is None:
            stat = next((each for op, each in zip(ops, results, strict=True) if op.kind == "set"), None)
            if stat is not None:
                self.learn(stat.mtime)
            return
        if failed == 0:
            self.history.turn()
        self._arrivals.clear()
        raise Again(f"{ops[failed].kind} {ops[failed].path}")

    def _settle(self, act: _Act[T]) -> tuple[T] | None:
        """What was done although its answer was lost."""
        for folder, mark, result in act.doubts:
            if self.history.find(folder, mark, self._sessions.base) is not None:
                return (result,)
        return None

    def _pause(self, act: _Act[Any], again: Again) -> None:
        if act.tries > 3:
            if time.monotonic() >= act.until:
                raise StoreUnavailable(
                    self._name, (f"other processes were always first, or the connection was lost: {again}")
                ) from again
            time.sleep(chance.between(*PAUSE_SECONDS))

    # ------------------------------------------------------------------ arrivals

    def arrival(self, state: str, priority: int, job_id: str) -> Op:
        """Tell consumers at once that something came into a state; an empty id: several did."""
        path = self._tree.arrivals(state, priority)
        if path not in self._arrivals:
            self._sessions.base.ask(make(path))
            self._arrivals.add(path)
        return Op("set", path, job_id.encode())

"""The single loop of this store: read, decide, change everything in one guarded multi, or start again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headgate.calls.idempotency import Repeated
from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.stores.zookeeper.ensemble.asking import Question, catch_up
from headgate.stores.zookeeper.ensemble.multi import Op, checked_size, first_error, multi
from headgate.stores.zookeeper.ensemble.session import Interrupted, ZkSession, ZkSessions
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.history.folders import HistoryFolders
from headgate.stores.zookeeper.repeats import check_keys, key_ops
from headgate.stores.zookeeper.tree import Tree

T = TypeVar("T")


class Again(Exception):
    """The data that was read is outdated: read it again. Internal to this store; callers never see it."""


@dataclass(slots=True)
class Answered:
    """The server's answer to a change. Everything except the time is empty when the answer was lost."""

    #: In milliseconds by the leader's clock; 0: there was nothing to change.
    at: int
    #: One for each operation.
    results: Sequence[Any] = ()
    #: The new nodes of the history.
    entries: Sequence[str] = ()
    #: The answers to the requests that were sent with the multi.
    answers: Sequence[Any] = ()


def new_mark() -> str:
    """Identifies one attempt in the history."""
    return os.urandom(5).hex()


@dataclass(slots=True)
class ChangePlan(Generic[T]):
    """A change, with its result if it takes effect. Without operations there is nothing to change."""

    ops: Sequence[Op]
    result: T
    #: Entries of the history.
    told: Sequence[Any] = ()
    #: The result as the record of a request with an idempotency key stores it.
    kept: object = None
    session: ZkSession | None = None
    #: Sent together with the multi, and answered after it.
    questions: Sequence[Question] = ()
    mark: str = field(default_factory=new_mark)
    #: Whether a history entry proves that the result is true after its answer was lost.
    proven: bool = True
    happened: Callable[[Answered], None] = lambda _: None
    #: A guard did not hold, or the answer was lost.
    missed: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Changed(Generic[T]):
    """A change that took effect, its time (in milliseconds; 0: there was nothing to change), and its result."""

    result: T
    at: int
    session: ZkSession


@dataclass(slots=True)
class _Attempts(Generic[T]):
    """One change with all its attempts."""

    tries: Tries
    synced: bool = False
    #: Why the last attempt failed.
    why: str = ""
    #: A change was sent, and its answer was lost.
    lost: bool = False
    #: Several such changes, each with the history folder for its entries.
    doubts: list[tuple[str, ChangePlan[T]]] = field(default_factory=list)


@dataclass(eq=False)
class GuardedChanges:
    """Changes nodes of one store, always with history entries."""

    _sessions: ZkSessions
    _root: str
    _tree: Tree
    _history: HistoryFolders

    def run(self, build: Callable[[], ChangePlan[T]]) -> Changed[T]:
        """Make the change that `build` plans from what it reads; repeated while others are first. Never twice.

        `build` raises Again when it must read again. Its errors count only after the server has caught up.
        """
        run: _Attempts[T] = _Attempts(Tries(self._sessions.name))
        try:
            while True:
                if done := self._try(build, run):
                    return done
                run.tries.again(f"other processes were always first, or the connection was lost: {run.why}")
        except StoreUnavailable as error:
            error.outcome = "unknown" if run.lost else "none"
            raise

    def _try(self, build: Callable[[], ChangePlan[T]], run: _Attempts[T]) -> Changed[T] | None:
        """One attempt; None: start again."""
        try:
            plan = build()
            return self._send(plan, run) if plan.ops else self._done(plan, 0)
        except Again as again:
            run.why = str(again)
            return self._recovered(run)
        except StoreUnavailable:
            raise
        except HeadgateError as error:
            # It may be this change, whose answer was lost, or a server that lags behind.
            if done := self._recovered(run):
                return done
            if run.synced or isinstance(error, Repeated):
                raise
            self._sessions.base.ask(catch_up(self._root))
            run.synced = True
            return None

    def _send(self, plan: ChangePlan[T], run: _Attempts[T]) -> Changed[T]:
        guards = [self._history.guard()] if plan.told else []
        entries = [self._history.op(told, plan.mark, guards[0].path) for told in plan.told]
        keys = key_ops(self._sessions, self._tree, plan.kept)
        ops = checked_size([*guards, *plan.ops, *entries, *keys])
        try:
            results, *answers = self._session(plan).change(multi(ops), *plan.questions)
        except Interrupted as error:
            plan.missed()
            self._doubt(plan, run, guards, error)
            raise Again(str(error)) from error
        self._check(plan, results, ops, keys)
        results = results[len(guards) : len(ops) - len(keys)]
        told = [str(path) for path in results[len(plan.ops) :]]
        if told:
            self._history.noticed(told[-1])
        at = next((int(stat.mtime) for op, stat in zip(plan.ops, results, strict=False) if op.kind == "set"), 0)
        plan.happened(Answered(at, results[: len(plan.ops)], told, answers))
        return self._done(plan, at)

    def _check(self, plan: ChangePlan[T], results: Any, ops: Sequence[Op], keys: Sequence[Op]) -> None:
        """Again when a guard did not hold."""
        failed = first_error(results)
        check_keys(keys, None if failed is None else ops[failed])
        if failed is None:
            return
        if plan.told and failed == 0:
            self._history.turn()
        plan.missed()
        raise Again(f"{ops[failed].kind} {ops[failed].path}")

    def _doubt(self, plan: ChangePlan[T], run: _Attempts[T], guards: Sequence[Op], error: Interrupted) -> None:
        """It may have taken effect. The history answers that, once it can be read again."""
        run.lost = True
        if guards and plan.proven:
            run.doubts.append((guards[0].path, plan))
        if time.monotonic() >= run.tries.until:
            raise StoreUnavailable(self._sessions.name, str(error)) from error

    def _recovered(self, run: _Attempts[T]) -> Changed[T] | None:
        """The change whose answer was lost, if it took effect."""
        for folder, plan in run.doubts:
            at = self._history.find(folder, plan.mark, self._session(plan))
            if at is not None:
                plan.happened(Answered(at))
                return self._done(plan, at)
        return None

    def _session(self, plan: ChangePlan[T]) -> ZkSession:
        return plan.session or self._sessions.base

    def _done(self, plan: ChangePlan[T], at: int) -> Changed[T]:
        return Changed(plan.result, at, self._session(plan))

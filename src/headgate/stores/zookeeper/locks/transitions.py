"""Resources as this process reads and caches them, and the changes of their locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from headgate.calls.idempotency import UNKNOWN, Unfinished
from headgate.core.errors import HeadgateError, LockRefused, StoreUnavailable
from headgate.core.locks.model import Lock
from headgate.core.locks.rules import LockRules
from headgate.core.locks.snapshot import ConfirmLock, LockOutcome, LockSnapshot
from headgate.core.locks.work import MustWait, serve
from headgate.stores.zookeeper.ensemble.asking import children, make, read
from headgate.stores.zookeeper.ensemble.clock import Clock, moment
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions, windows
from headgate.stores.zookeeper.guarded import Again, Answered, ChangePlan, GuardedChanges
from headgate.stores.zookeeper.history.store import NodeHistory
from headgate.stores.zookeeper.locks.nodes import Nodes
from headgate.stores.zookeeper.locks.records import NEVER, Holder, Stamp, State, read_place, read_stamp
from headgate.stores.zookeeper.locks.refusals import Refusals
from headgate.stores.zookeeper.locks.views import Unclear, View, read_view
from headgate.stores.zookeeper.tree import Tree, parent

T = TypeVar("T")
Decide = Callable[[LockSnapshot], LockOutcome[T]]
#: Whether the cached data suffices for a decision.
Trust = Callable[[Nodes], bool]

#: Number of resources whose last state this process caches.
MOST_REMEMBERED = 10_000
#: Up to this many children, the times of all are read when some are needed.
FEW_CHILDREN = 32
_NOT_FROM_MEMORY = (LockRefused, MustWait)


@dataclass(slots=True)
class Acted(Generic[T]):
    """The result of a decision after it was written: its value, time (in milliseconds), and the new nodes."""

    result: T
    at: int
    session: ZkSession
    nodes: Nodes


@dataclass(slots=True)
class _Act(Generic[T]):
    """One decision about some resources, and what has been read of them so far."""

    paths: Sequence[str]
    decide: Decide[T]
    session: ZkSession
    #: Resources that may have no node yet.
    wanted: Sequence[str]
    #: The result includes times.
    times: Callable[[T], bool]
    trust: Trust | None
    views: list[View] | None = None
    #: The views are cached ones.
    cached: bool = False


class Transitions:
    """Reads resources, and changes them."""

    def __init__(
        self, sessions: ZkSessions, tree: Tree, history: NodeHistory, refusals: Refusals, tag: str, rules: LockRules
    ) -> None:
        self._sessions = sessions
        self._tree = tree
        self._refusals = refusals
        self._tag = tag
        self._changes = GuardedChanges(sessions, tree.root, tree, history)
        self._remembered: dict[str, View] = {}
        #: The tables that decide.
        self.rules = rules
        #: The clock that judges leases.
        self.clock = Clock(tree.clock, tree.epochs)
        #: Whether this process knows, by its own clock, that a grant is alive.
        self.knows_alive: Callable[[Holder], bool] = lambda _: False
        #: The first token of a new resource.
        self.token_base = 0

    # ------------------------------------------------------------------ changing

    def act(
        self,
        paths: Sequence[str],
        decide: Decide[T],
        *,
        wanted: Sequence[str] = (),
        trust: Trust | None = None,
        times: Callable[[T], bool] = lambda result: isinstance(result, LockRefused),
    ) -> Acted[T]:
        """Decide about these resources, and write all changes at once.

        `wanted`: those resources that may have no node yet. `trust`: decide from cached data, if this function allows
        it. `times`: whether a result includes times, so that the nodes' times must be read.
        """
        act = _Act(paths, decide, self._sessions.base, wanted, times, trust)
        remembered = [view for path in paths if (view := self._remembered.get(path))] if trust else []
        if trust and len(remembered) == len(paths):
            act.views, act.cached = remembered, True
        done = self._changes.run(lambda: self._plan(act))
        outcome, nodes = done.result
        return Acted(outcome, done.at, done.session, nodes)

    def nodes(self, views: Sequence[View], wanted: Sequence[str] = ()) -> Nodes:
        """The nodes of some resources, for a decision."""
        return Nodes(views, self._tag, self.rules, self._tree.mail, wanted)

    def recall(self, path: str) -> View | None:
        """The resource as this process last saw it."""
        return self._remembered.get(path)

    def remember(self, view: View) -> None:
        """Cache it for the next fast change."""
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[view.path] = view

    def _plan(self, act: _Act[T]) -> ChangePlan[tuple[T, Nodes]]:
        nodes = self.nodes(self._views(act), act.wanted)
        try:
            outcome = self._decide(act, nodes)
        except Unclear:
            act.views = self.with_times(act.views or [], act.session)
            raise Again from None
        except StoreUnavailable:
            raise
        except HeadgateError:
            act.views = None
            if act.cached:  # Memory proves nothing.
                raise Again from None
            raise
        plan = ChangePlan(
            nodes.ops(), (outcome.result, nodes), nodes.told, _known(outcome.result), act.session, mark=nodes.mark
        )
        plan.questions = [children(each.view.path) for each in nodes.cleared()] if plan.ops else []
        # A grant may have ended with its session: the next check finds it by its request.
        plan.proven = not nodes.granted
        plan.happened = lambda done: self._happened(nodes, plan, done)
        plan.missed = lambda: self._missed(act, nodes)
        return plan

    def _decide(self, act: _Act[T], nodes: Nodes) -> LockOutcome[T]:
        """The outcome, applied to the nodes; Again when more must be read, Unclear when times are needed."""
        if act.cached and act.trust and not act.trust(nodes):
            self._start_again(act)
        outcome = act.decide(nodes.snapshot)
        # Cached data may grant and release, but it refuses nothing, and does not show whether an earlier grant is still
        # alive.
        if act.cached and (isinstance(outcome.result, _NOT_FROM_MEMORY) or outcome.has(ConfirmLock)):
            self._start_again(act)
        if missing := nodes.missing(outcome):
            self.make_resources(missing)
            self._start_again(act)
        if act.times(outcome.result) and not all(view.whole for view in act.views or ()):
            raise Unclear
        nodes.apply(outcome)
        if nodes.refusals:
            self._refusals.add(nodes)
        return outcome

    def _start_again(self, act: _Act[T]) -> None:
        act.views = None
        raise Again

    def _missed(self, act: _Act[T], nodes: Nodes) -> None:
        act.views = None
        for each in nodes.each.values():
            self._remembered.pop(each.view.path, None)

    def _happened(self, nodes: Nodes, plan: ChangePlan[tuple[T, Nodes]], done: Answered) -> None:
        stats = {op.path: stat for op, stat in zip(plan.ops, done.results, strict=False) if op.kind == "set"}
        for each in nodes.each.values():
            if each.view.path in stats:
                self.remember(nodes.becomes(each, stats[each.view.path].version))
        for each, names in zip(nodes.cleared(), done.answers, strict=False) if done.answers else ():
            self._look_behind(each.view.path, names)
        for work in nodes.after:
            work(done.entries, done.at)

    def _look_behind(self, path: str, children: Any) -> None:
        """A waiter joined the queue while it was found empty: serve it now."""
        if isinstance(children, Exception) or not any(read_place(name) for name in children):
            return
        self._remembered.pop(path, None)
        self.act([path], serve)

    # ------------------------------------------------------------------ looking

    def _views(self, act: _Act[T]) -> list[View]:
        if act.views is None:
            act.cached = False
            act.views = self.judged([v for v in self.look(act.paths, act.session) if v], act.session)
        return act.views

    def look(self, paths: Sequence[str], session: ZkSession) -> list[View | None]:
        """Resources and their children, in one trip, from a server that may lag behind; None: it does not exist."""
        answers = session.ask(*(ask for path in paths for ask in (read(path), children(path))))
        return [read_view(path, *answers[2 * n : 2 * n + 2]) for n, path in enumerate(paths)]

    def judged(self, views: Sequence[View], session: ZkSession) -> list[View]:
        """The same, with the stamps of all holders that may be dead by now."""
        if not any(self._doubtful(view.state) for view in views):
            return list(views)
        if sum(len(view.children) for view in views) <= FEW_CHILDREN:
            return self.with_times(views, session)
        nodes = {view.path: _mortal(view.state) & view.children for view in views}
        return self._with_stamps(views, nodes, session, whole=False)

    def _doubtful(self, state: State) -> bool:
        """Whether a client that this process does not know to be alive may be dead by now."""
        return any(each.dead or (each.lease is not None and not self.knows_alive(each)) for each in state.holders)

    def with_times(self, views: Sequence[View], session: ZkSession) -> list[View]:
        """The same, with the stamps of every child."""
        if all(view.whole for view in views):
            return list(views)
        return self._with_stamps(views, {view.path: view.children for view in views}, session, whole=True)

    def _with_stamps(
        self, views: Sequence[View], nodes: Mapping[str, frozenset[str]], session: ZkSession, *, whole: bool
    ) -> list[View]:
        paths = [(path, node) for path, some in nodes.items() for node in some]
        now, answers = self.clock.ask(session, [read(f"{path}/{node}") for path, node in paths])
        stamps: dict[str, dict[str, Stamp]] = {view.path: {} for view in views}
        for (path, node), answer in zip(paths, answers, strict=True):
            if stamp := read_stamp(answer):
                stamps[path][node] = stamp
        return [replace(view, stamps=stamps[view.path], now=now, whole=whole) for view in views]

    def make_resources(self, resources: Iterable[str]) -> None:
        """Create the nodes of these resources, if they have none."""
        paths = [(uri, self._tree.resource(uri)) for uri in resources]
        for portion in windows(paths):
            self._sessions.base.ask(
                *(make(parent(path)) for _, path in portion),
                *(make(path, State(uri, self.token_base, known=False).encode()) for uri, path in portion),
            )

    def show_locks(self, acted: Acted[Any], locks: Sequence[Lock]) -> tuple[Lock, ...]:
        """Grants as other clients see them, with their times: in one trip if some must be read."""
        granted, since = acted.nodes.granted, moment(acted.at)
        if all(lock.id in granted for lock in locks):
            return tuple([lock.granted_at(since) for lock in locks])
        unclear = [lock for lock in locks if lock.id not in granted and lock.since == NEVER]
        holders = {lock.id: acted.nodes.holder(lock) for lock in unclear}
        views = [
            View(self._tree.resource(lock.resource), State(lock.resource), 0, frozenset([holders[lock.id].node]))
            for lock in unclear
        ]
        read = {view.state.uri: view for view in self.with_times(views, acted.session)}
        return tuple(
            lock.granted_at(since)
            if lock.id in granted
            else read[lock.resource].lock(holders[lock.id])
            if lock.id in holders
            else lock
            for lock in locks
        )


def _mortal(state: State) -> frozenset[str]:
    """The nodes of holders that may be dead by now, or have an active lock-delay."""
    return frozenset(holder.node for holder in state.holders if holder.lease is not None or holder.dead)


def _known(result: object) -> object:
    """The stored form of a result before its change is made: only that there is one, because its times come with the
    change.

    Nothing was granted, because the request must wait.
    """
    if isinstance(result, BaseException):
        return result
    return Unfinished() if isinstance(result, MustWait) else UNKNOWN

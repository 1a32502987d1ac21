"""Resources as this process reads and remembers them, and the changes of their locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from kazoo.exceptions import NoNodeError

from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.core.locks import Lock
from headgate.stores.idempotency import UNKNOWN, Unfinished
from headgate.stores.zookeeper.asking import children, make, read
from headgate.stores.zookeeper.changes import Again, Changes, Done, Happened, Plan
from headgate.stores.zookeeper.clock import Clock
from headgate.stores.zookeeper.history import History
from headgate.stores.zookeeper.records import Holder, Stamp, State, decode_state, moment, read_place, read_stamp
from headgate.stores.zookeeper.scene import Held, Scene, Stale, Unclear, View
from headgate.stores.zookeeper.session import Session, Sessions, windows
from headgate.stores.zookeeper.tree import Tree, parent

T = TypeVar("T")

#: Resources whose last state this process remembers.
MOST_REMEMBERED = 10_000
#: With no more children than this, all of them are asked for their times when some are.
FEW_CHILDREN = 32


@dataclass(slots=True)
class _Act(Generic[T]):
    """One change of some resources, and what was read of them so far."""

    paths: Sequence[str]
    work: Callable[[Scene], T]
    session: Session
    views: list[View] | None = None
    #: The views come from memory.
    cached: bool = False


class Transitions:
    """Reads resources, and changes them."""

    def __init__(self, sessions: Sessions, tree: Tree, history: History, tag: str) -> None:
        self._sessions = sessions
        self._tree = tree
        self._tag = tag
        self._changes = Changes(sessions, tree.root, tree, history)
        self._remembered: dict[str, View] = {}
        #: By which leases are judged.
        self.clock = Clock(tree)
        #: Whether this process knows, by its own clock, that a grant is alive.
        self.knows_alive: Callable[[Holder], bool] = lambda _: False
        #: Where the tokens of a new resource begin.
        self.token_base = 0

    # ------------------------------------------------------------------ changing

    def act(self, paths: Sequence[str], work: Callable[[Scene], T], *, quick: bool = False) -> Done[T]:
        """Do the work on a scene of these resources, and all of its change at once. `quick`: from memory first."""
        act = _Act(paths, work, self._sessions.base)
        remembered = [self._remembered.get(path) for path in paths] if quick else [None]
        if all(remembered):
            act.views, act.cached = [view for view in remembered if view], True
        return self._changes.run(lambda: self._plan(act))

    def recall(self, path: str) -> View | None:
        """The resource as this process saw it last."""
        return self._remembered.get(path)

    def remember(self, view: View) -> None:
        """Keep it for the next quick change."""
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[view.path] = view

    def _plan(self, act: _Act[T]) -> Plan[T]:
        scene = Scene(self._views(act), self._tag, self._tree.mail, cached=act.cached)
        try:
            result = act.work(scene)
        except Unclear:
            act.views = self.with_times(act.views or [], act.session)
            raise Again from None
        except Stale:
            act.views = None
            raise Again from None
        except StoreUnavailable:
            raise
        except HeadgateError:
            act.views = None
            if act.cached:  # Memory proves nothing.
                raise Again from None
            raise
        plan = Plan(scene.settle(), result, scene.told, _known(result), act.session, mark=scene.mark)
        cleared = scene.cleared() if plan.ops else []
        plan.questions = [children(each.view.path) for each in cleared]
        # A grant may have died with its session: the next look finds it by its request.
        plan.proven = not any(held.fresh for held in as_helds(result))
        plan.happened = lambda done: self._happened(scene, plan, done)
        plan.missed = lambda: self._missed(act, scene)
        return plan

    def _missed(self, act: _Act[T], scene: Scene) -> None:
        act.views = None
        for each in scene.resources.values():
            self._remembered.pop(each.view.path, None)

    def _happened(self, scene: Scene, plan: Plan[T], done: Happened) -> None:
        stats = {op.path: stat for op, stat in zip(plan.ops, done.results, strict=False) if op.kind == "set"}
        for each in scene.resources.values():
            if each.view.path in stats:
                self.remember(scene.becomes(each, stats[each.view.path].version))
        for each, names in zip(scene.cleared(), done.answers, strict=False):
            self._look_behind(each.view.path, names)
        for work in scene.after:
            work(done.entries, done.at)

    def _look_behind(self, path: str, children: Any) -> None:
        """Somebody joined the queue while it was found empty: serve it now."""
        if isinstance(children, Exception) or not any(read_place(name) for name in children):
            return
        self._remembered.pop(path, None)
        self.serve(path)

    def serve(self, path: str) -> None:
        """Grant the resource to those in its queue whose turn it is."""

        def work(scene: Scene) -> None:
            for each in scene.resources.values():
                each.freed = True
            scene.hand_over()

        self.act([path], work)

    # ------------------------------------------------------------------ looking

    def _views(self, act: _Act[T]) -> list[View]:
        if act.views is None:
            act.cached = False
            act.views = self.judged([v for v in self.look(act.paths, act.session) if v], act.session)
        return act.views

    def look(self, paths: Sequence[str], session: Session) -> list[View | None]:
        """Resources and their children, in one trip, as a server has them that may lag behind; None: there is none."""
        answers = session.ask(*(ask for path in paths for ask in (read(path), children(path))))
        return [read_view(path, *answers[2 * n : 2 * n + 2]) for n, path in enumerate(paths)]

    def judged(self, views: Sequence[View], session: Session) -> list[View]:
        """The same, with the stamps of all holders that may be dead by now."""
        if not any(self._doubtful(view.state) for view in views):
            return list(views)
        if sum(len(view.children) for view in views) <= FEW_CHILDREN:
            return self.with_times(views, session)
        nodes = {view.path: _mortal(view.state) & view.children for view in views}
        return self._with_stamps(views, nodes, session, whole=False)

    def _doubtful(self, state: State) -> bool:
        """Whether somebody may be dead by now whom this process does not know to be alive."""
        return any(each.dead or (each.lease is not None and not self.knows_alive(each)) for each in state.holders)

    def with_times(self, views: Sequence[View], session: Session) -> list[View]:
        """The same, with the stamps of every child."""
        if all(view.whole for view in views):
            return list(views)
        return self._with_stamps(views, {view.path: view.children for view in views}, session, whole=True)

    def _with_stamps(
        self, views: Sequence[View], nodes: Mapping[str, frozenset[str]], session: Session, *, whole: bool
    ) -> list[View]:
        paths = [(path, node) for path, some in nodes.items() for node in some]
        now, answers = self.clock.ask(session, [read(f"{path}/{node}") for path, node in paths])
        stamps: dict[str, dict[str, Stamp]] = {view.path: {} for view in views}
        for (path, node), answer in zip(paths, answers, strict=True):
            if stamp := read_stamp(answer):
                stamps[path][node] = stamp
        return [replace(view, stamps=stamps[view.path], now=now, whole=whole) for view in views]

    def make_resources(self, resources: Iterable[str]) -> None:
        """Make the nodes of these resources, where there are none."""
        paths = [(uri, self._tree.resource(uri)) for uri in resources]
        for portion in windows(paths):
            self._sessions.base.ask(
                *(make(parent(path)) for _, path in portion),
                *(make(path, State(uri, self.token_base, known=False).encode()) for uri, path in portion),
            )

    def tell_locks(self, done: Done[Any], helds: Sequence[Held]) -> tuple[Lock, ...]:
        """Grants as the rest of the world sees them, with their times."""
        return tuple(
            held.holder.lock(held.resource, since=moment(done.at))
            if held.fresh
            else self._with_time(held, done.session)
            for held in helds
        )

    def _with_time(self, held: Held, session: Session) -> Lock:
        path, node = self._tree.resource(held.resource), held.holder.node
        view = View(path, State(held.resource), 0, frozenset([node]))
        return told_lock(self.with_times([view], session)[0], held.holder, held.resource)


def told_lock(view: View, holder: Holder, resource: str) -> Lock:
    """A grant as the rest of the world sees it, by its node's own times."""
    stamp = view.stamps.get(holder.node)
    return holder.lock(resource, since=moment(stamp.made if stamp else 0), left=view.left(holder))


def _mortal(state: State) -> frozenset[str]:
    """The nodes of holders that may be dead by now, or whose lock-delay runs."""
    return frozenset(holder.node for holder in state.holders if holder.lease is not None or holder.dead)


def _known(result: object) -> object:
    """What is kept of a result before its change is made: only that there is one, since its times come with the change.

    Nothing was granted where the result is an empty grant.
    """
    if isinstance(result, BaseException):
        return result
    return Unfinished() if result == () else UNKNOWN


def as_helds(result: Any) -> tuple[Held, ...]:
    """The grants within the result of some work."""
    if isinstance(result, Held):
        return (result,)
    return tuple(each for each in result if isinstance(each, Held)) if isinstance(result, tuple) else ()


def read_view(path: str, answer: Any, names: Any) -> View | None:
    """Answers about a resource as a view; None: there is none."""
    if isinstance(answer, NoNodeError) or isinstance(names, NoNodeError):
        return None
    data, stat = answer
    return View(path, decode_state(data, path), stat.version, frozenset(names))

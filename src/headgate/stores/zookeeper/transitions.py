"""The one guarded multi: look, decide, change all of it at once, or look again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kazoo.exceptions import NoNodeError

from headgate import chance
from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.core.locks import Lock
from headgate.stores.deadlines import time_limit
from headgate.stores.idempotency import UNKNOWN, Repeated, Unfinished
from headgate.stores.zookeeper.asking import catch_up, children, make, read
from headgate.stores.zookeeper.clock import Clock
from headgate.stores.zookeeper.history import History
from headgate.stores.zookeeper.multi import Op, checked_size, first_error, multi
from headgate.stores.zookeeper.records import Holder, Stamp, State, decode_state, moment, read_place, read_stamp
from headgate.stores.zookeeper.repeats import check_keys, key_ops
from headgate.stores.zookeeper.scene import Held, Scene, Stale, Unclear, View
from headgate.stores.zookeeper.session import Interrupted, Session, Sessions, windows
from headgate.stores.zookeeper.tree import Tree, parent

T = TypeVar("T")

#: How long a change is tried again while others are always first.
BUSY_SECONDS = 30.0
#: A pause after the third time: short and random, so that nobody is starved.
PAUSE_SECONDS = (0.0002, 0.003)
#: Resources whose last state this process remembers.
MOST_REMEMBERED = 10_000
#: With no more children than this, all of them are asked for their times when some are.
FEW_CHILDREN = 32


class Conflict(Exception):
    """Somebody else was first: look again. For the stores, never for callers."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """A change that happened, when (in milliseconds; 0: nothing was to change), and what it gave."""

    result: T
    at: int
    session: Session

    def moments(self, helds: Iterable[Held]) -> Iterable[tuple[Held, int | None]]:
        """Each grant with its time, where the change itself began it."""
        return ((held, self.at if held.fresh else None) for held in helds)


@dataclass(slots=True)
class _Act(Generic[T]):
    """One thing to be done, over all tries."""

    paths: Sequence[str]
    work: Callable[[Scene], T]
    session: Session
    mark: str
    until: float
    views: list[View] | None = None
    cached: bool = False
    synced: bool = False
    tries: int = 0
    #: A change of it was sent, and its answer was lost.
    lost: bool = False
    doubts: list[tuple[str, Scene, T]] = field(default_factory=list)


class Transitions:
    """Reads resources, and changes them."""

    def __init__(self, sessions: Sessions, tree: Tree, history: History, tag: str, name: str) -> None:
        self._sessions = sessions
        self._tree = tree
        self._history = history
        self._tag = tag
        self._name = name
        self._remembered: dict[str, View] = {}
        #: By which leases are judged.
        self.clock = Clock(tree)
        #: Whether this process knows, by its own clock, that a grant is alive.
        self.knows_alive: Callable[[Holder], bool] = lambda _: False
        #: Where the tokens of a new resource begin.
        self.token_base = 0

    # ------------------------------------------------------------------ changing

    def act(self, paths: Sequence[str], work: Callable[[Scene], T], *, quick: bool = False) -> Done[T]:
        """Do the work on a scene of these resources, and all of its change at once."""
        act = _Act(paths, work, self._sessions.base, new_mark(), time_limit(BUSY_SECONDS))
        remembered = [self._remembered.get(path) for path in paths] if quick else [None]
        if all(remembered):
            act.views, act.cached = [view for view in remembered if view], True
        try:
            while True:
                done = self._try(act)
                if done:
                    return done
                self._pause(act)
        except StoreUnavailable as error:
            error.outcome = "unknown" if act.lost else "none"
            raise

    def recall(self, path: str) -> View | None:
        """The resource as this process saw it last."""
        return self._remembered.get(path)

    def remember(self, view: View) -> None:
        """Keep it for the next quick change."""
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[view.path] = view

    def _try(self, act: _Act[T]) -> Done[T] | None:
        """One try; None: look again."""
        act.tries += 1
        scene = Scene(self._views(act), self._tag, f"{act.mark}{act.tries:x}", self._tree.mail, cached=act.cached)
        try:
            result = act.work(scene)
        except Unclear:
            act.views = self.with_times(act.views or [], act.session)
            return None
        except Stale:
            act.views = None
            return None
        except StoreUnavailable:
            raise
        except HeadgateError as error:
            return self._settle_error(act, error)
        return self._commit(act, scene, result)

    def _settle_error(self, act: _Act[T], error: HeadgateError) -> Done[T] | None:
        """An error out of memory or out of a server that lags behind proves nothing."""
        if happened := self._resolve_doubts(act):
            return happened
        if act.synced and not act.cached:
            raise error
        act.views = None
        if not act.cached:
            act.session.ask(catch_up(self._tree.root))
            act.synced = True
        return None

    def _commit(self, act: _Act[T], scene: Scene, result: T) -> Done[T] | None:
        ops = scene.settle()
        if not ops:
            return Done(result, 0, act.session)
        try:
            at, told = self._send(act.session, scene, ops, key_ops(self._sessions, self._tree, _known(result)))
        except Conflict:
            act.views = None
            return self._resolve_doubts(act)
        except Repeated:  # It may have been this very act, whose answer was lost.
            if happened := self._resolve_doubts(act):
                return happened
            raise
        except Interrupted as error:
            return self._doubt(act, scene, result, error)
        for work in scene.after:
            work(told, at)
        return Done(result, at, act.session)

    def _send(self, session: Session, scene: Scene, ops: Sequence[Op], keys: Sequence[Op]) -> tuple[int, list[str]]:
        """Send the multi; Conflict when a guard did not hold. Gives its time and the history's new nodes."""
        cleared = scene.cleared()
        folders = [self._history.guard()] if scene.told else []
        scene.folder = folders[0].path if folders else ""
        entries = [self._history.op(told, scene.mark, folders[0].path) for told in scene.told]
        looks = [children(each.view.path) for each in cleared]
        sent = checked_size([*folders, *ops, *entries, *keys])
        results, *looked = session.change(multi(sent), *looks)
        failed = -1 if isinstance(results, Exception) else first_error(results)
        check_keys(keys, None if failed is None else sent[failed])
        if failed is not None:
            if folders and failed == 0:
                self._history.turn()
            self._forget(scene)
            raise Conflict
        results = results[len(folders) : len(sent) - len(keys)]
        told = [str(path) for path in results[len(ops) :]]
        at = self._remember_all(scene, ops, results)
        if told:
            self._history.noticed(told[-1])
        for each, names in zip(cleared, looked, strict=True):
            self._look_behind(each.view.path, names)
        return at, told

    def _remember_all(self, scene: Scene, ops: Sequence[Op], results: Sequence[Any]) -> int:
        stats = {op.path: stat for op, stat in zip(ops, results[: len(ops)], strict=True) if op.kind == "set"}
        for each in scene.resources.values():
            stat = stats.get(each.view.path)
            if stat is not None:
                self.remember(scene.becomes(each, stat.version))
        return next((int(stat.mtime) for stat in stats.values()), 0)

    def _forget(self, scene: Scene) -> None:
        for each in scene.resources.values():
            self._remembered.pop(each.view.path, None)

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

    # ------------------------------------------------------------------ doubt

    def _doubt(self, act: _Act[T], scene: Scene, result: T, error: Interrupted) -> Done[T] | None:
        """It may have happened. The history knows, when it can be read again."""
        self._forget(scene)
        act.views, act.lost = None, True
        if scene.told:
            act.doubts.append((scene.folder, scene, result))
        if time.monotonic() >= act.until:
            raise StoreUnavailable(self._name, str(error)) from error
        return self._resolve_doubts(act)

    def _resolve_doubts(self, act: _Act[T]) -> Done[T] | None:
        for folder, scene, result in act.doubts:
            if any(held.fresh for held in as_helds(result)):
                continue  # A grant may have died with its session: the next look finds it by its request.
            at = self._history.find(folder, scene.mark, act.session)
            if at is not None:
                for work in scene.after:
                    work([], at)
                return Done(result, at, act.session)
        return None

    def _pause(self, act: _Act[T]) -> None:
        if act.tries > 3:
            if time.monotonic() >= act.until:
                raise StoreUnavailable(self._name, "other processes were always first; the resource is too busy")
            time.sleep(chance.between(*PAUSE_SECONDS))

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
            self._with_time(held, done.session) if at is None else held.holder.lock(held.resource, since=moment(at))
            for held, at in done.moments(helds)
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


def new_mark() -> str:
    """Tells one thing done from all others."""
    return os.urandom(5).hex()


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

"""Queries about many resources: sent together, in portions, without writing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.core.errors import ForeignStore
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Mode, Waiter
from headgate.stores.zookeeper.ensemble.asking import catch_up, children, read
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions, windows
from headgate.stores.zookeeper.locks.records import Holder, State, decode_state
from headgate.stores.zookeeper.locks.transitions import Transitions
from headgate.stores.zookeeper.locks.views import View
from headgate.stores.zookeeper.tree import Tree, key_of_lock
from headgate.telemetry import event

#: Number of folders of resources that are listed together.
FOLDERS = 64


@dataclass(eq=False)
class Questions:
    """Lists the locks of a store."""

    _sessions: ZkSessions
    _tree: Tree
    _transitions: Transitions

    def locks(self, which: LockFilter) -> list[Lock]:
        """Live locks, by id."""
        found: list[Lock] = []
        for portion in self._portions(which.resource, which.after):
            views = [view for view in portion if any(_fits(holder, which) for holder in view.state.holders)]
            for view in self._transitions.with_times(views, self._sessions.base):
                found += [view.lock(each) for each in live(view) if _fits(each, which)]
            if which.limit is not None and len(found) >= which.limit:
                break
        return sorted(found, key=lambda lock: lock.id)[: which.limit]

    def summary(self) -> list[tuple[str, Mode, int]]:
        """Held resources with mode and number of live locks."""
        counts = Counter(
            (view.state.uri, holder.mode) for portion in self._portions() for view in portion for holder in live(view)
        )
        return sorted((uri, mode, count) for (uri, mode), count in counts.items())

    def waiters(self, resource: str | None) -> list[Waiter]:
        """Live waiters, earliest first. A position counts from when its resource is flagged, and is listed from then
        on.
        """
        found: list[Waiter] = []
        for portion in self._portions(resource):
            views = [view for view in portion if view.state.waiting and view.places()]
            for view in self._transitions.with_times(views, self._sessions.base):
                found += [
                    place.waiter(view.state.uri, stamp.number, moment(stamp.made))
                    for place in view.places()
                    if (stamp := view.stamps.get(place.name))
                ]
        return sorted(found, key=lambda waiter: (waiter.ticket, waiter.resource))

    def waits_for(self) -> dict[str, list[str]]:
        """Pairs of waiting and holding clients."""
        found: dict[str, list[str]] = {}
        for portion in self._portions():
            for view in portion:
                holding = [holder.client for holder in live(view)]
                for place in view.places():
                    found.setdefault(place.client, []).extend(holding)
        return found

    def expired(self, limit: int) -> list[str]:
        """Paths of resources that a dead holder left behind."""
        found: list[str] = []
        for portion in self._portions():
            found += [view.path for view in portion if len(live(view)) < len(view.state.holders)]
            if len(found) >= limit:
                break
        return found[:limit]

    def leased(self) -> Iterator[View]:
        """Resources with holders, dead or alive, according to their nodes."""
        for paths in self._path_portions():
            for path, state in self._states(paths).items():
                if state.holders:
                    yield View(path, state, 0, frozenset())

    def resources(self) -> list[str]:
        """Known resources."""
        return sorted(
            state.uri for paths in self._path_portions() for state in self._states(paths).values() if state.known
        )

    def holds(self, client: str) -> int:
        """Number of live locks of a client."""
        return len(self.locks(LockFilter(client=client)))

    def _portions(self, resource: str | None = None, after: str | None = None) -> Iterator[list[View]]:
        """Resources that are held or waited for, by key."""
        if resource is not None:
            yield self.views([self._tree.resource(resource)])
            return
        for paths in self._path_portions(after):
            states = self._states(paths)
            yield self.views([path for path in paths if path in states and _busy(states[path])])

    def views(self, paths: Sequence[str]) -> list[View]:
        """The current state of these resources, without locks that only look dead because they changed meanwhile."""
        session = self._sessions.base
        self.catch_up()
        found = {view.path: view for view in self._look(paths, session)}
        unsure = [path for path, view in found.items() if len(live(view)) < _living(view.state)]
        while unsure:
            again = {view.path: view for view in self._look(unsure, session)}
            changed = [p for p in unsure if p in again and again[p].version != found[p].version]
            found.update(again)
            unsure = changed
        return [found[path] for path in paths if path in found]

    def catch_up(self) -> None:
        """Reads see everything that others have seen, whichever servers they are connected to."""
        self._sessions.base.send(catch_up(self._tree.root))

    def _look(self, paths: Sequence[str], session: ZkSession) -> list[View]:
        found: list[View] = []
        for portion in windows(paths):
            try:
                found += self._judged(portion, session)
            except ForeignStore:
                if len(paths) == 1:
                    raise
                found += [view for path in portion for view in self._look_at_one(path, session)]
        return found

    def _look_at_one(self, path: str, session: ZkSession) -> list[View]:
        try:
            return self._judged([path], session)
        except ForeignStore:
            return []

    def _judged(self, paths: Sequence[str], session: ZkSession) -> list[View]:
        return self._transitions.judged([view for view in self._transitions.look(paths, session) if view], session)

    def _path_portions(self, after: str | None = None) -> Iterator[list[str]]:
        first = "" if after is None else _key(after)
        self.catch_up()
        folders = sorted(self._ask_children([self._tree.locks])[0])
        for portion in windows([name for name in folders if name >= first[:2]], FOLDERS):
            names = self._ask_children([f"{self._tree.locks}/{name}" for name in portion])
            keys = sorted(key for some in names for key in some if key >= first)
            yield [self._tree.of_key(key) for key in keys]

    def _ask_children(self, paths: Sequence[str]) -> list[list[str]]:
        answers = self._sessions.base.ask(*(children(path) for path in paths))
        return [[] if isinstance(answer, Exception) else list(answer) for answer in answers]

    def _states(self, paths: Sequence[str]) -> dict[str, State]:
        found: dict[str, State] = {}
        for portion in windows(paths):
            answers = self._sessions.base.ask(*(read(path) for path in portion))
            for path, answer in zip(portion, answers, strict=True):
                if not isinstance(answer, Exception) and (state := _readable(answer[0], path)):
                    found[path] = state
        return found


def live(view: View) -> list[Holder]:
    """The living holders."""
    return [holder for holder in view.state.holders if view.lives(holder)]


def _living(state: State) -> int:
    return sum(not holder.dead for holder in state.holders)


def _busy(state: State) -> bool:
    return bool(state.holders) or state.waiting


def _readable(data: bytes, path: str) -> State | None:
    """A node with foreign content must not hide the others."""
    try:
        return decode_state(data, path)
    except ForeignStore as error:
        event("zookeeper.unreadable", path=path, why=str(error))
        return None


def _fits(holder: Holder, which: LockFilter) -> bool:
    return (
        which.client in (None, holder.client)
        and which.mode in (None, holder.mode)
        and (which.after is None or holder.id > which.after)
    )


def _key(lock_id: str) -> str:
    return key_of_lock(lock_id) if lock_id.count("-") == 2 else ""

"""The items to take, cached: watches report when the cache is outdated.

Listing a hundred thousand jobs takes a tenth of a second, so it is done rarely: when a list is used up, or has changed
and is old. The arrivals' nodes report jobs with a better priority than all listed ones.

Watches are called by the connection's own thread, which must never wait: they only set flags, without a lock.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from headgate.stores.zookeeper.ensemble.asking import Question, children, look, read
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions, windows
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.tree import QueueTree, is_item, read_entry

#: Seconds after which a changed list is read again, and the minimum multiple of its cost.
SHORTEST_AGE, COST_FACTOR = 1.0, 20
#: A shorter list is read again each time, so that the order is exact.
SHORT_LIST = 100
#: Seconds after which a waiter checks by itself: an expiring lease wakes nobody.
LOOK_SECONDS = 1.0
#: Locks of others that are watched by callers that found nothing to take.
MOST_WATCHED = 50


class Wakes:
    """Changes since a caller found nothing, and the sleepers until the next one."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._changes = 0
        self._exhausted = -1
        self._wakes: set[Callable[[], None]] = set()

    @property
    def changes(self) -> int:
        """Grows with every notification."""
        return self._changes

    def notify(self, _event: object = None) -> None:
        """There may be an item to take."""
        self._changes = next(self._numbers)
        for wake in tuple(self._wakes):
            wake()

    def exhaust(self, changes: int) -> None:
        """There was no item to take at this number of notifications."""
        self._exhausted = changes

    def may_have_work(self) -> bool:
        """Whether a notification has arrived since."""
        return self._exhausted != self._changes

    def call(self, wake: Callable[[], None]) -> None:
        """Call it with every notification."""
        self._wakes.add(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Stop calling it."""
        self._wakes.discard(wake)


class ListListening:
    """A caller that waits for items in some lists."""

    pause = LOOK_SECONDS

    def __init__(self, wakes: Sequence[Wakes], wake: Callable[[], None]) -> None:
        self._wakes = wakes
        self._wake = wake
        for each in wakes:
            each.call(wake)

    def end(self) -> None:
        """Stop waiting."""
        for each in self._wakes:
            each.forget(self._wake)


class ItemListening:
    """A caller that waits for an item to change its state: its status is watched."""

    def __init__(self, sessions: ZkSessions, status: str, wake: Callable[[], None]) -> None:
        self._sessions, self._status, self._wake = sessions, status, wake
        self._ended = False
        self._watch()

    @property
    def pause(self) -> float:
        """Seconds after which to check if it is not woken; none if the watch was lost and set again."""
        if self._watched:
            return LOOK_SECONDS
        self._watch()
        return 0.0

    def end(self) -> None:
        """Stop waiting."""
        self._ended = True

    def _watch(self) -> None:
        self._watched = True
        self._sessions.base.ask(look(self._status, self._changed))

    def _changed(self, _event: object) -> None:
        """The node changed, or the connection did; a watch fires once."""
        self._watched = False
        if not self._ended:
            self._wake()


class HoldWatch:
    """The holds, as each session knows them: by watches, which fire before any later answer."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        #: The nodes of the current holds, by session.
        self._known: dict[int, frozenset[str]] = {}
        self._changes = 0

    def ask(self, session: ZkSession, questions: Sequence[Question]) -> tuple[frozenset[str], list[Any]]:
        """The nodes of the current holds, and the answers."""
        number = session.id
        if number in self._known:
            answers = session.ask(*questions)
            # Otherwise there is a new hold, or one less, since these requests were sent.
            if (known := self._known.get(number)) is not None:
                return known, answers

        def changed(_event: object) -> None:
            self._changes += 1
            self._known.pop(number, None)

        changes, folders = self._changes, self._tree.hold_folders
        found = session.ask(*(children(path, changed) for path in folders), *questions)
        names = dict(zip(folders, found, strict=False))
        there = {path: each for path, each in names.items() if not isinstance(each, Exception)}
        standing = frozenset(f"{path}/{name}" for path, each in there.items() for name in each)
        if changes == self._changes and len(there) == len(folders):  # A missing node has no watch.
            self._known[number] = standing
        return standing, found[len(folders) :]


class JobList:
    """The jobs in one state, in their order, without those that were tried."""

    def __init__(self, sessions: ZkSessions, tree: QueueTree, state: str) -> None:
        self._sessions = sessions
        self._tree = tree
        self._path = f"{tree.states}/{state}"
        self._state = state
        self._guard = threading.Lock()
        self._names: list[str] = []
        self._listed, self._cost, self._dirty = 0.0, 0.0, True
        #: The seen version of each priority's arrivals, and the priorities that are watched.
        self._seen: dict[int, int] = {}
        self._watched: set[int] = set()
        self._priorities_known = False
        self.wakes = Wakes()

    def choose(self, amount: int, after: str) -> list[str]:
        """The first few names after that one, removed from the list: no other thread of this process tries them
        meanwhile.
        """
        with self._guard:
            start = bisect_left(self._names, after + "\0") if after else 0
            found = self._names[start : start + amount]
            del self._names[start : start + amount]
            return found

    def refresh(self, *, all_of_it: bool = False) -> None:
        """Add new items. `all_of_it`: including those that were tried before."""
        with self._guard:
            age = time.monotonic() - self._listed
            old = self._dirty and age > max(SHORTEST_AGE, COST_FACTOR * self._cost)
            if all_of_it or old or len(self._names) < SHORT_LIST or not self._hear():
                self._list()

    def put_back(self, names: Iterable[str]) -> None:
        """They were not tried, or are free again."""
        with self._guard:
            for name in names:
                self._insert(name)

    def _insert(self, name: str) -> None:
        place = bisect_left(self._names, name)
        if self._names[place : place + 1] != [name]:
            self._names.insert(place, name)

    def _list(self) -> None:
        self._hear()
        began = time.monotonic()
        self._dirty = False
        self._names = sorted(name for name in self._sessions.base.names(self._path, self._changed) if read_entry(name))
        self._listed = time.monotonic()
        self._cost = self._listed - began

    def _changed(self, _event: object) -> None:
        self._dirty = True
        self.wakes.notify()

    # ------------------------------------------------------------------ arrivals

    def _hear(self) -> bool:
        """Add new items with a better priority than the best listed one. False: the list must be read again."""
        self._know_priorities()
        best = int(self._names[0][:2]) if self._names else 100
        new = [priority for priority in self._seen if priority < best and priority not in self._watched]
        if not new:
            return True
        self._watched.update(new)
        answers = self._sessions.base.ask(*(self._ask_arrivals(priority) for priority in new))
        taken_up = [self._take_up(priority, answer) for priority, answer in zip(new, answers, strict=True)]
        return all(taken_up)

    def _know_priorities(self) -> None:
        if self._priorities_known:
            return
        self._priorities_known = True
        for name in self._sessions.base.names(self._tree.arrivals(self._state), self._priorities_changed):
            self._seen.setdefault(int(name), 0)

    def _ask_arrivals(self, priority: int) -> Any:
        def told(_event: object) -> None:
            self._watched.discard(priority)

        return read(self._tree.arrivals(self._state, priority), told)

    def _take_up(self, priority: int, answer: Any) -> bool:
        if isinstance(answer, Exception):
            self._watched.discard(priority)
            return True
        data, stat = answer
        missed = int(stat.version) - self._seen[priority]
        self._seen[priority] = stat.version
        job = (data or b"").decode(errors="replace")
        if missed == 1 and is_item(job):
            self._insert(f"{priority:02d}-{job}")
            return True
        return missed == 0

    def _priorities_changed(self, _event: object) -> None:
        self._priorities_known = False


class Board:
    """The state of every batch."""

    def __init__(self, sessions: ZkSessions, tree: QueueTree, questions: ItemQuestions) -> None:
        self._sessions = sessions
        self._tree = tree
        self._questions = questions
        self._guard = threading.Lock()
        self._names: list[str] = []
        self._dirty = True
        self._states: dict[str, str] = {}
        #: Batches whose state is watched: the cached states of others may be outdated.
        self._watched: set[str] = set()
        self.wakes = Wakes()

    def batches(self, state: str) -> list[str]:
        """The batches in a state, oldest first."""
        with self._guard:
            if self._dirty:
                self._list()
            self._read([batch for batch in self._names if batch not in self._watched])
            return [batch for batch in self._names if self._states.get(batch) == state]

    def _list(self) -> None:
        self._dirty = False
        names = self._sessions.base.names(self._tree.batches, self._listing_changed)
        self._names = sorted(name for name in names if is_item(name))
        for gone in set(self._states) - set(self._names):
            del self._states[gone]

    def _read(self, batches: Sequence[str]) -> None:
        for portion in windows(batches):
            self._watched.update(portion)
            answers = self._sessions.base.ask(*(read(self._tree.status(each), self._told(each)) for each in portion))
            for batch, answer in zip(portion, answers, strict=True):
                if isinstance(answer, Exception):
                    self._await_status(batch)
                else:
                    self._states[batch] = self._questions.batch_state(answer[0])

    def _await_status(self, batch: str) -> None:
        """An id without a status: a batch that is being created."""
        self._states.pop(batch, None)
        if self._sessions.base.ask(look(self._tree.status(batch), self._told(batch)))[0] is not None:
            self._watched.discard(batch)
            self.wakes.notify()

    def _told(self, batch: str) -> Any:
        def told(_event: object) -> None:
            self._watched.discard(batch)
            self.wakes.notify()

        return told

    def _listing_changed(self, _event: object) -> None:
        self._dirty = True
        self.wakes.notify()


class Lists:
    """All items to take in one store."""

    def __init__(self, sessions: ZkSessions, tree: QueueTree, questions: ItemQuestions) -> None:
        self._sessions = sessions
        self._tree = tree
        self.board = Board(sessions, tree, questions)
        self._jobs = {state: JobList(sessions, tree, state) for state in tree.entry_states}

    def jobs(self, state: str) -> JobList:
        """The jobs in a state."""
        return self._jobs[state]

    def watch(self, wakes: Wakes, paths: Iterable[str]) -> None:
        """Report when one of these nodes is removed: the lock of an item, or the pause."""
        if None in self._sessions.base.ask(*(look(path, wakes.notify) for path in list(paths)[:MOST_WATCHED])):
            wakes.notify()

    def sleep(self, wakes: Sequence[Wakes], seconds: float) -> None:
        """Until there may be an item to take, or for that long."""
        sleeper = threading.Event()
        listening = ListListening(wakes, sleeper.set)
        try:
            if not any(each.may_have_work() for each in wakes):
                sleeper.wait(seconds)
        finally:
            listening.end()

"""Whether a grant is still held: looked up by its own node, judged by the leader's clock, renewed by any process."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from headgate.calls.actor import must_own
from headgate.calls.deadlines import within
from headgate.core.errors import LockLost, StoreUnavailable
from headgate.core.locks.model import ENDINGS, Lock
from headgate.core.locks.work import LEASE_EXPIRED, NO_SUCH_LOCK, renew
from headgate.stores.zookeeper.ensemble.asking import catch_up, read, remove, write
from headgate.stores.zookeeper.ensemble.clock import Now, moment
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.history.store import NodeHistory
from headgate.stores.zookeeper.locks.holdings import Holdings
from headgate.stores.zookeeper.locks.questions import Questions
from headgate.stores.zookeeper.locks.records import Holder, State, decode_state, lock_node, read_stamp
from headgate.stores.zookeeper.locks.transitions import Transitions
from headgate.stores.zookeeper.locks.views import View
from headgate.stores.zookeeper.tree import Tree


class Tenure:
    """Checks and renews the grants of one store."""

    def __init__(
        self,
        sessions: ZkSessions,
        tree: Tree,
        transitions: Transitions,
        questions: Questions,
        history: NodeHistory,
        holdings: Holdings,
    ) -> None:
        self._sessions = sessions
        self._tree = tree
        self._transitions = transitions
        self._clock = transitions.clock
        self._questions = questions
        self._history = history
        self._holdings = holdings

    def node(self, lock_id: str, token: int) -> str:
        """The node of a grant."""
        return f"{self._tree.of_lock(lock_id)}/{lock_node(lock_id, token)}"

    def check(self, lock_id: str, token: int) -> Lock:
        """The live grant, in one trip, or LockLost. A grant that this process knows to be alive is not judged again."""
        left = self._holdings.left(lock_id, token)
        if left > 0:
            path = self._tree.of_lock(lock_id)
            questions = (catch_up(path), read(path), read(self.node(lock_id, token)))
            _, state, node = self._sessions.base.ask(*questions)
            view = self._view(lock_id, token, state, node)
            if holder := _find(view, lock_id, token):
                return holder.lock(view.state.uri, since=moment(view.stamps[holder.node].made), left=left)
        view = self._judged(lock_id, token)
        return view.lock(self._live(view, lock_id, token))

    def renew(self, lock_id: str, token: int) -> Lock:
        """Restart the lease: in one trip while it is certainly alive; otherwise it is judged first."""
        session, path = self._sessions.base, self.node(lock_id, token)
        if self._holdings.left(lock_id, token) > 0:
            state, node, stat = session.ask(read(self._tree.of_lock(lock_id)), read(path), write(path, b""))
            view = self._view(lock_id, token, state, node)
            if (holder := _find(view, lock_id, token)) and not isinstance(stat, Exception):
                return holder.lock(view.state.uri, since=moment(view.stamps[holder.node].made))
        tries = Tries(self._sessions.name)
        while True:
            view = self._judged(lock_id, token)
            holder = self._live(view, lock_id, token)
            stamp = view.stamps[holder.node]
            if not isinstance(session.ask(write(path, b"", stamp.version))[0], Exception):
                return holder.lock(view.state.uri, since=moment(stamp.made))
            tries.again(f"{path} was always written by others first")

    def end_own(self) -> None:
        """A clean end releases the leased locks of this process: at once, as if they had expired."""
        nodes = [self.node(lock_id, token) for lock_id, token in self._holdings.own()]
        if not nodes or not self._sessions.base.connected:
            return
        with suppress(StoreUnavailable), within(self._sessions.answer_within):
            for portion in windows(nodes):
                self._sessions.base.ask(*(remove(node) for node in portion))

    def explained(self, error: LockLost) -> LockLost:
        """Including its ending, if the history records it."""
        ends = self._history.endings(error.lock_id, tuple(ENDINGS)) if error.why == NO_SUCH_LOCK else []
        if not ends:
            return error
        why = f": {ends[0].reason}" if ends[0].reason else ""
        text = f"{ENDINGS[ends[0].event]} {ends[0].at:%Y-%m-%d %H:%M:%S} UTC{why}"
        return LockLost(error.lock_id, error.token, text)

    # ------------------------------------------------------------------ looking

    def _judged(self, lock_id: str, token: int) -> View:
        """The part of the grant's resource that concerns that grant, with the leader's time, in one trip."""
        questions = [read(self._tree.of_lock(lock_id)), read(self.node(lock_id, token))]
        now, (state, node) = self._clock.ask(self._sessions.base, questions)
        return self._view(lock_id, token, state, node, now)

    def _view(self, lock_id: str, token: int, state: Any, node: Any, now: Now | None = None) -> View:
        path, name = self._tree.of_lock(lock_id), lock_node(lock_id, token)
        stamp = read_stamp(node)
        if stamp is None or isinstance(state, Exception):
            return View(path, State(""), 0, frozenset())
        return View(path, decode_state(state[0], path), 0, frozenset([name]), {name: stamp}, now)

    def _live(self, view: View, lock_id: str, token: int) -> Holder:
        """The live grant; otherwise LockLost, with its ending."""
        holder = _find(view, lock_id, token)
        if holder:
            must_own(f"lock {lock_id}", holder.principal)
        if holder and view.lives(holder):
            return holder
        self._holdings.forget(lock_id)
        if holder and view.over(holder):
            raise LockLost(lock_id, token, LEASE_EXPIRED)
        try:
            renew(self._transitions.nodes(self._questions.views([view.path])).snapshot, lock_id, token)
        except LockLost as error:
            raise self.explained(error) from None
        raise LockLost(lock_id, token, NO_SUCH_LOCK)


def _find(view: View, lock_id: str, token: int) -> Holder | None:
    node = lock_node(lock_id, token)
    return next((each for each in view.state.holders if each.id == lock_id and each.node == node), None)

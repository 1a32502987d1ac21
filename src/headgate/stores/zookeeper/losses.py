"""Telling a holder at once that its lock is gone: its session ended, or its node did."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.core.errors import HeadgateError, LockLost
from headgate.core.locks import Lock
from headgate.stores.zookeeper.asking import look
from headgate.stores.zookeeper.records import Holder
from headgate.stores.zookeeper.session import Session, Sessions
from headgate.stores.zookeeper.transitions import Transitions
from headgate.stores.zookeeper.tree import Tree, key_of_lock


class LossWatch:
    """The watch over one grant, until its end or its loss."""

    def __init__(
        self,
        sessions: Sessions,
        tree: Tree,
        transitions: Transitions,
        lock: Lock,
        lost: Callable[[str], None],
        check: Callable[[str, int], Lock],
    ) -> None:
        self._sessions = sessions
        self._transitions = transitions
        self._path = tree.of_key(key_of_lock(lock.id))
        self._lock = lock
        self._lost = lost
        self._check = check
        self._over = threading.Event()
        self._unwatch: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Watch the session and the node that the grant lives by, as far as this process knows them."""
        holder = self._holder()
        session = self._sessions.by_id(holder.session) if holder else None
        if holder is None or session is None:
            return  # Another process's: its holder renews it there.
        self._unwatch = session.on_loss(lambda why: self._session_lost(holder.session, why))
        self._watch_node(session, holder)

    def end(self) -> None:
        """Nothing is told after this."""
        self._over.set()
        self._unwatch()

    def _holder(self) -> Holder | None:
        view = self._transitions.recall(self._path)
        if view is None or not any(each.id == self._lock.id for each in view.state.holders):
            try:
                view = self._transitions.look([self._path], self._sessions.base)[0]
            except HeadgateError:
                return None  # Renewing finds out.
        holders = view.state.holders if view else ()
        return next((each for each in holders if each.id == self._lock.id), None)

    def _watch_node(self, session: Session, holder: Holder) -> None:
        node = f"{self._path}/{holder.node}"

        def changed(_event: object) -> None:
            if not self._over.is_set():
                threading.Thread(target=self._look, args=(session,), name="headgate-loss", daemon=True).start()

        session.send(look(node, changed))

    def _look(self, session: Session) -> None:
        """The node has changed or the connection broke: ask, and watch on if it is still there."""
        try:
            self._check(self._lock.id, self._holder_token())
        except LockLost as error:
            self._tell(error.why)
        except HeadgateError:
            pass  # Renewing and the session itself go on telling.
        else:
            holder = self._holder()
            if holder and not self._over.is_set():
                self._watch_node(session, holder)

    def _holder_token(self) -> int:
        """An upgrade gives another token, by which the grant goes on."""
        holder = self._holder()
        return max(holder.token, self._lock.token) if holder else self._lock.token

    def _session_lost(self, session: int, why: str) -> None:
        holder = self._holder()
        if holder and holder.session != session:
            self.begin()  # It was moved to another session before.
        else:
            self._tell(why)

    def _tell(self, why: str) -> None:
        if not self._over.is_set():
            self._over.set()
            self._unwatch()
            self._lost(why)

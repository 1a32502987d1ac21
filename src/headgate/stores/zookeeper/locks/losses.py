"""Notifying a holder at once that its lock is lost: its node is watched."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.core.errors import HeadgateError, LockLost
from headgate.core.locks.model import Lock
from headgate.stores.zookeeper.ensemble.asking import children, read
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.locks.records import decode_state, lock_node
from headgate.stores.zookeeper.tree import Tree, key_of_lock

#: Seconds between two questions about a lock while the store cannot say whether it is held.
REST_SECONDS = 1.0


class LossWatch:
    """The watch over one grant, until its end or its loss."""

    def __init__(
        self,
        sessions: ZkSessions,
        tree: Tree,
        lock: Lock,
        lost: Callable[[str], None],
        check: Callable[[str, int], Lock],
    ) -> None:
        self._session = sessions.base
        self._path = tree.of_key(key_of_lock(lock.id))
        self._lock = lock
        self._lost = lost
        self._check = check
        self._over = threading.Event()

    def begin(self) -> None:
        """Watch the grant's node."""
        self._watch(self._lock.token)

    def end(self) -> None:
        """Nothing is reported after this."""
        self._over.set()

    def _watch(self, token: int) -> None:
        # A watch on the children of a node that has none: it fires when the node is removed, but not when it is
        # renewed.
        node = f"{self._path}/{lock_node(self._lock.id, token)}"
        self._session.send(children(node, self._changed), self._answered)

    def _answered(self, answer: object) -> None:
        """Called by kazoo's own thread, which must not block."""
        if getattr(answer, "exception", None) is not None:
            self._changed()

    def _changed(self, _event: object = None) -> None:
        """Likewise."""
        if not self._over.is_set():
            threading.Thread(target=self._look, name="headgate-loss", daemon=True).start()

    def _look(self) -> None:
        """The node was removed, or the connection broke: check, and continue watching if the lock is still held."""
        try:
            token = self._present_token()
            self._check(self._lock.id, token)
        except LockLost as error:
            if not self._over.is_set():
                self._over.set()
                self._lost(error.why)
        except HeadgateError:  # Until then renewals notice it.
            self._over.wait(REST_SECONDS)
            self._session.on_return(self._changed)
        else:
            if not self._over.is_set():
                self._watch(token)

    def _present_token(self) -> int:
        """An upgrade issues a new token, under which the grant continues."""
        answer = self._session.ask(read(self._path))[0]
        holders = () if isinstance(answer, Exception) else decode_state(answer[0], self._path).holders
        return max((each.token for each in holders if each.id == self._lock.id), default=self._lock.token)

"""How a waiter is notified that its turn has come: by a node of its session, which only that session watches.

The releasing process writes it in the change that grants, so one event and one read are enough.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType

from headgate.core.errors import StoreMisconfigured
from headgate.stores.zookeeper.ensemble.asking import keep, read
from headgate.stores.zookeeper.ensemble.session import INTERRUPTIONS, ZkSession
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.locks.records import HandOver, read_message

#: What to do about a node that every store has.
REPAIR = "Make it again with: headgate doctor --repair"


@dataclass(slots=True)
class _Seen:
    """The session whose mailbox is watched, and its last content."""

    session: int = 0
    version: int = -1
    watched: bool = False


class Mailbox:
    """The mailbox of one session at a time."""

    def __init__(
        self,
        session: ZkSession,
        folder: str,
        deliver: Callable[[HandOver, int, int], None],
        wake_all: Callable[[], None],
    ) -> None:
        self._session = session
        self._folder = folder
        self._deliver = deliver
        self._wake_all = wake_all
        self._seen = _Seen()
        self._guard = threading.Lock()

    def open(self) -> None:
        """Create it for the current session, and watch it, unless that was done already."""
        if self._is_open:
            return
        tries = Tries(self._session.name)
        while not self._is_open:
            with self._guard:
                if not self._is_open:
                    self._open()
            if not self._is_open:
                tries.again("each of its sessions ended at once")

    @property
    def _is_open(self) -> bool:
        return self._seen.watched and self._seen.session == self._session.id

    def _open(self) -> None:
        number = self._session.id
        # Events may arrive before the answer, so everything is prepared before the request.
        self._seen = seen = _Seen(number, self._seen.version if self._seen.session == number else 0, watched=True)
        path = self._path(number)
        try:
            made, answer = self._session.ask(keep(path), read(path, lambda event: self._changed(seen, event)))
        except BaseException:
            seen.watched = False
            raise
        if isinstance(made, NoNodeError):
            seen.watched = False
            raise StoreMisconfigured(self._session.name, f"node {self._folder} is missing", REPAIR)
        if isinstance(answer, Exception):  # The session has just ended.
            seen.watched = False
        elif answer[1].version > seen.version:
            seen.version = answer[1].version
            self._wake_all()

    def _path(self, session: int) -> str:
        return f"{self._folder}/{session}"

    def _changed(self, seen: _Seen, event: Any) -> None:
        """Called by kazoo's own thread, which must not block: the answer to the request is passed to `_read`."""
        if seen is not self._seen:
            return
        if event.type != EventType.CHANGED:
            self._lose(seen)
            return
        question = read(self._path(seen.session), lambda again: self._changed(seen, again))
        self._session.send(question, lambda answer: self._read(seen, answer))

    def _read(self, seen: _Seen, answer: Any) -> None:
        """Likewise."""
        try:
            data, stat = answer.get(block=False)
        except (*INTERRUPTIONS, NoNodeError):
            self._lose(seen)
            return
        missed, seen.version = stat.version != seen.version + 1, stat.version
        message = read_message(data, self._path(seen.session))
        if message:
            self._deliver(message, stat.mtime, stat.mzxid)
        if missed:  # Another message was overwritten: its waiter checks by itself.
            self._wake_all()

    def _lose(self, seen: _Seen) -> None:
        seen.watched = False
        self._wake_all()

"""The thread of a process that listens for wake-ups, and how often waiters poll without one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from headgate.core.errors import HeadgateError
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.wires import Wire

#: The shortest pause between two checks.
SHORTEST = 0.001
#: A check may take at most this part of the time waited so far.
PART = 0.05
#: The longest pause. It is also the pause of waiters that are woken, because wake-ups may get lost.
LISTENING_PAUSE = 1.0
#: If each wake-up ends the listening, it is restarted after this long: waiters poll meanwhile.
REST_SECONDS = 0.25


class WakeupListener:
    """The thread of this process that receives the wake-ups of a channel."""

    def __init__(self, database: Database, heard: Callable[[int], None], wire: Wire | None = None) -> None:
        """`wire`: the transport of the news; without one, the dialect's own notifications to one process."""
        self._database = database
        self._listen_on = database.dialect.listen if wire is None else wire.listen
        self._wire = wire
        self._notify = heard
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._pid = 0
        self._channel = ""

    @property
    def listening(self) -> bool:
        """Whether wake-ups reach this process now."""
        return self._listening.is_set()

    def begin(self, channel: str | None = None) -> str:
        """Listen, unless this process does already. Returns the channel; a new one if none is named."""
        with self._guard:
            if self._pid != os.getpid():
                self._start(channel or f"hg_{os.urandom(8).hex()}")
        return self._channel

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()

    def _start(self, channel: str) -> None:
        self._pid = os.getpid()
        self._channel = channel
        self._stop, self._listening = threading.Event(), threading.Event()
        if not (self._database.dialect.listens if self._wire is None else self._wire.works):
            return
        threading.Thread(target=self._listen, name="headgate-wakeups", daemon=True).start()
        self._listening.wait(LISTENING_PAUSE)

    def _listen(self) -> None:
        stop, listening = self._stop, self._listening
        expected: tuple[type[BaseException], ...] = (*self._database.dialect.errors(), HeadgateError)
        while not stop.is_set():
            pause = REST_SECONDS
            try:
                self._listen_on(self._channel, self._heard, stop)
            except expected:
                pause = 1.0  # Looking goes on meanwhile; try again in a moment.
            finally:
                listening.clear()
            stop.wait(pause)

    def _heard(self, number: int) -> None:
        """Zero only says that listening began."""
        self._listening.set()
        if number:
            self._notify(number)

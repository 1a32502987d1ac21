"""How a waiting thread is woken: by the database where it can, by its own process, or by looking."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable

from headgate.stores.sql.engine import Database

#: The shortest and the longest pause between two looks.
SHORTEST, LONGEST = 0.001, 0.05
#: A look is worth at most this part of the time waited so far.
PART = 0.05
#: With a listening connection a look is only the second line.
LISTENING_PAUSE = 1.0


class Wakeups:
    """The tickets of this process, and the thread that listens for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._events: dict[int, threading.Event] = {}
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._channel = ""

    @property
    def channel(self) -> str:
        """Where this process listens; it begins to when it is first asked."""
        with self._guard:
            if self._pid != os.getpid():
                self._begin()
        return self._channel

    @property
    def listening(self) -> bool:
        """Whether wake-ups reach this process now."""
        return self._listening.is_set()

    def event(self, ticket: int) -> threading.Event:
        """Set when the ticket's turn may have come."""
        with self._guard:
            return self._events.setdefault(ticket, threading.Event())

    def forget(self, ticket: int) -> None:
        """Nobody waits by that number any more."""
        with self._guard:
            self._events.pop(ticket, None)

    def wake(self, heads: Iterable[tuple[str, int]]) -> None:
        """Wake these: (channel, ticket)."""
        elsewhere = []
        for channel, ticket in heads:
            event = self._events.get(ticket)
            if event is not None:
                event.set()
            else:
                elsewhere.append((channel, ticket))
        if elsewhere:
            self._database.dialect.notify(self._database, elsewhere)

    def pause(self, waited: float, position: int, *, told: bool) -> float:
        """How long to sleep before the next look: the first in the queue looks most often.

        `told`: whoever is in the way says so when it leaves, where it can be heard.
        """
        if told and self._listening.is_set():
            return LISTENING_PAUSE
        return min(max(waited * PART, SHORTEST) * (1 + position), LONGEST)

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._channel = f"hg_{secrets.token_hex(8)}"
        self._events = {}
        self._stop, self._listening = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, name="headgate-wakeups", daemon=True)
        self._thread.start()
        if self._database.dialect.listens:
            self._listening.wait(LISTENING_PAUSE)

    def _listen(self) -> None:
        stop, listening = self._stop, self._listening
        while not stop.is_set():
            try:
                if not self._database.dialect.listen(self._channel, self._heard, stop):
                    return
            except self._database.dialect.errors():
                listening.clear()  # Looking goes on meanwhile; try again in a moment.
                stop.wait(1.0)

    def _heard(self, ticket: int) -> None:
        """A wake-up came: perhaps before its waiter has asked for it. Zero only says that listening began."""
        self._listening.set()
        if ticket:
            self.event(ticket).set()

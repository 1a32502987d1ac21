"""How a waiting thread is woken: by the database where it can, by its own process, or by looking."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable

from headgate.core.errors import HeadgateError
from headgate.stores.sql.dialects.base import Bells
from headgate.stores.sql.engine import Database
from headgate.stores.sql.wires import Wire

#: The shortest pause between two looks.
SHORTEST = 0.001
#: A look is worth at most this part of the time waited so far.
PART = 0.05
#: The longest pause. It is the pause of those who are woken, too: wake-ups may get lost.
LISTENING_PAUSE = 1.0
#: Where listening ends with each wake-up, it begins again after so long: those who wait look meanwhile.
REST_SECONDS = 0.25
#: Wake-ups that are remembered for waiters that do not listen yet.
MOST_EARLY = 1000


class Listener:
    """The thread of this process that hears what is called out on a channel."""

    def __init__(self, database: Database, heard: Callable[[int], None], wire: Wire | None = None) -> None:
        """`wire`: what news come by; without one, the dialect's own way to one process."""
        self._database = database
        self._listen_on = database.dialect.listen if wire is None else wire.listen
        self._wire = wire
        self._tell = heard
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
        """Listen, unless this process does already. Gives the channel; a new one where none is named."""
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
            listening.clear()
            stop.wait(pause)

    def _heard(self, number: int) -> None:
        """Zero only says that listening began."""
        self._listening.set()
        if number:
            self._tell(number)


class Wakeups:
    """The tickets of this process, and how they are called."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakes: dict[int, Callable[[], None]] = {}
        #: Tickets that were called before their waiters listened.
        self._early: set[int] = set()
        self._guard = threading.Lock()
        self._listener = Listener(database, self._heard)
        #: Made when somebody first waits.
        self._bells: Bells | None = None

    @property
    def channel(self) -> str:
        """Where this process listens; it begins to when it is first asked."""
        return self._listener.begin()

    @property
    def listening(self) -> bool:
        """Whether the database calls this process."""
        return self._listener.listening

    def listen(self, ticket: int, wake: Callable[[], None]) -> None:
        """Call `wake` when the ticket's turn may have come."""
        with self._guard:
            self._wakes[ticket] = wake
            early = ticket in self._early
            self._early.discard(ticket)
        if early:
            wake()

    def is_told(self, ticket: int, own: str, before: str) -> bool:
        """Whether the waiter is woken when what stands before it leaves; the two are the names of their bells."""
        if self.listening:
            return True
        with self._guard:
            if self._bells is None:
                self._bells = self._database.dialect.bells(self._rang)
        return self._bells is not None and self._bells.follow(ticket, own, before)

    def forget(self, ticket: int, own: str, *, granted: bool) -> None:
        """Nobody waits by that number any more."""
        with self._guard:
            self._wakes.pop(ticket, None)
            self._early.discard(ticket)
        if self._bells is not None:
            self._bells.leave(ticket, own, granted=granted)

    def ring(self, bell: str, *, waited_for: bool) -> None:
        """The holder that this bell belongs to has left."""
        if self._bells is not None:
            self._bells.ring(bell, waited_for=waited_for)

    def wake(self, heads: Iterable[tuple[str, int]]) -> None:
        """Wake these: (channel, ticket)."""
        elsewhere = []
        for channel, ticket in heads:
            wake = self._wakes.get(ticket)
            if wake is not None:
                wake()
            else:
                elsewhere.append((channel, ticket))
        if elsewhere:
            self._database.dialect.notify(self._database, elsewhere)

    def pause(self, waited: float, position: int, *, told: bool) -> float:
        """How long to sleep before the next look: those who are not `told` look, the first in the queue most often."""
        if told or self._database.dialect.polls_slowly:
            return LISTENING_PAUSE
        return min(max(waited * PART, SHORTEST) * (1 + position), LISTENING_PAUSE)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        if self._bells is not None:
            self._bells.close()

    def _rang(self, ticket: int) -> None:
        wake = self._wakes.get(ticket)
        if wake is not None:
            wake()

    def _heard(self, ticket: int) -> None:
        """A wake-up came: perhaps before its waiter has asked for it."""
        with self._guard:
            wake = self._wakes.get(ticket)
            if wake is None:
                if len(self._early) >= MOST_EARLY:
                    self._early.clear()
                self._early.add(ticket)
                return
        wake()

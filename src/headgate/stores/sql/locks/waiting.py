"""How a waiting thread is woken: by the database if possible, by its own process, or by polling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from headgate.stores.sql.database.dialect import Bells
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.news import listener
from headgate.stores.sql.news.listener import WakeupListener

#: Number of wake-ups that are remembered for waiters that do not listen yet.
MOST_EARLY = 1000


class Wakeups:
    """The tickets of this process, and how they are woken."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakes: dict[int, Callable[[], None]] = {}
        #: Tickets that were woken before their waiters listened.
        self._early: set[int] = set()
        self._guard = threading.Lock()
        self._listener = WakeupListener(database, self._heard)
        #: Created when a caller first waits.
        self._bells: Bells | None = None

    @property
    def channel(self) -> str:
        """The channel on which this process listens; listening begins with the first call."""
        return self._listener.begin()

    @property
    def listening(self) -> bool:
        """Whether the database notifies this process."""
        return self._listener.listening

    def listen(self, ticket: int, wake: Callable[[], None]) -> None:
        """Call `wake` when the ticket's turn may have come."""
        with self._guard:
            self._wakes[ticket] = wake
            early = ticket in self._early
            self._early.discard(ticket)
        if early:
            wake()

    def is_woken(self, ticket: int, own: str, before: str) -> bool:
        """Whether the waiter is woken when its predecessor leaves, given the names of both bells."""
        if self.listening:
            return True
        with self._guard:
            if self._bells is None:
                self._bells = self._database.dialect.bells(self._rang)
        return self._bells is not None and self._bells.follow(ticket, own, before)

    def forget(self, ticket: int, own: str, *, granted: bool) -> None:
        """No caller waits with that number any more."""
        with self._guard:
            self._wakes.pop(ticket, None)
            self._early.discard(ticket)
        if self._bells is not None:
            self._bells.leave(ticket, own, granted=granted)

    def ring(self, bell: str, *, waited_for: bool) -> None:
        """The holder with this bell has left."""
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
        """How long to sleep before the next check: waiters that are not notified poll, the first in the queue most
        often.
        """
        if told or self._database.dialect.polls_slowly:
            return listener.LISTENING_PAUSE
        return min(max(waited * listener.PART, listener.SHORTEST) * (1 + position), listener.LISTENING_PAUSE)

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
        """A wake-up came, perhaps before its waiter has registered."""
        with self._guard:
            wake = self._wakes.get(ticket)
            if wake is None:
                if len(self._early) >= MOST_EARLY:
                    self._early.clear()
                self._early.add(ticket)
                return
        wake()

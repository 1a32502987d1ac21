"""How an idle consumer is woken: by news of an item, or by polling."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from headgate.core.tables.machine import Machine
from headgate.core.tables.states import BATCH, INGEST_JOB
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.news import listener
from headgate.stores.sql.news.topics import News
from headgate.stores.sql.queue.rows import BATCHES, JOBS, Noun

#: The shortest and the longest pause between two polls, if wake-ups are not possible.
SHORTEST, LONGEST = 0.005, 0.25
#: The pause before checking for free items for which a sleeper was woken.
AGAIN = 0.1


def topic_of(machine: Machine, state: str) -> str:
    """The topic of items that enter a state."""
    return f"{machine.name} {state}"


#: The nouns and states of the topics.
PLACES: dict[str, tuple[Noun, str]] = {
    topic_of(machine, state): (noun, state)
    for machine, noun in ((BATCH, BATCHES), (INGEST_JOB, JOBS))
    for state in machine.states
}


@dataclass(eq=False, slots=True)
class _Sleeper:
    """An idle thread."""

    #: The states that it waits for.
    topics: tuple[str, ...]
    #: It has something to do: it was woken, or no thread polls any more.
    woken: threading.Event = field(default_factory=threading.Event)
    #: There may be an item for it.
    called: bool = False


class Sleepers:
    """Wakes one sleeper for each item that enters a state, and no more.

    Of all sleeping threads of a process, one polls for all of them: a hundred polling threads would slow down the
    workers.
    """

    def __init__(self, database: Database, news: News) -> None:
        self._database = database
        self._news = news
        self._listens = False
        self._sleepers: list[_Sleeper] = []
        self._guard = threading.Lock()
        self._looking = threading.Lock()

    def ring(self, machine: Machine, state: str, items: int = 1, *, listened: bool) -> None:
        """Report that items entered that state. `listened`: another process may be waiting for them."""
        topic = topic_of(machine, state)
        self._heard(topic, items - 1)
        self._news.announce([topic], listened=listened)

    def sleep(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        """Sleep until there may be an item to take in one of these states, or for that long."""
        until = time.monotonic() + seconds
        self._listen()
        with self._asleep(states) as me:
            # News from before it went to sleep woke nobody.
            if self._free(me.topics):
                return
            while not me.called and (left := until - time.monotonic()) > 0:
                if self._looking.acquire(blocking=False):
                    try:
                        self._look_for_all(me, until)
                    finally:
                        self._looking.release()
                else:
                    me.woken.wait(left)
                    me.woken.clear()

    def _listen(self) -> None:
        """Set by the first sleeper."""
        with self._guard:
            listens, self._listens = self._listens, True
        for topic in () if listens else PLACES:
            self._news.listen([topic], partial(self._heard, topic))

    # ---------------------------------------------------------------- polling

    def _look_for_all(self, me: _Sleeper, until: float) -> None:
        """Poll on behalf of all sleepers, until this one has something to do itself."""
        began = time.monotonic()
        seen = self._database.changed()
        callers = 1
        while not me.called and (left := until - time.monotonic()) > 0:
            me.woken.clear()
            free = self._free({topic for each in list(self._sleepers) for topic in each.topics})
            for topic in free:
                self._heard(topic, callers)
            # A woken sleeper needs a moment; items that are still free after that are for another one.
            callers = 2 * callers if free else 1
            if free:
                me.woken.wait(AGAIN)
            else:
                seen = self._doze(me, seen, began, left)

    def _doze(self, me: _Sleeper, seen: object, began: float, seconds: float) -> object:
        """Until the next poll is due: something was written, or a dead consumer's lease may have expired."""
        until = time.monotonic() + min(seconds, listener.LISTENING_PAUSE)
        while not me.woken.wait(min(self._pause(began), max(until - time.monotonic(), 0))):
            now = self._database.changed()
            if now is None or now != seen or time.monotonic() >= until:
                return now
        return seen

    def _pause(self, began: float) -> float:
        if self._news.told:
            return listener.LISTENING_PAUSE
        return min(max((time.monotonic() - began) * listener.PART, SHORTEST), LONGEST)

    def _free(self, topics: Collection[str]) -> list[str]:
        """The topics with free items in their states."""
        asked = [(topic, *PLACES[topic]) for topic in topics]
        return self._database.read(
            lambda tx: [topic for topic, noun, state in asked if tx.one(noun.sql.is_free, state=state)]
        )

    # ---------------------------------------------------------------- sleepers

    @contextmanager
    def _asleep(self, states: Sequence[tuple[Machine, str]]) -> Iterator[_Sleeper]:
        me = _Sleeper(tuple(topic_of(machine, state) for machine, state in states))
        with self._guard:
            self._sleepers.append(me)
        try:
            yield me
        finally:
            with self._guard:
                self._sleepers.remove(me)
                if self._sleepers:
                    # It may have been the polling one.
                    self._sleepers[0].woken.set()

    def _heard(self, topic: str, items: int = 1) -> None:
        if not self._sleepers:
            return  # A thread that goes to sleep later checks first.
        with self._guard:
            waiting = [each for each in self._sleepers if topic in each.topics and not each.called]
            for each in waiting[:items]:
                each.called = True
                each.woken.set()

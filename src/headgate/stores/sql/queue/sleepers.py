"""How a consumer without work is woken: by news of an item, or by looking."""

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

#: The shortest and the longest pause between two looks, where nobody can be woken.
SHORTEST, LONGEST = 0.005, 0.25
#: The pause before a look at what was free and for which somebody was called.
AGAIN = 0.1


def topic_of(machine: Machine, state: str) -> str:
    """The topic of items that come into a state."""
    return f"{machine.name} {state}"


#: The nouns and states behind the topics.
PLACES: dict[str, tuple[Noun, str]] = {
    topic_of(machine, state): (noun, state)
    for machine, noun in ((BATCH, BATCHES), (INGEST_JOB, JOBS))
    for state in machine.states
}


@dataclass(eq=False, slots=True)
class _Sleeper:
    """A thread without work."""

    #: What it waits for.
    topics: tuple[str, ...]
    #: Something to see to: it was called, or nobody looks any more.
    woken: threading.Event = field(default_factory=threading.Event)
    #: There may be something for it.
    called: bool = False


class Sleepers:
    """Rings when an item comes into a state: for each item one sleeper is woken, and no more.

    Of all threads of a process that sleep, one looks, for all of them: a hundred that look hold up those who work.
    """

    def __init__(self, database: Database, news: News) -> None:
        self._database = database
        self._news = news
        self._listens = False
        self._sleepers: list[_Sleeper] = []
        self._guard = threading.Lock()
        self._looking = threading.Lock()

    def ring(self, machine: Machine, state: str, items: int = 1, *, listened: bool) -> None:
        """Report that items came into that state. `listened`: somebody in another process may wait for them."""
        topic = topic_of(machine, state)
        self._heard(topic, items - 1)
        self._news.tell([topic], listened=listened)

    def sleep(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        """Sleep until there may be something to take in one of these states, or for that long."""
        until = time.monotonic() + seconds
        self._listen()
        with self._asleep(states) as me:
            # What came before it lay down called nobody.
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
        """From the first sleeper on."""
        with self._guard:
            listens, self._listens = self._listens, True
        for topic in () if listens else PLACES:
            self._news.listen([topic], partial(self._heard, topic))

    # ---------------------------------------------------------------- the one who looks

    def _look_for_all(self, me: _Sleeper, until: float) -> None:
        """Look on behalf of all sleepers, until this one has something to do itself."""
        began = time.monotonic()
        seen = self._database.changed()
        callers = 1
        while not me.called and (left := until - time.monotonic()) > 0:
            me.woken.clear()
            free = self._free({topic for each in list(self._sleepers) for topic in each.topics})
            for topic in free:
                self._heard(topic, callers)
            # A sleeper that was called needs a moment; what is still free then is for another one.
            callers = 2 * callers if free else 1
            if free:
                me.woken.wait(AGAIN)
            else:
                seen = self._doze(me, seen, began, left)

    def _doze(self, me: _Sleeper, seen: object, began: float, seconds: float) -> object:
        """Until the next look is due: something was written, or a dead consumer's lease may have run out."""
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
        """Those of the topics in whose states something is free."""
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
                    # It may have been the one who looked.
                    self._sleepers[0].woken.set()

    def _heard(self, topic: str, items: int = 1) -> None:
        if not self._sleepers:
            return  # One that lies down later looks first.
        with self._guard:
            waiting = [each for each in self._sleepers if topic in each.topics and not each.called]
            for each in waiting[:items]:
                each.called = True
                each.woken.set()

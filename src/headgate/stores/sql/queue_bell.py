"""How a consumer without work is woken: by the database where it can, by its own process, or by looking."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headgate.core.machine import Machine
from headgate.core.states import BATCH, INGEST_JOB
from headgate.stores.sql.engine import Database
from headgate.stores.sql.queue_rows import BATCHES, JOBS, Noun
from headgate.stores.sql.waiting import LISTENING_PAUSE, PART, Listener

#: The shortest and the longest pause between two looks, where nobody can be woken.
SHORTEST, LONGEST = 0.005, 0.25
#: The pause before a look at what was free and for which somebody was called.
AGAIN = 0.1
#: What stands for each state in a wake-up.
NUMBERS = {
    place: number
    for number, place in enumerate(
        ((machine.name, state) for machine in (BATCH, INGEST_JOB) for state in machine.states), start=1
    )
}
#: The nouns and states behind the numbers.
PLACES: dict[int, tuple[Noun, str]] = {
    number: (BATCHES if name == BATCH.name else JOBS, state) for (name, state), number in NUMBERS.items()
}


@dataclass(eq=False, slots=True)
class _Sleeper:
    """A thread without work."""

    #: What it waits for.
    numbers: tuple[int, ...]
    #: Something to see to: it was called, or nobody looks any more.
    woken: threading.Event = field(default_factory=threading.Event)
    #: There may be something for it.
    called: bool = False


class Bell:
    """Rings when an item comes into a state: for each item one sleeper is woken, and no more.

    Of all threads of a process that sleep, one looks, for all of them: a hundred that look hold up those who work.
    """

    def __init__(self, database: Database, tag: str) -> None:
        self._database = database
        #: Every process of this store listens here.
        self.channel = f"hg_queue_{tag}"
        self._listener = Listener(database, self._heard)
        self._sleepers: list[_Sleeper] = []
        self._guard = threading.Lock()
        self._looking = threading.Lock()

    def ring(self, machine: Machine, state: str, items: int = 1) -> None:
        """So many items came into that state."""
        self.ring_here(machine, state, items)
        self._database.dialect.notify(self._database, [(self.channel, NUMBERS[machine.name, state])])

    def ring_here(self, machine: Machine, state: str, items: int = 1) -> None:
        """The same, for this process alone: the others were told already."""
        self._heard(NUMBERS[machine.name, state], items)

    def sleep(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        """Sleep until there may be something to take in one of these states, or for that long."""
        until = time.monotonic() + seconds
        self._listener.begin(self.channel)
        with self._asleep(states) as me:
            # What came before it lay down called nobody.
            if self._free(me.numbers):
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

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    # ---------------------------------------------------------------- the one who looks

    def _look_for_all(self, me: _Sleeper, until: float) -> None:
        """Look on behalf of all sleepers, until this one has something to do itself."""
        began = time.monotonic()
        seen = self._database.changed()
        callers = 1
        while not me.called and (left := until - time.monotonic()) > 0:
            me.woken.clear()
            free = self._free({number for each in list(self._sleepers) for number in each.numbers})
            for number in free:
                self._heard(number, callers)
            # Who was called needs a moment; what is still free then was more than one.
            callers = 2 * callers if free else 1
            if free:
                me.woken.wait(AGAIN)
            else:
                seen = self._doze(me, seen, began, left)

    def _doze(self, me: _Sleeper, seen: object, began: float, seconds: float) -> object:
        """Until the next look is due: something was written, or a dead consumer's lease may have run out."""
        until = time.monotonic() + min(seconds, LISTENING_PAUSE)
        while not me.woken.wait(min(self._pause(began), max(until - time.monotonic(), 0))):
            now = self._database.changed()
            if now is None or now != seen or time.monotonic() >= until:
                return now
        return seen

    def _pause(self, began: float) -> float:
        if self._listener.listening or self._database.dialect.polls_slowly:
            return LISTENING_PAUSE
        return min(max((time.monotonic() - began) * PART, SHORTEST), LONGEST)

    def _free(self, numbers: Collection[int]) -> list[int]:
        """Those of the states in which something is free."""
        asked = [(number, *PLACES[number]) for number in numbers]
        return self._database.read(
            lambda tx: [number for number, noun, state in asked if tx.one(noun.sql.is_free, state=state)]
        )

    # ---------------------------------------------------------------- sleepers

    @contextmanager
    def _asleep(self, states: Sequence[tuple[Machine, str]]) -> Iterator[_Sleeper]:
        me = _Sleeper(tuple(NUMBERS[machine.name, state] for machine, state in states))
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

    def _heard(self, number: int, items: int = 1) -> None:
        with self._guard:
            waiting = [each for each in self._sleepers if number in each.numbers and not each.called]
            for each in waiting[:items]:
                each.called = True
                each.woken.set()

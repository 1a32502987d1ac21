"""How a consumer without work is woken: by the database where it can, by its own process, or by looking."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headgate.core.machine import Machine
from headgate.core.states import BATCH, INGEST_JOB
from headgate.stores.sql.engine import Database
from headgate.stores.sql.queue_rows import BATCHES, JOBS
from headgate.stores.sql.waiting import LISTENING_PAUSE, PART, Listener

#: The shortest and the longest pause between two looks, where nobody can be woken.
SHORTEST, LONGEST = 0.005, 0.25
#: What stands for each state in a wake-up.
NUMBERS = {
    place: number
    for number, place in enumerate(
        ((machine.name, state) for machine in (BATCH, INGEST_JOB) for state in machine.states), start=1
    )
}


class Bell:
    """Rings when an item comes into a state; who sleeps until then is woken."""

    def __init__(self, database: Database, tag: str) -> None:
        self._database = database
        #: Every process of this store listens here.
        self.channel = f"hg_queue_{tag}"
        self._listener = Listener(database, self._heard)
        self._sleepers: dict[int, set[threading.Event]] = {}
        self._guard = threading.Lock()

    def ring(self, machine: Machine, state: str) -> None:
        """Something came into that state."""
        self.ring_here(machine, state)
        self._database.dialect.notify(self._database, [(self.channel, NUMBERS[machine.name, state])])

    def ring_here(self, machine: Machine, state: str) -> None:
        """The same, for this process alone: the others were told already."""
        self._heard(NUMBERS[machine.name, state])

    def sleep(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        """Sleep until there may be something to take in one of these states, or for that long."""
        began = time.monotonic()
        self._listener.begin(self.channel)
        with self._awake_by(states) as rung:
            seen = self._database.changed()
            while not rung.is_set() and (left := began + seconds - time.monotonic()) > 0 and not self._look(states):
                seen = self._doze(rung, seen, began, left)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _doze(self, rung: threading.Event, seen: object, began: float, seconds: float) -> object:
        """Until the next look is due: something was written, or a dead consumer's lease may have run out."""
        until = time.monotonic() + min(seconds, LISTENING_PAUSE)
        while not rung.wait(min(self._pause(began), max(until - time.monotonic(), 0))):
            now = self._database.changed()
            if now is None or now != seen or time.monotonic() >= until:
                return now
        return seen

    def _pause(self, began: float) -> float:
        if self._listener.listening:
            return LISTENING_PAUSE
        return min(max((time.monotonic() - began) * PART, SHORTEST), LONGEST)

    def _look(self, states: Sequence[tuple[Machine, str]]) -> bool:
        nouns = {noun.machine.name: noun for noun in (BATCHES, JOBS)}
        return self._database.read(
            lambda tx: any(tx.one(nouns[machine.name].sql.is_free, state=state) for machine, state in states)
        )

    @contextmanager
    def _awake_by(self, states: Sequence[tuple[Machine, str]]) -> Iterator[threading.Event]:
        rung = threading.Event()
        numbers = [NUMBERS[machine.name, state] for machine, state in states]
        with self._guard:
            for number in numbers:
                self._sleepers.setdefault(number, set()).add(rung)
        try:
            yield rung
        finally:
            with self._guard:
                for number in numbers:
                    self._sleepers[number].discard(rung)

    def _heard(self, number: int) -> None:
        with self._guard:
            for rung in self._sleepers.get(number, ()):
                rung.set()

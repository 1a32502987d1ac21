"""An arena: workers that work on one store, a nemesis that kills and stops them, and the witness.

All of it runs in one loop, so that reports of the workers and acts of the nemesis have one order.
"""

import random
import selectors
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tests.faults.processes import Child, ChildFailed, Zygote, now
from tests.faults.witness import DeadHold, Witness

WORKERS = 8
#: How long the nemesis looks for a victim in the desired state before it takes any process.
LOOK_SECONDS = 3.0

#: An act of the nemesis: the argument says whether any process will do; returns whether it acted.
Act = Callable[[bool], bool]
W = TypeVar("W", bound=Witness)


@dataclass(slots=True)
class Worker:
    name: str
    child: Child
    ready: bool = False
    done: bool = False
    #: When it is to be continued; 0: it is running.
    resume_at: float = 0.0
    stopped_at: float = 0.0

    @property
    def place(self) -> int:
        """The number of the worker; a killed worker has a successor."""
        return int(self.name.removeprefix("worker").partition(".")[0])


@dataclass(slots=True)
class Toll:
    """What the nemesis did, and what it hit."""

    kills: int = 0
    kills_of_holders: int = 0
    kills_of_waiters: int = 0
    stops: int = 0
    stops_of_holders: int = 0
    #: When each waiter was killed or stopped, and on which resources.
    dead_waiters: list[tuple[float, str]] = field(default_factory=list)
    #: When each stop began and ended.
    pauses: list[tuple[float, float]] = field(default_factory=list)
    dead_holds: list[DeadHold] = field(default_factory=list)

    def paused_meanwhile(self, begin: float, end: float) -> float:
        """Seconds of pauses between two moments: a process stopped in a transaction may block other writers."""
        return sum(min(stop, end) - max(start, begin) for start, stop in self.pauses if start < end and stop > begin)


class Arena(ABC, Generic[W]):
    """Some workers on one store, until all planned faults have happened."""

    def __init__(self, zygote: Zygote, witness: W, lease: float, seconds: float, seed: int) -> None:
        self.witness = witness
        self.toll = Toll()
        self._zygote = zygote
        self._lease = lease
        #: The maximum duration.
        self._seconds = seconds
        self._chance = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._workers: dict[str, Worker] = {}
        self._lives = 0
        self._over = False
        self._acts = list(self._plan_acts())
        #: When the next act became due; 0: it is not.
        self._due_since = 0.0

    @abstractmethod
    def _plan_acts(self) -> Sequence[Act]:
        """The acts of the nemesis, in reverse order."""

    @abstractmethod
    def _is_due(self) -> bool:
        """Whether it is time for the next act."""

    @abstractmethod
    def _struck(self) -> None:
        """The act is done; the next one has its own time."""

    @abstractmethod
    def _is_over(self) -> bool:
        """Whether the workers may leave; called when the nemesis is done."""

    @abstractmethod
    def _spawn(self, name: str, seed: int) -> Child:
        """A new worker."""

    def _orders(self) -> dict[str, Any]:
        """The data that is sent with the answer to a worker that asks for more work."""
        return {}

    def run(self) -> None:
        """Run until all planned acts have happened, and every worker has left."""
        deadline = now() + self._seconds
        for place in range(WORKERS):
            self._start(place)
        while self._workers:
            self._listen(0.01)
            self._wake_due()
            self._strike_when_due()
            self._over = self._over or (not self._acts and self._is_over())
            if now() > deadline:
                raise ChildFailed(f"it did not end in {self._seconds:g} s: {self.progress()}")
        self._selector.close()

    def progress(self) -> str:
        workers = {name: (worker.ready, worker.done, worker.child.alive) for name, worker in self._workers.items()}
        return f"{self.witness.figures()}, {self.toll.kills} kills, {self.toll.stops} stops, {workers}"

    def _strike_when_due(self) -> None:
        """Perform the next act as soon as there is a victim of the desired kind; after a while, on any process."""
        if not self._acts or not (self._due_since or self._is_due()):
            return
        self._due_since = self._due_since or now()
        if self._acts[-1](now() > self._due_since + LOOK_SECONDS):
            self._acts.pop()
            self._due_since = 0.0
            self._struck()

    # ------------------------------------------------------------------ workers

    def _start(self, place: int) -> None:
        self._lives += 1
        name = f"worker{place}.{self._lives}"
        child = self._spawn(name, self._chance.getrandbits(32))
        self._workers[name] = Worker(name, child)
        self._selector.register(child.channel.fileno(), selectors.EVENT_READ, self._workers[name])

    def _listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            worker: Worker = key.data
            if worker.name in self._workers:
                self._hear(worker)

    def _hear(self, worker: Worker) -> None:
        messages, gone = worker.child.channel.read_all()
        for message in messages:
            match message["kind"]:
                case "ready":
                    worker.ready = True
                case "next":
                    worker.child.channel.send("answer", go=not self._over, **self._orders())
                case kind:
                    worker.done |= kind in ("done", "crash")
                    answer = self.witness.hear(worker.name, message)
                    if answer is not None:
                        worker.child.channel.send("answer", **answer)
        if gone:
            self._bury(worker)

    def _bury(self, worker: Worker) -> None:
        """It ended on its own."""
        self._selector.unregister(worker.child.channel.fileno())
        del self._workers[worker.name]
        if not worker.done:
            self.witness.violations.append(f"error: {worker.name} ended without a word")

    # ------------------------------------------------------------------ the nemesis

    def _pick(self, names: set[str]) -> Worker | None:
        able = [w for w in self._workers.values() if w.name in names and w.ready and not w.done and not w.resume_at]
        return self._chance.choice(able) if able else None

    def _anybody(self) -> set[str]:
        return set(self._workers)

    def _kill_holder(self, desperate: bool) -> bool:
        holders = self.witness.live_holders(now())
        return self._kill(self._pick(holders or (self._anybody() if desperate else set())))

    def _kill_anybody(self, _desperate: bool) -> bool:
        return self._kill(self._pick(self._anybody()))

    def _kill(self, victim: Worker | None) -> bool:
        if victim is None:
            return False
        victim.child.kill()
        at = now()
        self._selector.unregister(victim.child.channel.fileno())
        self._hear_last_words(victim)
        left = self.witness.killed(victim.name, at)
        self.toll.kills += 1
        self.toll.kills_of_holders += bool(left)
        self.toll.dead_holds += left
        self._note_dead_waiter(victim, at)
        del self._workers[victim.name]
        self._start(victim.place)
        return True

    def _hear_last_words(self, victim: Worker) -> None:
        """Read what it had sent before it died; no worker waits for an answer."""
        messages, _ = victim.child.channel.read_all()
        for message in messages:
            if message["kind"] not in ("ready", "next"):
                self.witness.hear(victim.name, message)

    def _note_dead_waiter(self, victim: Worker, at: float) -> None:
        resources = self.witness.waiting.pop(victim.name, [])
        self.toll.kills_of_waiters += bool(resources)
        self.toll.dead_waiters += [(at, resource) for resource in resources]

    def _stop_holder(self, desperate: bool) -> bool:
        """Stop a holder for longer than its lease, so that the store grants its resource to another client."""
        holders = self.witness.live_holders(now())
        victim = self._pick(holders or (self._anybody() if desperate else set()))
        if victim is None:
            return False
        victim.stopped_at = now()
        self.witness.stopped(victim.name, victim.stopped_at)
        victim.child.stop()
        victim.resume_at = now() + self._lease * self._chance.uniform(1.3, 1.9)
        self._hear(victim)
        self.toll.stops += 1
        self.toll.stops_of_holders += any(s.until > now() for s in self.witness.held_by(victim.name))
        return True

    def _wake_due(self) -> None:
        for worker in self._workers.values():
            if worker.resume_at and now() >= worker.resume_at:
                worker.resume_at = 0.0
                worker.child.resume()
                self.witness.resumed(worker.name, now())
                self.toll.pauses.append((worker.stopped_at, now()))

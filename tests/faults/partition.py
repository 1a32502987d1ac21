"""Partitions: the network of recording workers breaks and heals, and every worker must continue."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.stores.options import DEFAULT_OPTIONS
from tests.faults import ensembles
from tests.faults.arena import Act
from tests.faults.ensembles import CutEnsemble
from tests.faults.processes import Child, ChildFailed, Zygote, now
from tests.faults.recorder import Rules
from tests.faults.recording import Recording
from tests.proxy import CLIENT, TO_CLIENT, TO_SERVER, Proxy

#: Kinds of partitions of a proxy.
SILENT, NO_REQUESTS, NO_ANSWERS, REFUSED, HALF_OPEN = "silent", "no requests", "no answers", "refused", "half-open"
BETWEEN_TWO = (SILENT, NO_ANSWERS, NO_REQUESTS, REFUSED, HALF_OPEN)
#: Seconds after the network has healed within which every caller is answered and every resource granted.
BACK_SECONDS = 60.0


class Network(Protocol):
    """A network that can be broken."""

    kinds: Sequence[str]

    @property
    def hits(self) -> int:
        """The number of messages and connections that the faults have hit."""

    def cut(self, kind: str) -> None:
        """Break it in this way."""

    def heal(self, *, reset: bool) -> None:
        """Heal it. With `reset`, connections that were silent are closed."""


@dataclass(slots=True)
class ProxyNetwork:
    """All traffic through one proxy."""

    proxy: Proxy
    kinds: Sequence[str] = BETWEEN_TWO

    @property
    def hits(self) -> int:
        return self.proxy.hits

    def cut(self, kind: str) -> None:
        cuts: dict[str, Callable[[], None]] = {
            SILENT: self.proxy.hold,
            NO_REQUESTS: lambda: self.proxy.hold(TO_SERVER),
            NO_ANSWERS: lambda: self.proxy.hold(TO_CLIENT),
            REFUSED: self.proxy.cut,
            HALF_OPEN: lambda: self.proxy.strand(CLIENT),
        }
        cuts[kind]()

    def heal(self, *, reset: bool) -> None:
        self.proxy.heal(reset=reset)


@dataclass(slots=True)
class MemberNetwork:
    """The traffic between the members of an ensemble: the leader is cut off, or another member."""

    ensemble: CutEnsemble
    chance: random.Random
    kinds: Sequence[str] = (ensembles.ALL, ensembles.HEARS, ensembles.SAYS)

    @property
    def hits(self) -> int:
        return self.ensemble.hits

    def cut(self, kind: str) -> None:
        leader = self.ensemble.leader()
        others = [each for each in self.ensemble.members if each is not leader]
        self.ensemble.isolate(self.chance.choice([leader, leader, *others]), kind)

    def heal(self, *, reset: bool) -> None:
        self.ensemble.heal(reset=reset)


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run."""

    partitions: int
    #: The shortest and the longest duration of a partition.
    shortest: float
    longest: float
    seconds: float


@dataclass(slots=True)
class Breaks:
    """What was done, and the results."""

    made: int = 0
    #: Partitions during which messages or connections were hit.
    hit: int = 0
    #: The longest time from healing until every caller was answered and every resource granted.
    slowest_return: float = 0.0
    kinds: list[str] = field(default_factory=list)


class Partitioned(Recording):
    """Recording workers, some of which are behind a network that breaks."""

    def __init__(
        self, zygote: Zygote, network: Network, urls: Sequence[tuple[str, str | None]], rules: Rules, plan: Plan,
        seed: int, *, control_url: str, publish: Callable[[int], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """`control_url`: another store on the same machine; `publish`: gives the chain work for a generation."""
        self.network = network
        self.breaks = Breaks()
        self._plan = plan
        self._publish = publish
        # Calls are answered within the promised time.
        settings = {"answer_within": f"{DEFAULT_OPTIONS.answer_within:g}"}
        super().__init__(zygote, urls, rules, plan.seconds, seed, settings)
        self._pulse = Pulse(zygote, control_url)

    def _plan_acts(self) -> Sequence[Act]:
        return [self._partition] * self._plan.partitions

    def _is_due(self) -> bool:
        return all(worker.ready for worker in self._workers.values())

    def _struck(self) -> None:
        pass

    def _is_over(self) -> bool:
        return True

    def _partition(self, _desperate: bool) -> bool:
        self.generation += 1
        self._publish(self.generation)
        self._await_all(now(), "before the partition")
        hits = self.network.hits
        kinds = self.network.kinds
        kind = kinds[self.breaks.made % len(kinds)]
        self.network.cut(kind)
        self.listen_for(self._chance.uniform(self._plan.shortest, self._plan.longest))
        self.network.heal(reset=self._chance.random() < 0.5)
        healed = now()
        self._await_all(healed, f"after the partition ({kind})")
        self.breaks.slowest_return = max(self.breaks.slowest_return, now() - healed)
        self.breaks.made += 1
        self.breaks.hit += self.network.hits > hits
        self.breaks.kinds.append(kind)
        return True

    def _await_all(self, moment: float, when: str) -> None:
        deadline = now() + BACK_SECONDS
        while not self.all_answered_since(moment):
            self._listen(0.02)
            if now() > deadline:
                raise ChildFailed(f"{BACK_SECONDS:g} s {when} not all go on: {self._idle(moment)}")

    def _idle(self, moment: float) -> str:
        workers = [name for name in self._workers if self.witness.answered.get(name, 0.0) <= moment]
        resources = [each for each in self.resources if self.witness.granted.get(each, 0.0) <= moment]
        return f"not answered: {workers}; not granted: {resources}; seed {self.seed}"

    def usual_call(self) -> float:
        """The longest call of a process outside all partitions: how slow the machine is."""
        return self._pulse.finish()


class Pulse:
    """A process that acquires and releases on another store: the time that it needs depends on the machine alone."""

    def __init__(self, zygote: Zygote, url: str) -> None:
        self._child: Child = zygote.spawn("tests.faults.recorder:pulse", url=url)

    def finish(self) -> float:
        """The longest call that it measured."""
        self._child.channel.send("stop")
        return float(self._child.expect("longest")["seconds"])

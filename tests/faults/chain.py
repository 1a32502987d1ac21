"""The chain: workers that work on the chunks of three jobs while they are killed and stopped."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from tests.faults.arena import Act, Arena
from tests.faults.chain_witness import ChainWitness
from tests.faults.chain_worker import FIVE, JOBS, Rules
from tests.faults.processes import Child, Zygote, now

#: How often the store is queried whether everything is done.
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run."""

    chunks: int
    kills: int
    stops: int
    #: The maximum duration.
    seconds: float
    #: Whether to add the jobs beside the chain.
    mapped: bool = False

    @property
    def successes(self) -> int:
        return self.chunks * (len(JOBS) + 1) + self.chunks // FIVE if self.mapped else self.chunks * len(JOBS)


class Chain(Arena[ChainWitness]):
    """One run on one store. The acts of the nemesis are spread over the whole run, however long it takes."""

    def __init__(
        self, zygote: Zygote, url: str, rules: Rules, plan: Plan, seed: int, all_done: Callable[[], bool]
    ) -> None:
        self._url = url
        self._rules = rules
        self._plan = plan
        self._all_done = all_done
        self._look_at = 0.0
        super().__init__(zygote, ChainWitness(), rules.lease, plan.seconds, seed)

    def _plan_acts(self) -> Sequence[Act]:
        """In random order: three of four kills hit a worker between its claim and its report, the others any worker."""
        aimed = round(self._plan.kills * 0.75)
        acts: list[Act] = [self._kill_holder] * aimed + [self._kill_anybody] * (self._plan.kills - aimed)
        acts += [self._stop_holder] * self._plan.stops
        self._chance.shuffle(acts)
        return acts

    def _is_due(self) -> bool:
        """Evenly over nine tenths of the work: the rest is kept, so that the last ones hit a worker too."""
        done = self.toll.kills + self.toll.stops
        every = 0.9 * self._plan.successes / (self._plan.kills + self._plan.stops)
        return self.witness.chain.successes >= done * every

    def _struck(self) -> None:
        pass

    def _is_over(self) -> bool:
        if self.witness.chain.successes + self.toll.kills < self._plan.successes or now() < self._look_at:
            return False
        self._look_at = now() + LOOK_SECONDS
        return self._all_done()

    def _spawn(self, name: str, seed: int) -> Child:
        return self._zygote.spawn(
            "tests.faults.chain_worker:work", url=self._url, name=name, seed=seed, rules=asdict(self._rules)
        )

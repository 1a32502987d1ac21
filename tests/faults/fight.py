"""The fight: workers that compete for a few resources while they are killed and stopped."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headgate import Gate
from headgate.stores.sql.locks.changes import WAITER_LEASE
from tests.faults.arena import Act, Arena
from tests.faults.fighter import Rules
from tests.faults.processes import Child, Zygote, now
from tests.faults.witness import Witness
from tests.waiting import until

#: Time for the next worker to be scheduled and answered, with eight workers, a server and possibly another test on two
#: cores. It widens the bounds on time only, never a check of safety.
SLACK_SECONDS = 2.0
#: A dead waiter for several resources keeps its queue position for this long.
WAITER_SECONDS = WAITER_LEASE / 1e6
RESOURCES = ["fight:red", "fight:green", "fight:blue"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a fight."""

    grants: int
    kills: int
    stops: int
    #: The mean time between two acts of the nemesis.
    pace: float
    #: The maximum duration.
    seconds: float


class Fight(Arena[Witness]):
    """One fight on one store."""

    def __init__(self, zygote: Zygote, url: str, rules: Rules, plan: Plan, seed: int) -> None:
        self._url = url
        self._rules = rules
        self._plan = plan
        super().__init__(zygote, Witness(), rules.lease, plan.seconds, seed)
        self._due = self._next_due()

    def _next_due(self) -> float:
        return now() + self._chance.uniform(0.5, 1.5) * self._plan.pace

    def _is_due(self) -> bool:
        return now() >= self._due

    def _struck(self) -> None:
        self._due = self._next_due()

    def _is_over(self) -> bool:
        return self.witness.counts.grants >= self._plan.grants

    def _plan_acts(self) -> Sequence[Act]:
        """In random order: most kills hit holders, some any worker, some waiters.

        Waiters early: their positions outlive them.
        """
        late: list[Act] = [self._kill_holder] * round(self._plan.kills * 0.7)
        late += [self._stop_holder] * self._plan.stops
        early: list[Act] = [self._kill_waiter] * max(round(self._plan.kills * 0.15), 1)
        early += [self._kill_anybody] * (self._plan.kills - len(early) - round(self._plan.kills * 0.7))
        mixed = late[len(early) :] + early
        rest = late[: len(early)]
        self._chance.shuffle(mixed)
        self._chance.shuffle(rest)
        return rest + mixed

    def _kill_waiter(self, desperate: bool) -> bool:
        return self._kill(self._pick(set(self.witness.waiting) or (self._anybody() if desperate else set())))

    def _spawn(self, name: str, seed: int) -> Child:
        return self._zygote.spawn(
            "tests.faults.fighter:fight",
            url=self._url, name=name, resources=RESOURCES, seed=seed, rules=asdict(self._rules),
        )  # fmt: skip


def await_silence(gate: Gate, lease: float) -> None:
    """Locks of dead workers disappear within two leases, and waiters when they have not renewed."""
    until(lambda: not gate.locks.list(), "the locks of dead workers to go", 2 * lease + SLACK_SECONDS)
    until(lambda: not gate.locks.waiters(), "dead waiters to leave", WAITER_SECONDS + SLACK_SECONDS)
    gate.locks.expire()

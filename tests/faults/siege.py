"""A service that is killed under load, and the answers that its clients received."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.faults.arena import Act, Arena
from tests.faults.chain_witness import ChainWitness
from tests.faults.processes import Child, Message, Zygote, now
from tests.faults.services import START_SECONDS

#: The prefix of the resources of locks.
LOCKS = "siege:"


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run."""

    #: Answers that clients got.
    answers: int
    kills: int
    chunks: int
    lease: float
    seconds: float


@dataclass(slots=True)
class SiegeWitness(ChainWitness):
    """The answers about locks, claims and batches that clients got."""

    #: By the key that it was submitted with.
    batches: dict[str, str] = field(default_factory=dict)
    #: How often the service was unavailable.
    aways: int = 0
    #: Locks that were granted; claims are not among them.
    locks: int = 0

    @property
    def answers(self) -> int:
        """Of all that was requested; each lock was released, too."""
        told = self.counts.refusals + self.chain.claims + self.chain.successes + len(self.batches)
        return 2 * self.locks + told

    def _hear_enter(self, worker: str, message: Message) -> Message:
        self.locks += message["resource"].startswith(LOCKS)
        return ChainWitness._hear_enter(self, worker, message)

    def _hear_submitted(self, _worker: str, message: Message) -> None:
        self.batches[message["key"]] = message["batch"]

    def _hear_away(self, _worker: str, _message: Message) -> None:
        self.aways += 1


class Victim(Protocol):
    """The services to kill: one, or one of several."""

    @property
    def url(self) -> str:
        """The URL for callers."""

    @property
    def token(self) -> str:
        """Their API token."""

    @property
    def answers(self) -> bool:
        """Whether the killed service is back."""

    def kill(self) -> None:
        """SIGKILL, and start a new one at once."""


class Siege(Arena[SiegeWitness]):
    """One service, eight clients; the kills are spread over their requests."""

    def __init__(self, zygote: Zygote, victim: Victim, plan: Plan, seed: int) -> None:
        self._victim = victim
        self._plan = plan
        #: How often the service was down without any request.
        self.unseen = 0
        #: How often callers were answered while the killed service was down.
        self.served = 0
        self._aways_before = 0
        self.seed = seed
        super().__init__(zygote, SiegeWitness(), plan.lease, plan.seconds, seed)

    def _plan_acts(self) -> Sequence[Act]:
        return [self._kill_service] * self._plan.kills

    def _is_due(self) -> bool:
        every = 0.9 * self._plan.answers / self._plan.kills
        return self.witness.answers >= (self.toll.kills + 0.5) * every

    def _struck(self) -> None:
        pass

    def _is_over(self) -> bool:
        return self.witness.answers >= self._plan.answers

    def _kill_service(self, _desperate: bool) -> bool:
        self.toll.kills += 1
        self._aways_before = self.witness.aways
        answers = self.witness.answers
        self._victim.kill()
        began = now()
        while not self._victim.answers:
            self._listen(0.02)
            assert now() < began + START_SECONDS, "the service did not come back"
        self.served += self.witness.answers > answers
        self.unseen += self.witness.aways == self._aways_before
        return True

    def _spawn(self, name: str, seed: int) -> Child:
        return self._zygote.spawn(
            "tests.faults.caller:call",
            url=self._victim.url, token=self._victim.token, name=name, seed=seed, lease=self._plan.lease,
        )  # fmt: skip

"""The siege: a service that is killed while clients ask it, and what they were told."""

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from tests.faults.arena import Act, Arena
from tests.faults.chain_witness import ChainWitness
from tests.faults.processes import Child, ChildFailed, Message, Zygote, now
from tests.waiting import PATIENT

#: What the resources of locks begin with.
LOCKS = "siege:"
#: The longest that a start may take on a machine that does much else.
START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How much there is to be."""

    #: Answers that clients got.
    answers: int
    kills: int
    chunks: int
    lease: float
    seconds: float


class Victim:
    """`headgate up`, killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._port = port_that_no_client_gets()
        self.url = f"http://127.0.0.1:{self._port}"
        self._folder = folder
        self._process = self._start(subprocess.PIPE)
        assert self._process.stdout
        self.token: str = json.loads(self._process.stdout.readline())["token"]
        self._process.stdout.close()

    def kill(self) -> None:
        """SIGKILL, and a new one at once; it is not waited for."""
        self._process.kill()
        self._process.wait()
        self._process = self._start(subprocess.DEVNULL)

    @property
    def answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/healthz", timeout=5) as answer:  # noqa: S310 - our own
                return bool(answer.status == 200)
        except OSError:
            return False

    def discard(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self, output: int) -> "subprocess.Popen[str]":
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        words = [sys.executable, "-m", "headgate", "up", "--listen", f"127.0.0.1:{self._port}", "--json", "-q"]
        environment = {**clean, **PATIENT, "HEADGATE_URL": f"sqlite:///{self._folder}/headgate.sqlite"}
        return subprocess.Popen(words, stdout=output, text=True, cwd=self._folder, env=environment)


@dataclass(slots=True)
class SiegeWitness(ChainWitness):
    """What clients were told of locks, claims and batches."""

    #: By the key that it was submitted with.
    batches: dict[str, str] = field(default_factory=dict)
    #: How often the service was not there.
    aways: int = 0
    #: Locks that were granted; claims are not among them.
    locks: int = 0

    @property
    def answers(self) -> int:
        """Of all that was asked; each lock was given back, too."""
        told = self.counts.refusals + self.chain.claims + self.chain.successes + len(self.batches)
        return 2 * self.locks + told

    def _hear_enter(self, worker: str, message: Message) -> Message:
        self.locks += message["resource"].startswith(LOCKS)
        return ChainWitness._hear_enter(self, worker, message)

    def _hear_submitted(self, _worker: str, message: Message) -> None:
        self.batches[message["key"]] = message["batch"]

    def _hear_away(self, _worker: str, _message: Message) -> None:
        self.aways += 1


class Siege(Arena[SiegeWitness]):
    """One service, eight clients; the kills are spread over what they ask."""

    def __init__(self, zygote: Zygote, victim: Victim, plan: Plan, seed: int) -> None:
        self._victim = victim
        self._plan = plan
        #: How often the service was away in vain: nobody asked meanwhile.
        self.unseen = 0
        self._aways_before = 0
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
        self._victim.kill()
        began = now()
        while not self._victim.answers:
            self._listen(0.02)
            assert now() < began + START_SECONDS, "the service did not come back"
        self.unseen += self.witness.aways == self._aways_before
        return True

    def _spawn(self, name: str, seed: int) -> Child:
        return self._zygote.spawn(
            "tests.faults.caller:call",
            url=self._victim.url, token=self._victim.token, name=name, seed=seed, lease=self._plan.lease,
        )  # fmt: skip


def port_that_no_client_gets() -> int:
    """A free port below those that the system gives to clients: one of them, that asks for the service while it is
    away, would be given the service's own port, and keep it from coming back.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10_000, first), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise ChildFailed("no port is free")

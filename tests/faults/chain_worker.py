"""A worker of the chain: claims the next chunk, works on it, reports, and sends each step to the witness."""

import random
import time
from dataclasses import dataclass
from typing import Any

import headgate
from headgate import Claim, ClaimLost, Gate, StoreUnavailable
from headgate.service.leases.renewal import ClaimHold
from tests.faults.processes import PATIENCE, Channel, now

#: A chain of three jobs; the last one joins what the two before it made.
JOBS = {"tidy": ("raw",), "enrich": ("tidied",), "join": ("tidied", "enriched")}
MADE_BY = {"tidied": "tidy", "enriched": "enrich", "joined": "join"}
DATASETS = ("raw", *MADE_BY)
#: Beside the chain: a job that also reads the neighbours of a chunk, and one that makes one chunk of five.
MAPPED_JOBS = {"smooth": ("tidied",), "bundle": ("enriched",)}
MAPPED_BY = {"smoothed": "smooth", "bundled": "bundle"}
FIVE = 5
MAPS: dict[str, dict[str, Any]] = {
    "smooth": {"kind": "window", "before": 1, "after": 1},
    "bundle": {"kind": "split", "format": "{group}.{item}", "job_format": "{group}", "need": FIVE},
}
#: Work takes at most this many seconds; some of it longer than a lease, so that heartbeats matter.
WORK_SECONDS = 0.006
#: The fraction of chunks that fail; and the fraction of successes that are reported twice.
FAILING, REPEATED = 0.01, 0.05
#: The fraction of rounds that begin with a round of the reaper.
REAPING = 0.02
#: The fraction of chunks beside the chain whose work is interrupted.
INTERRUPTED = 0.05


@dataclass(frozen=True, slots=True)
class Rules:
    """The behaviour of a worker."""

    lease: float
    #: The fraction of claims whose work takes longer than a lease.
    long_work: float = 0.004
    #: Whether to add the jobs beside the chain.
    mapped: bool = False

    @property
    def jobs(self) -> list[str]:
        return [*JOBS, *(MAPPED_JOBS if self.mapped else ())]


def define(gate: Gate, prefix: str = "") -> None:
    """The chain. However often a worker dies or fails, its chunk is retried."""
    for name in DATASETS:
        gate.ledger.define_dataset(prefix + name)
    for dataset, job in MADE_BY.items():
        inputs = [prefix + name for name in JOBS[job]]
        gate.ledger.define_job(prefix + job, inputs=inputs, outputs=[prefix + dataset], max_attempts=0, max_crashes=0)


def define_mapped(gate: Gate) -> None:
    """The jobs beside the chain."""
    for dataset, job in MAPPED_BY.items():
        gate.ledger.define_dataset(dataset)
        inputs = MAPPED_JOBS[job]
        gate.ledger.define_job(
            job, inputs=inputs, outputs=[dataset], max_attempts=0, max_crashes=0, max_interruptions=0,
            maps={inputs[0]: MAPS[job]},
        )  # fmt: skip


def work(channel: Channel, url: str, name: str, seed: int, rules: dict[str, Any]) -> None:
    """Work until asked to stop."""
    with headgate.connect(url) as gate:
        worker = ChainWorker(channel, gate, name, random.Random(seed), Rules(**rules))
        channel.send("ready")
        while channel.ask("next")["go"]:
            worker.round()
    channel.send("done")


def reads(claim: Claim) -> list[tuple[str, str]]:
    """Every chunk that a claim reads: dataset and data id."""
    return [
        (name, dataid)
        for name, port in sorted(claim.inputs.items())
        for dataid in ((claim.dataid,) if port.dataids is None else port.dataids)
    ]


class ChainWorker:
    def __init__(self, channel: Channel, gate: Gate, name: str, chance: random.Random, rules: Rules) -> None:
        self._channel = channel
        self._ledger = gate.ledger
        self._name = name
        self._chance = chance
        self._rules = rules

    def round(self) -> None:
        """Process one chunk of any job.

        ClaimLost and StoreUnavailable are expected; any other error ends the worker.
        """
        try:
            self._one_chunk()
        except StoreUnavailable:
            self._channel.send("unanswered", at=now())

    def _one_chunk(self) -> None:
        if self._chance.random() < REAPING:
            self._ledger.reap()
        for job in self._chance.sample(self._rules.jobs, len(self._rules.jobs)):
            asked = now()
            claim = self._ledger.find_next(job, worker=self._name, lease=self._rules.lease)
            if claim is not None:
                self._handle(claim, asked)
                return
        time.sleep(self._chance.uniform(0.005, 0.02))

    def _handle(self, claim: Claim, asked: float) -> None:
        hold = ClaimHold(self._ledger.heartbeat, claim, asked)
        self._channel.send(
            "claimed", job=claim.job, dataid=claim.dataid, token=claim.token, asked=asked, began=now(),
            until=hold.deadline, inputs=sorted(claim.inputs), outputs=sorted(claim.outputs), reads=reads(claim),
        )  # fmt: skip
        hold.start()
        try:
            self._work(claim, hold)
        finally:
            hold.stop()
        self._report(claim, hold)

    def _work(self, claim: Claim, hold: ClaimHold) -> None:
        if self._chance.random() >= self._rules.long_work:
            time.sleep(self._chance.uniform(0, WORK_SECONDS))
            return
        until = now() + 1.3 * self._rules.lease
        while now() < until:
            time.sleep(self._rules.lease / 10)
            self._channel.send("renewed", job=claim.job, dataid=claim.dataid, until=hold.deadline)

    def _report(self, claim: Claim, hold: ClaimHold) -> None:
        """Without checking whether the claim is still ours: the store has to."""
        fails = self._chance.random() < FAILING
        stops = claim.job in MAPPED_JOBS and self._chance.random() < INTERRUPTED
        chunk: dict[str, Any] = {"job": claim.job, "dataid": claim.dataid, "token": claim.token}
        self._channel.send("reporting", **chunk, at=now(), until=hold.deadline, success=not (fails or stops))
        why = ""
        try:
            self._say(claim, fails=fails, stops=stops)
            if not (fails or stops) and self._chance.random() < REPEATED:
                self._say(claim, fails=False)
        except ClaimLost as error:
            why = error.why
        self._channel.send("reported", **chunk, at=now(), until=hold.deadline, lost=why)

    def _say(self, claim: Claim, *, fails: bool, stops: bool = False) -> None:
        """Success is reported until there is an answer, since it can be repeated safely; a failure once."""
        if fails:
            self._ledger.fail(claim, "it was its turn to fail")
            return
        if stops:
            self._ledger.interrupt(claim, "it was asked to stop")
            return
        deadline = now() + PATIENCE
        while True:
            try:
                self._ledger.success(claim)
            except StoreUnavailable:
                if now() > deadline:
                    raise
                self._channel.send("away")
            else:
                return

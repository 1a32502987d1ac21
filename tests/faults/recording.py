"""Recorded runs: workers on one store, their reports, and the verdict of the witness and of the models."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults import history
from tests.faults.arena import Arena
from tests.faults.chain_witness import ChainWitness
from tests.faults.chain_worker import JOBS, MADE_BY
from tests.faults.history import FAIL, INFO, OK, Event
from tests.faults.linearizable import violations
from tests.faults.models import RwLock, chain_model
from tests.faults.processes import Child, Message, Zygote, now
from tests.faults.recorder import Rules

COLOURS = ("red", "green", "blue")
#: Calls on the ledger; all others are on locks.
ON_LEDGER = ("claim", "heartbeat", "status", "success", "fail")


@dataclass(slots=True)
class RecordedWitness(ChainWitness):
    """The witness, and the history for the models."""

    events: list[Event] = field(default_factory=list)
    #: How much longer the longest call took than it was to wait, and which call it was.
    longest: float = 0.0
    longest_call: str = ""
    calls: int = 0
    aways: int = 0
    #: When each worker was last answered, whatever the answer was.
    answered: dict[str, float] = field(default_factory=dict)
    #: When each resource was last granted.
    granted: dict[str, float] = field(default_factory=dict)

    def _hear_event(self, worker: str, message: Message) -> None:
        event: Event = message["event"]
        self.events.append(event)
        if event["type"] in (OK, FAIL):
            self.answered[worker] = event["time"]
        if event["type"] == OK and event["f"] == "acquire":
            self.granted[event["key"]] = event["time"]

    def _hear_timed(self, worker: str, message: Message) -> None:
        self.calls += 1
        if message["seconds"] > self.longest:
            self.longest, self.longest_call = message["seconds"], f"{worker} {message['f']}"

    def _hear_renewed(self, worker: str, message: Message) -> None:
        """The claim alone; locks that the worker let expire are not renewed with it."""
        for span in self.held_by(worker):
            if span.lock_id == f"{message['job']} {message['token']}":
                span.until = max(span.until, message["until"])

    def _hear_abandoned(self, worker: str, message: Message) -> None:
        """A worker no longer relies on its claim."""
        for span in self.held_by(worker):
            span.ended = message["at"]

    def _hear_away(self, _worker: str, _message: Message) -> None:
        self.aways += 1

    def judgement(self, *, strict: bool = True) -> list[str]:
        """Everything that witness and models found."""
        return [*self.verdict(), *judge(self.events, strict=strict)]

    def totals(self) -> dict[str, Any]:
        """For the report."""
        kinds = [event["type"] for event in self.events]
        return {
            "calls": self.calls,
            "ok": kinds.count(OK),
            "fail": kinds.count(FAIL),
            "info": kinds.count(INFO),
            "grants": self.counts.grants,
            "claims": self.chain.claims,
            "unavailable": self.aways,
            "worst_call": round(self.longest, 2),
        }


def judge(events: Sequence[Event], *, strict: bool = True) -> list[str]:
    """What no order of the recorded calls explains."""
    ops = history.ops_of(events)
    unanswered = any(each["type"] == INFO and each["f"] == "claim" for each in events)
    chunks = [op for op in ops if op.f in ON_LEDGER]
    locks = [op for op in ops if op.f not in ON_LEDGER]
    found = violations(locks, RwLock(strict))
    found += violations(chunks, chain_model(JOBS, MADE_BY, strict=strict, unanswered=unanswered))
    return [str(each) for each in found]


class Recording(Arena[RecordedWitness]):
    """Workers that record. Each generation uses other resources, so that the history of each stays short."""

    def __init__(
        self, zygote: Zygote, urls: Sequence[tuple[str, str | None]], rules: Rules, seconds: float, seed: int,
        settings: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`urls`: where each worker connects, with its API token; they are assigned in turn."""
        self._urls = list(urls)
        self.rules = rules
        self._settings = settings or {}
        self.generation = 0
        self.seed = seed
        super().__init__(zygote, RecordedWitness(), rules.lease, seconds, seed)

    @property
    def resources(self) -> list[str]:
        return [f"recorded:{self.generation}:{colour}" for colour in COLOURS]

    def _orders(self) -> dict[str, Any]:
        return {"resources": self.resources}

    def _spawn(self, name: str, seed: int) -> Child:
        place = int(name.removeprefix("worker").partition(".")[0])
        url, token = self._urls[place % len(self._urls)]
        return self._zygote.spawn(
            "tests.faults.recorder:record",
            url=url, token=token, name=name, seed=seed, rules=asdict(self.rules), settings=self._settings,
        )  # fmt: skip

    def listen_for(self, seconds: float) -> None:
        """Continue for this long."""
        until = now() + seconds
        while now() < until:
            self._listen(min(0.02, max(until - now(), 0)))

    def all_answered_since(self, moment: float) -> bool:
        """Every worker has had an answer, and every resource was granted."""
        told = all(self.witness.answered.get(name, 0.0) > moment for name in self._workers)
        return told and all(self.witness.granted.get(resource, 0.0) > moment for resource in self.resources)

    def assert_sound(self, found: list[str], folder: Path) -> None:
        """Nothing is wrong; otherwise the history is kept for inspection."""
        if found:
            history.save(self.witness.events, folder / "history.jsonl")
            pytest.fail("\n".join([f"seed {self.seed}, {folder / 'history.jsonl'}", *found]), pytrace=False)

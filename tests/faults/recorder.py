"""A worker that records: every call with its answer (`history.py`) and duration, and the reports for the witness.

It uses locks in two ways, plain (acquire, check, renew, release) and held (renewed by the product's own thread), and,
where there is a ledger, claims chunks of the chain and reports them. A store may be unavailable: the request is
repeated with its request id, for as long as a lease, and stays without an answer after that.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import headgate
from headgate import Claim, ClaimLost, ClaimRefused, Gate, Lock, LockLost, LockRefused, StoreUnavailable
from headgate.service.access.identity import new_request_id
from headgate.service.leases.renewal import LockHold
from tests.faults.chain_worker import JOBS, MADE_BY
from tests.faults.history import FAIL, INFO, INVOKE, OK
from tests.faults.processes import Channel, now

T = TypeVar("T")
Value = dict[str, Any]
#: How long it queues; 0: it does not.
WAITS = (0.0, 0.0, 0.0, 0.5)
#: The longest time in a hold that is not a long one.
INSIDE_SECONDS = 0.02
#: How long opening a connection is retried.
CONNECT_SECONDS = 60.0
#: The datasets that a job makes.
OUTPUT_OF = {job: dataset for dataset, job in MADE_BY.items()}


@dataclass(frozen=True, slots=True)
class Rules:
    """The behaviour of a recorder."""

    lease: float
    #: False: only locks (ZooKeeper has no ledger).
    ledger: bool = True
    #: False: every hold is released within its lease: a loss is then a fault of the store.
    careless: bool = True
    #: The fraction of holds that outlast their lease, and by how many leases at most.
    long: float = 0.04
    leases: float = 1.8
    #: The longest pause between two rounds.
    pause: float = 0.01


class NoAnswer(Exception):
    """The store did not answer for as long as the request was repeated."""


def record(
    channel: Channel, url: str, token: str | None, name: str, seed: int, rules: Value, settings: Value | None = None
) -> None:
    """Work and record until asked to stop."""
    recorder = Recorder(channel, name, random.Random(seed), Rules(**rules))
    recorder.connect(url, token, settings or {})
    channel.send("ready")
    while (order := channel.ask("next"))["go"]:
        recorder.round(order["resources"])
    channel.send("done")


class Recorder:
    def __init__(self, channel: Channel, name: str, chance: random.Random, rules: Rules) -> None:
        self._channel = channel
        self._name = name
        self._chance = chance
        self._rules = rules
        #: The number of lost answers to the current call.
        self._answers_lost = 0
        self._gate: Gate

    def connect(self, url: str, token: str | None, settings: Value) -> None:
        deadline = now() + CONNECT_SECONDS
        while True:
            try:
                self._gate = headgate.connect(url, token=token, **settings)
            except StoreUnavailable:
                if now() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def round(self, resources: list[str]) -> None:
        """One operation from beginning to end, as far as the store answers."""
        works: list[Callable[[], None]] = [lambda: self._plain(resources), lambda: self._held(resources)]
        works += [self._chunk] if self._rules.ledger else []
        with suppress(NoAnswer):
            self._chance.choices(works, [3, 2, 4][: len(works)])[0]()
        time.sleep(self._chance.uniform(0, self._rules.pause))

    # ------------------------------------------------------------------ locks

    def _plain(self, resources: list[str]) -> None:
        resource, mode = self._chance.choice(resources), self._chance.choice(["shared", "exclusive", "exclusive"])
        wait, key, lease = self._chance.choice(WAITS), new_request_id(), self._rules.lease
        value = {"mode": mode, "lease": lease, "wait": wait}

        def acquire() -> Lock:
            return self._gate.locks.acquire(self._name, resource, mode, wait=wait, lease=lease, request_id=key)

        asked = now()
        lock = self._call("acquire", resource, value, acquire, _granted, wait)
        if lock is None:
            self._channel.send("refused")
            return
        until = asked + lease
        if not self._enter(lock, asked, until):
            return
        self._inside()
        if self._chance.random() < 0.4:
            until = self._look(lock, until)
        if until and not (self._rules.careless and self._chance.random() < self._rules.long / 2):
            self._release(lock, until)

    def _look(self, lock: Lock, until: float) -> float:
        """Check or renew. Returns the new deadline; 0: the lock is lost."""
        chosen = {"token": lock.token, "lease": self._rules.lease}
        asked = now()
        if self._chance.random() < 0.5:
            found = self._call("check", lock.resource, {"token": lock.token}, lambda: self._gate.locks.check(lock))
        else:
            found = self._call("renew", lock.resource, chosen, lambda: self._gate.locks.renew(lock))
            until = asked + self._rules.lease if found else until
        if found is None:
            self._lost(lock.resource, until)
            return 0.0
        if lock.mode == "exclusive":
            self._write(lock.resource, lock.token, until)
        else:
            self._channel.send("claim", resource=lock.resource, until=until)
        return until

    def _release(self, lock: Lock, until: float) -> None:
        self._channel.send("leave", resource=lock.resource, at=now(), until=until)
        value = {"token": lock.token}
        released = self._call("release", lock.resource, value, done(lambda: self._gate.locks.release(lock)))
        if released is None and not self._answers_lost:  # Otherwise the release whose answer was lost has ended it.
            self._lost(lock.resource, until)

    def _held(self, resources: list[str]) -> None:
        """A hold that the product renews. Its own deadline, not ours, decides until when it relied on it."""
        resource, mode = self._chance.choice(resources), self._chance.choice(["shared", "exclusive"])
        wait, lease = self._chance.choice(WAITS), self._rules.lease
        value = {"mode": mode, "lease": lease, "wait": wait}
        held = self._gate.locks.held(self._name, resource, mode, wait=wait, lease=lease)
        asked = now()
        hold = self._call("acquire", resource, value, held.__enter__, _granted, wait, once=True)
        if hold is None:
            self._channel.send("refused")
            return
        try:
            if self._enter(hold, asked, hold.deadline or 0.0):
                self._stay(hold)
        finally:
            self._channel.send("leave", resource=resource, at=now(), until=hold.deadline)
            value = {"token": hold.token, "until": hold.deadline}
            leave = done(lambda: held.__exit__(None, None, None))
            if self._call("release", resource, value, leave, once=True) is None:
                self._lost(resource, hold.deadline or 0.0)

    def _stay(self, hold: LockHold) -> None:
        until = now() + self._seconds_inside()
        while True:
            if hold.mode == "exclusive":
                if not self._write(hold.resource, hold.token, hold.deadline or 0.0):
                    return
            else:
                self._channel.send("claim", resource=hold.resource, until=hold.deadline)
            if now() >= until or hold.gone:
                return
            time.sleep(min(max(until - now(), 0), self._rules.lease / 8))

    def _inside(self) -> None:
        time.sleep(self._seconds_inside() if self._rules.careless else self._chance.uniform(0, INSIDE_SECONDS))

    def _seconds_inside(self) -> float:
        if self._chance.random() < self._rules.long:
            return self._rules.lease * self._chance.uniform(1.2, self._rules.leases)
        return self._chance.uniform(0, INSIDE_SECONDS)

    # ------------------------------------------------------------------ the ledger

    def _chunk(self) -> None:
        job, key, lease = self._chance.choice(list(JOBS)), new_request_id(), self._rules.lease
        asked = now()
        claim = self._call(
            "claim", "", {"job": job, "lease": lease},
            lambda: self._gate.ledger.find_next(job, worker=self._name, lease=lease, request_id=key) or False, _claimed,
        )  # fmt: skip
        if isinstance(claim, Claim):
            self._make(claim, asked)

    def _make(self, claim: Claim, asked: float) -> None:
        until = asked + self._rules.lease
        chunk: Value = {"job": claim.job, "dataid": claim.dataid, "token": claim.token}
        self._channel.send(
            "claimed", **chunk, asked=asked, began=now(), until=until, inputs=sorted(claim.inputs),
            outputs=sorted(claim.outputs),
        )  # fmt: skip
        self._inside()
        if self._chance.random() < 0.2 and not self._beat(claim, chunk):
            self._channel.send("abandoned", at=now())
            return
        if self._chance.random() < 0.2:
            self._read(claim)
        self._channel.send("reporting", **chunk, at=now(), until=until, success=True)
        report = done(lambda: self._gate.ledger.success(claim))
        why = "" if self._call("success", claim.dataid, _noted(claim), report) else "the store said so"
        self._channel.send("reported", **chunk, at=now(), until=until, lost=why)

    def _beat(self, claim: Claim, chunk: Value) -> bool:
        """Renew the claim. False: it is lost, or the outcome is unknown."""
        asked = now()
        value = _noted(claim) | {"lease": self._rules.lease}
        try:
            if self._call("heartbeat", claim.dataid, value, lambda: self._gate.ledger.heartbeat(claim)) is None:
                return False
        except NoAnswer:
            return False
        self._channel.send("renewed", **chunk, until=asked + self._rules.lease)
        return True

    def _read(self, claim: Claim) -> None:
        """What the ledger shows of the chunk."""
        dataset = OUTPUT_OF[claim.job]

        def status() -> str:
            rows = self._gate.ledger.status(dataset, dataid=claim.dataid)
            return next((row.status for row in rows if row.kind.value == "OUTPUT"), "") or "none"

        self._call("status", claim.dataid, {"job": claim.job}, status, lambda found: {"status": found})

    # ------------------------------------------------------------------ calls

    def _call(
        self, f: str, key: str, value: Value, act: Callable[[], T],
        told: Callable[[T], Value] | None = None, wait: float = 0.0, *, once: bool = False,
    ) -> T | None:  # fmt: skip
        """Call, and record the answer. None: the answer is no. NoAnswer: there is none."""
        self._event(INVOKE, f, key, value)
        began, self._answers_lost = now(), 0
        while True:
            asked = now()
            try:
                found = act()
            except (LockRefused, ClaimRefused) as error:
                self._answer(f, FAIL, key, {"why": type(error).__name__}, asked, wait)
                return None
            except (LockLost, ClaimLost) as error:
                # After a lost answer our own first attempt may have ended it.
                self._answer(f, INFO if self._answers_lost else FAIL, key, {"why": error.why}, asked, wait)
                return None
            except StoreUnavailable:
                self._answers_lost += 1
                self._timed(f, asked, wait)
                self._channel.send("away")
                if once or now() > began + self._rules.lease:
                    self._event(INFO, f, key, {})
                    raise NoAnswer from None
                time.sleep(self._chance.uniform(0.02, 0.1))
            else:
                results = told(found) if told else {}
                self._answer(f, OK, results.pop("key", key), results, asked, wait)
                return found

    def _answer(self, f: str, kind: str, key: str, value: Value, asked: float, wait: float) -> None:
        self._timed(f, asked, wait)
        self._event(kind, f, key, value)

    def _timed(self, f: str, asked: float, wait: float) -> None:
        self._channel.send("timed", f=f, seconds=now() - asked - wait)

    def _event(self, kind: str, f: str, key: str, value: Value) -> None:
        event = {"process": self._name, "type": kind, "f": f, "key": key, "value": value, "time": now()}
        self._channel.send("event", event=event)

    # ------------------------------------------------------------------ the witness

    def _enter(self, lock: Lock | LockHold, asked: float, until: float) -> bool:
        answer = self._channel.ask(
            "enter", resource=lock.resource, mode=str(lock.mode), token=lock.token, lock_id=lock.id, asked=asked,
            began=now(), until=until, fresh=True,
        )  # fmt: skip
        return bool(answer["accepted"])

    def _write(self, resource: str, token: int, until: float) -> bool:
        return bool(self._channel.ask("write", resource=resource, token=token, until=until)["accepted"])

    def _lost(self, resource: str, until: float) -> None:
        by = "store" if now() < until else "clock"
        self._channel.send("lost", resource=resource, until=until, at=now(), why="the store said so", by=by)


def done(act: Callable[[], object]) -> Callable[[], bool]:
    """The same operation, which succeeded."""

    def answer() -> bool:
        act()
        return True

    return answer


def _granted(lock: Lock | LockHold) -> Value:
    return {"token": lock.token}


def _claimed(claim: Claim | bool) -> Value:
    if not isinstance(claim, Claim):
        return {"key": ""}
    return {"key": claim.dataid, "token": claim.token}


def _noted(claim: Claim) -> Value:
    return {"job": claim.job, "token": claim.token}


def pulse(channel: Channel, url: str) -> None:
    """Acquire and release, with nothing broken, until asked to stop; then report the longest call."""
    longest = 0.0
    with headgate.connect(url) as gate:
        while not channel.read_all()[0]:
            began = now()
            lock = gate.locks.acquire("pulse", "pulse:1", "exclusive", lease=60)
            middle = now()
            gate.locks.release(lock)
            longest = max(longest, middle - began, now() - middle)
            time.sleep(0.05)
    channel.send("longest", seconds=longest)

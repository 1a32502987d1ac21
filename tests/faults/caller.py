"""A client of a service that is killed: sends requests, repeats them with the same key, and reports the answers."""

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import headgate
from headgate import Claim, ClaimLost, Gate, Lock, LockLost, LockRefused, StoreUnavailable
from headgate.service.access.identity import new_request_id
from tests.faults.chain_worker import JOBS
from tests.faults.processes import PATIENCE, Channel, now

T = TypeVar("T")
RESOURCES = ("siege:red", "siege:green", "siege:blue")
#: How long a caller waits in a queue; nothing: it does not wait.
WAITS = (0.0, 0.0, 0.0, 0.5)
#: Work takes at most this many seconds.
WORK_SECONDS = 0.01


def call(channel: Channel, url: str, token: str, name: str, seed: int, lease: float) -> None:
    """Send requests until asked to stop."""
    caller = Caller(channel, url, token, name, random.Random(seed), lease)
    channel.send("ready")
    while channel.ask("next")["go"]:
        caller.round()
    channel.send("done")


class Caller:
    def __init__(self, channel: Channel, url: str, token: str, name: str, chance: random.Random, lease: float) -> None:
        self._channel = channel
        self._name = name
        self._chance = chance
        self._lease = lease
        self._gate: Gate = self._until_answered(lambda: headgate.connect(url, token=token))[0]

    def round(self) -> None:
        """Sends requests one after another, each repeated until there is an answer."""
        self._chance.choices([self._lock, self._chunk, self._batch], [4, 4, 1])[0]()

    # ------------------------------------------------------------------ locks

    def _lock(self) -> None:
        resource, mode = self._chance.choice(RESOURCES), self._chance.choice(["shared", "exclusive"])
        wait, key, asked = self._chance.choice(WAITS), new_request_id(), now()
        self._channel.send("want", resources=[resource], waits=wait > 0)
        try:
            lock, _ = self._until_answered(
                lambda: self._gate.locks.acquire(
                    self._name, resource, mode, wait=wait, lease=self._lease, request_id=key
                )
            )
        except LockRefused:
            self._channel.send("refused")
            return
        # It was granted at some time after the first request.
        self._hold(lock, asked, asked + self._lease)

    def _hold(self, lock: Lock, asked: float, until: float) -> None:
        told = {"resource": lock.resource, "until": until}
        entered = self._channel.ask(
            "enter", **told, mode=lock.mode, token=lock.token, lock_id=lock.id, asked=asked, began=now(), fresh=True
        )
        time.sleep(self._chance.uniform(0, WORK_SECONDS))
        if entered["accepted"] and lock.mode == "exclusive":
            self._channel.ask("write", **told, token=lock.token)
        self._channel.send("leave", **told, at=now())
        self._give_back(lock, until)

    def _give_back(self, lock: Lock, until: float) -> None:
        away = [False]

        def release() -> None:
            try:
                self._gate.locks.release(lock)
            except StoreUnavailable:
                away[0] = True
                raise

        try:
            self._until_answered(release)
        except LockLost as error:
            if not away[0]:  # The first attempt, whose answer was lost, may have been carried out.
                self._channel.send("lost", resource=lock.resource, until=until, at=now(), why=error.why, by="store")

    # ------------------------------------------------------------------ chunks

    def _chunk(self) -> None:
        key, asked, job = new_request_id(), now(), self._chance.choice(list(JOBS))
        claim, _ = self._until_answered(
            lambda: self._gate.ledger.find_next(job, worker=self._name, lease=self._lease, request_id=key)
        )
        if claim is not None:
            self._make(claim, asked)

    def _make(self, claim: Claim, asked: float) -> None:
        until = asked + self._lease
        chunk: dict[str, Any] = {"job": claim.job, "dataid": claim.dataid, "token": claim.token}
        self._channel.send(
            "claimed", **chunk, asked=asked, began=now(), until=until, inputs=sorted(claim.inputs),
            outputs=sorted(claim.outputs),
        )  # fmt: skip
        time.sleep(self._chance.uniform(0, WORK_SECONDS))
        self._channel.send("reporting", **chunk, at=now(), until=until, success=True)
        why = ""
        try:
            self._until_answered(lambda: self._gate.ledger.success(claim))
        except ClaimLost as error:
            why = error.why
        self._channel.send("reported", **chunk, at=now(), until=until, lost=why)

    # ------------------------------------------------------------------ batches

    def _batch(self) -> None:
        key = new_request_id()
        batch, _ = self._until_answered(
            lambda: self._gate.queue.submit("siege", self._name, f"https://example.org/{key}", request_id=key)
        )
        self._channel.send("submitted", key=key, batch=batch.id)

    def _until_answered(self, act: Callable[[], T]) -> tuple[T, int]:
        """The answer, and the number of attempts. A request without an answer is repeated unchanged."""
        deadline = now() + PATIENCE
        times = 0
        while True:
            times += 1
            try:
                return act(), times
            except StoreUnavailable:
                if now() > deadline:
                    raise
                self._channel.send("away")
                time.sleep(self._chance.uniform(0.02, 0.1))

"""A worker of the fight: acquires locks in every way, and reports to the witness which ones it believes to hold."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import headgate
from headgate import Gate, LockLost, LockRefused, StoreUnavailable
from headgate.service.leases.renewal import LockHold
from tests.faults.processes import Channel, now

#: How long a worker waits in a queue; nothing: it does not wait.
WAITS = (0.0, 0.0, 0.3, 1.0)
#: Steps within one hold, and the longest pause between two: many short holds, and some longer than a lease.
STEPS = (1, 1, 2, 2, 3)
PAUSE_SECONDS = 0.01
#: The message with which a hold reports that its own deadline has passed, whatever the store says.
OWN_CLOCK = "it could not be renewed in time"


@dataclass(frozen=True, slots=True)
class Rules:
    """The behaviour of a worker."""

    lease: float
    #: The fraction of holds that last longer than a lease, so that renewal matters.
    long_holds: float = 0.015
    #: A planted bug: believes that it holds its locks forever.
    ignores_lease: bool = False


def fight(channel: Channel, url: str, name: str, resources: list[str], seed: int, rules: dict[str, object]) -> None:
    """Compete until asked to stop."""
    gate = headgate.connect(url)
    fighter = Fighter(channel, gate, name, resources, random.Random(seed), Rules(**rules))  # type: ignore[arg-type]
    channel.send("ready")
    while channel.ask("next")["go"]:
        fighter.bout()
    gate.close()
    channel.send("done", upgrades=fighter.upgrades, downgrades=fighter.downgrades, pairs=fighter.pairs)


class Fighter:
    def __init__(
        self, channel: Channel, gate: Gate, name: str, resources: list[str], chance: random.Random, rules: Rules
    ) -> None:
        self._channel = channel
        self._locks = gate.locks
        self._name = name
        self._resources = resources
        self._chance = chance
        self._rules = rules
        self.upgrades = self.downgrades = self.pairs = 0

    def bout(self) -> None:
        """One try of one kind.

        LockRefused, LockLost and StoreUnavailable are expected; any other error ends the worker. The store is
        unavailable when a process that is stopped inside a transaction, or a busy machine, delays an answer.
        """
        work = self._chance.choices([self._alone, self._pair, self._climb], [6, 2, 2])[0]
        try:
            work()
        except LockRefused:
            self._channel.send("refused")
            time.sleep(self._chance.uniform(0.002, 0.02))
        except StoreUnavailable:
            self._channel.send("unanswered")

    def write_until_refused(self, resource: str) -> None:
        """Hold one resource for as long as writes are accepted."""

        def inside(holds: Sequence[LockHold]) -> None:
            while self._write(holds[0]):
                time.sleep(PAUSE_SECONDS)

        self._hold({resource: "exclusive"}, inside, wait=30.0)

    def _alone(self) -> None:
        self._hold({self._chance.choice(self._resources): self._mode()}, self._inside)

    def _pair(self) -> None:
        self._hold({resource: self._mode() for resource in self._chance.sample(self._resources, 2)}, self._inside)
        self.pairs += 1

    def _climb(self) -> None:
        self._hold({self._chance.choice(self._resources): "shared"}, self._up_and_down)

    def _mode(self) -> str:
        return self._chance.choice(["shared", "exclusive", "exclusive"])

    def _hold(
        self, wants: dict[str, str], inside: Callable[[Sequence[LockHold]], None], wait: float | None = None
    ) -> None:
        wait = self._chance.choice(WAITS) if wait is None else wait
        self._channel.send("want", resources=sorted(wants), waits=wait > 0)
        holds: Sequence[LockHold] = ()
        asked = now()
        try:
            with self._locks.held_all(self._name, wants, wait=wait, lease=self._rules.lease) as holds:
                self._visit(holds, asked, inside)
        except LockLost as error:
            self._tell_lost(holds, error)

    def _visit(self, holds: Sequence[LockHold], asked: float, inside: Callable[[Sequence[LockHold]], None]) -> None:
        began = now()
        try:
            entered = [self._enter(hold, asked, began) for hold in holds]
            if all(entered):
                inside(holds)
        finally:
            self._leave(holds)

    # ------------------------------------------------------------------ while holding

    def _inside(self, holds: Sequence[LockHold]) -> None:
        for _ in range(self._steps()):
            time.sleep(self._chance.uniform(0, PAUSE_SECONDS))
            accepted = [self._step(hold) for hold in holds]
            if not all(accepted):
                return

    def _steps(self) -> int:
        if self._chance.random() < self._rules.long_holds:
            return round(1.3 * self._rules.lease / (PAUSE_SECONDS / 2))
        return self._chance.choice(STEPS)

    def _step(self, hold: LockHold) -> bool:
        """Half of the time with a check, half of it without. False: it was refused as too late."""
        if self._chance.random() < 0.5 and not self._rules.ignores_lease:
            hold.check()
        if hold.mode == "shared":
            self._channel.send("claim", resource=hold.resource, until=self._until(hold))
            return True
        return self._write(hold)

    def _write(self, hold: LockHold) -> bool:
        answer = self._channel.ask("write", resource=hold.resource, token=hold.token, until=self._until(hold))
        return bool(answer["accepted"])

    def _up_and_down(self, holds: Sequence[LockHold]) -> None:
        (hold,) = holds
        self._inside(holds)
        if self._change(hold, self._locks.upgrade):
            self.upgrades += 1
            self._inside(holds)
            if self._change(hold, self._locks.downgrade):
                self.downgrades += 1
                self._inside(holds)

    def _change(self, hold: LockHold, act: Callable[[LockHold], object]) -> bool:
        """Upgrade or downgrade: the old span ends before the request, the new one begins with the answer."""
        self._leave([hold])
        token, asked = hold.token, now()
        try:
            act(hold)
        except LockRefused:
            changed = False
        else:
            changed = True
        return self._enter(hold, asked, now(), fresh=hold.token != token) and changed

    # ------------------------------------------------------------------ reporting

    def _enter(self, hold: LockHold, asked: float, began: float, *, fresh: bool = True) -> bool:
        answer = self._channel.ask(
            "enter", resource=hold.resource, mode=hold.mode, token=hold.token, lock_id=hold.id,
            asked=asked, began=began, until=self._until(hold), fresh=fresh,
        )  # fmt: skip
        return bool(answer["accepted"])

    def _leave(self, holds: Sequence[LockHold]) -> None:
        for hold in holds:
            self._channel.send("leave", resource=hold.resource, at=now(), until=self._until(hold))

    def _tell_lost(self, holds: Sequence[LockHold], error: LockLost) -> None:
        for hold in holds:
            if hold.lost or hold.id == error.lock_id:
                self._channel.send(
                    "lost", resource=hold.resource, at=now(), until=self._until(hold), why=error.why,
                    by="clock" if error.why == OWN_CLOCK else "store",
                )  # fmt: skip

    def _until(self, hold: LockHold) -> float | None:
        return None if self._rules.ignores_lease else hold.deadline


def write_until_refused(channel: Channel, url: str, name: str, resource: str, rules: dict[str, object]) -> None:
    """Acquire a lock, then write without checking it, until the register refuses or has had enough writes."""
    with headgate.connect(url) as gate:
        fighter = Fighter(channel, gate, name, [resource], random.Random(1), Rules(**rules))  # type: ignore[arg-type]
        fighter.write_until_refused(resource)
    channel.send("done", upgrades=0, downgrades=0, pairs=0)

"""A worker that continues while its store dies and recovers, and reports what the store acknowledged.

It uses one gate throughout. After StoreUnavailable it repeats the request, with the same request id, until there is an
answer: so at its end it knows for certain what it holds, and anything else that the store holds is a phantom.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

import headgate
from headgate import Gate, Lock, LockLost, LockRefused, StoreUnavailable
from headgate.core.locks.model import lock_id
from headgate.service.access.identity import new_request_id
from tests.faults.processes import Channel

T = TypeVar("T")

#: The longest outage of a store.
PATIENCE = 90.0
PAUSE_SECONDS = 0.02
#: Of the leased lock: longer than a restart takes.
LEASE = 30.0
#: An answer that took longer than this was delayed by the store's death.
STALLED_SECONDS = 0.3


def labour(channel: Channel, url: str, name: str, resources: list[str], seed: int) -> None:
    """Acquire and release persistent locks, one at a time, until asked to stop; the last one is kept."""
    labourer = Labourer(channel, headgate.connect(url), name, random.Random(seed))
    while not labourer.told_to_stop():
        labourer.labour(resources)
    labourer.keep("kept:" + name)
    labourer.finish()


def keep(channel: Channel, url: str, name: str, resources: list[str], seed: int) -> None:
    """Acquire one persistent lock, keep it to the end, and check it all the time."""
    labourer = Labourer(channel, headgate.connect(url), name, random.Random(seed))
    lock = labourer.keep(resources[0])
    while not labourer.told_to_stop():
        labourer.look_after(lock)
    labourer.finish()


def hold(channel: Channel, url: str, name: str, resources: list[str], seed: int) -> None:
    """Hold a leased lock, renewed automatically, to the end."""
    labourer = Labourer(channel, headgate.connect(url), name, random.Random(seed))
    while not labourer.told_to_stop():
        labourer.hold(resources[0])
    labourer.finish()


class Labourer:
    def __init__(self, channel: Channel, gate: Gate, name: str, chance: random.Random) -> None:
        self._channel = channel
        self._gate = gate
        self._name = name
        self._chance = chance
        #: True when the answer to the current call was lost, so that it may have taken effect.
        self._doubtful = False
        self._stop = False

    def told_to_stop(self) -> bool:
        messages, gone = self._channel.read_all()
        self._stop = self._stop or gone or bool(messages)
        return self._stop

    def finish(self) -> None:
        """No outcome is unknown any more. The gate stays open: closing it would prove nothing."""
        self._channel.send("finished")
        self._channel.receive(600)

    def labour(self, resources: list[str]) -> None:
        lock = self._acquire(self._chance.choice(resources))
        if lock is None:
            time.sleep(PAUSE_SECONDS)
            return
        time.sleep(self._chance.choice((0.0, 0.005, 0.02)))
        if self._chance.random() < 0.3:
            self.look_after(lock)
        self._release(lock)

    def keep(self, resource: str) -> Lock:
        """A lock that is never released."""
        while (lock := self._acquire(resource)) is None:
            time.sleep(PAUSE_SECONDS)
        return lock

    def look_after(self, lock: Lock) -> None:
        """It is still ours, with the token that was acknowledged."""
        seen = self._stubbornly(lambda: self._gate.locks.check(lock))
        assert (seen.id, seen.token, seen.client) == (lock.id, lock.token, self._name)
        self._channel.send("checked", id=lock.id, token=lock.token)
        time.sleep(PAUSE_SECONDS)

    def hold(self, resource: str) -> None:
        """Hold it until it is lost, or until the end.

        Waits, since a grant whose answer was lost blocks it until it expires.
        """
        try:
            with self._gate.locks.held(self._name, resource, wait=2 * LEASE, lease=LEASE) as hold:
                while not self._stop:
                    hold.check()
                    self.look_after(hold.lock)
                    self.told_to_stop()
        except StoreUnavailable:
            self._channel.send("unavailable", seconds=0, why="held")
        except LockLost as error:
            self._channel.send("lost", why=error.why)

    def _acquire(self, resource: str) -> Lock | None:
        mode, wait = self._chance.choice(["shared", "exclusive"]), self._chance.choice([0, 0, 0.5])
        request_id = new_request_id()
        ours = lock_id(self._gate.store.tag, resource, request_id)

        def acquire() -> Lock:
            return self._gate.locks.acquire(self._name, resource, mode, wait=wait, request_id=request_id)

        try:
            lock = self._stubbornly(acquire)
        except LockRefused as error:
            self._check_blockers(error, ours)
            return None
        assert lock.id == ours
        self._channel.send("granted", id=lock.id, token=lock.token, resource=resource)
        return lock

    def _check_blockers(self, refusal: LockRefused, ours: str) -> None:
        """A grant whose answer was lost must be recognised as ours, and must not block us."""
        assert ours not in [blocker.lock_id for blocker in refusal.blockers], "refused because of its own grant"

    def _release(self, lock: Lock) -> None:
        self._channel.send("releasing", id=lock.id, token=lock.token)
        try:
            self._stubbornly(lambda: self._gate.locks.release(lock))
        except LockLost:
            if not self._doubtful:
                raise
        self._channel.send("released", id=lock.id, token=lock.token)

    def _stubbornly(self, act: Callable[[], T]) -> T:
        deadline = time.monotonic() + PATIENCE
        self._doubtful = False
        while True:
            began = time.monotonic()
            try:
                return act()
            except StoreUnavailable as error:
                self._doubtful = True
                self._channel.send("unavailable", seconds=time.monotonic() - began, why=str(error))
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)
            finally:
                if time.monotonic() - began > STALLED_SECONDS:
                    self._channel.send("stalled", seconds=time.monotonic() - began)

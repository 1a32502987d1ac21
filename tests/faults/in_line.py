"""A process that stands in line for a lock, and may break just after it has passed the lock on."""

import os
import signal
from typing import Any

import headgate
from headgate.service import waiting as service_waiting
from headgate.stores.sql import lock_changes, queueing, waiting
from tests.faults.processes import Channel, now

#: Longer than any test.
NEVER = 1000.0


def wait_in_line(
    channel: Channel, url: str, resource: str, client: str, lease: float, *, polls: bool = True, breaks: str = ""
) -> None:
    """Wait for the lock, tell when it is there, and release it when told to; `breaks`: by that signal, unheard.

    Nothing but wake-ups and polls makes it look: it gives no signs of life, and nobody expects any. Without `polls`
    it is woken or never looks again.
    """
    service_waiting.SIGN_OF_LIFE_SECONDS = NEVER
    for module in (lock_changes, queueing):
        module.WAITER_LEASE = int(NEVER * 1e6)  # type: ignore[attr-defined] # a constant otherwise
    if not polls:
        waiting.SHORTEST = waiting.LISTENING_PAUSE = NEVER
    gate = headgate.connect(url)
    channel.send("ready")
    lock = gate.locks.acquire(client, resource, "exclusive", wait=NEVER, lease=lease)
    channel.ask("held", at=now(), token=lock.token)

    def fail(*_: object, **__: Any) -> None:
        os.kill(os.getpid(), signal.Signals[breaks])

    if breaks:
        waiting.Wakeups.wake = waiting.Wakeups.ring = fail  # type: ignore[method-assign] # after the commit
    gate.locks.release(lock)
    if breaks:  # There the store itself wakes the next one, in the same step.
        fail()
    channel.send("released", at=now())
    gate.close()

"""The reaper: frees what dead processes held, even if no other client needs it.

Several can run at once: each write names the state that it expects, so that a claim or lock ends only once.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.daemons.rounds import Rounds
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue
from headgate.service.repeats import RepeatRecords

#: Minimum number of seconds between two checks for expired keys, which are kept for a day.
KEYS_SECONDS = 600.0


def reaper(locks: Locks, ledger: Ledger | None, queue: Queue, interval: float) -> list[Rounds]:
    """Each noun separately: they may be in two stores, and an unavailable one must not block the other."""
    found = [Rounds("reaper of locks", lambda: until_nothing(locks.expire), interval)]
    if ledger is not None:
        found.append(Rounds("reaper of claims", lambda: until_nothing(ledger.reap), interval))
    found.append(Rounds("reaper of the queue", lambda: until_nothing(queue.reap), interval))
    return found


def key_reaper(keys: RepeatRecords, interval: float) -> Rounds:
    """Removes expired records of requests with an idempotency key."""
    return Rounds("reaper of idempotency keys", lambda: until_nothing(keys.clean), max(interval, KEYS_SECONDS))


def until_nothing(act: Callable[[], int]) -> int:
    """Repeat while there is something to do, since one call frees a limited number. Returns the total."""
    total = 0
    while count := act():
        total += count
    return total

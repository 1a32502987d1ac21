"""A process's knowledge of a database server's clock, and detection of changes to that clock.

Leases run on the server's clock. A process compares each time reported by the server with its own steady clock, so a
server clock that was set is noticed by every process that asked the server before.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

#: The maximum difference in microseconds between two clocks that were not set, and their maximum drift.
TOLERANCE = 1_000_000
DRIFT = 0.001


class ClockJump(NamedTuple):
    """The server's clock was set. All in microseconds."""

    #: The earlier time, projected to now.
    heard: int
    #: How far the clock jumped beyond the elapsed time; negative: it was set back.
    ahead: int


#: A clock that keeps running while the machine is suspended, if there is one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> int:
    """Microseconds on a clock of this machine that is never set."""
    return time.clock_gettime_ns(_STEADY) // 1000


class ServerClock:
    """The last time that one server reported, and when. Safe over threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._heard: tuple[int, int, int] | None = None
        self._jump: ClockJump | None = None

    def observe(self, now: int, sent: int, received: int) -> ClockJump | None:
        """Compare the server's time with its earlier one. `sent` and `received` bracket it on the steady clock.

        Returns the jump if there certainly was one, and returns it to every thread until it is settled.
        """
        with self._guard:
            before, self._heard = self._heard, (now, sent, received)
            if self._jump is None and before is not None:
                self._jump = _compare(before, (now, sent, received))
            return self._jump

    def settle(self) -> None:
        """The store was adjusted to the clock."""
        with self._guard:
            self._jump = None

    def forget(self) -> None:
        """Another server answers from now on: earlier times say nothing about its clock."""
        with self._guard:
            self._heard = self._jump = None


def _compare(before: tuple[int, int, int], after: tuple[int, int, int]) -> ClockJump | None:
    (heard, sent_before, received_before), (now, sent, received) = before, after
    allowed = TOLERANCE + DRIFT * max(received - sent_before, 0)
    ahead, behind = (now - heard) - (received - sent_before), (now - heard) - (sent - received_before)
    if ahead > allowed:
        return ClockJump(heard, ahead)
    return ClockJump(heard, behind) if behind < -allowed else None

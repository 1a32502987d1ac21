"""What a process knows of the clock of a database server, and how it notices that the clock was set.

Leases run on the server's clock. A process compares each time that the server says with its own steady clock, so a
server clock that was set is noticed by every process that asked the server before.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

#: Micro-seconds by which two clocks may differ without that one was set, and how fast they may drift apart.
TOLERANCE = 1_000_000
DRIFT = 0.001


class ClockJump(NamedTuple):
    """The server's clock was set. All in micro-seconds."""

    #: What it said before, as it is known here.
    heard: int
    #: How far it went beyond the time that has passed; negative: it was set back.
    ahead: int


#: Runs on while the machine is suspended, where there is one that does.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> int:
    """Micro-seconds on a clock of this machine that nobody sets."""
    return time.clock_gettime_ns(_STEADY) // 1000


class ServerClock:
    """The last time that one server said, and when it did. Safe over threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._heard: tuple[int, int, int] | None = None
        self._jump: ClockJump | None = None

    def observe(self, now: int, sent: int, received: int) -> ClockJump | None:
        """Compare what the server says with what it said before. `sent` and `received` enclose it on the steady clock.

        Returns the jump, if it is certain that there was one; and to every thread until it is settled.
        """
        with self._guard:
            before, self._heard = self._heard, (now, sent, received)
            if self._jump is None and before is not None:
                self._jump = _compare(before, (now, sent, received))
            return self._jump

    def settle(self) -> None:
        """The store was brought in line with the clock."""
        with self._guard:
            self._jump = None

    def forget(self) -> None:
        """Another server answers from now on: what was heard before says nothing of its clock."""
        with self._guard:
            self._heard = self._jump = None


def _compare(before: tuple[int, int, int], after: tuple[int, int, int]) -> ClockJump | None:
    (heard, sent_before, received_before), (now, sent, received) = before, after
    allowed = TOLERANCE + DRIFT * max(received - sent_before, 0)
    ahead, behind = (now - heard) - (received - sent_before), (now - heard) - (sent - received_before)
    if ahead > allowed:
        return ClockJump(heard, ahead)
    return ClockJump(heard, behind) if behind < -allowed else None

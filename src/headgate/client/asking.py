"""Waiting through a service."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headgate.service.leases.clock import steady
from headgate.service.leases.looking import Looking
from headgate.stores.ports.news import Listening

T = TypeVar("T")

#: A request waits at the service for at most this long: a dead connection is noticed within ten seconds.
ASK_SECONDS = 8.0
#: The pause between two requests of a waiter that the service cannot wake.
POLL_SECONDS = 1.0
#: A service that answers with nothing after less than this part of the time it may wait has answered early.
HELD_PART = 0.9
#: The first and the longest pause after such an answer (seconds); it doubles with each that follows.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
#: Sleep in this thread.
pause = time.sleep
#: A leased result of a waiting request is used unchanged if the request took at most this part of the lease.
USABLE_PART = 0.1


class WaitingThere(Looking[T]):
    """A waiter whose request the service answers as soon as there is a result."""

    def __init__(
        self, ask: Callable[[float], T | None], rest: float = 0.0, is_unfinished: Callable[[], bool] = lambda: False
    ) -> None:
        """`ask`: sends a request that the service may hold for up to that many seconds. The other arguments are those
        of every waiter.
        """
        super().__init__(partial(ask, 0.0), _no_listener, rest, is_unfinished)
        self._ask = ask

    def within(self, seconds: float | None) -> T | None:
        """Return what the service finds within that time; None if it finds nothing. None: no limit."""
        if seconds == 0:
            return self.look()
        deadline = math.inf if seconds is None else steady() + seconds
        early = SHORTEST_PAUSE
        while (left := deadline - steady()) > 0:
            if (rest := self._rest_left) > 0:
                pause(min(rest, left))
                continue
            began, hold = steady(), min(left, ASK_SECONDS)
            if (found := self._rested(partial(self._ask, hold))) is not None:
                return found
            if self._is_unfinished() or steady() - began >= hold * HELD_PART:
                early = SHORTEST_PAUSE
            elif (left := deadline - steady()) > 0:
                pause(min(early, left))
                early = min(early * 2, LONGEST_PAUSE)
        return None


class Polled:
    """News for a service that cannot wake its callers between two requests."""

    pause = POLL_SECONDS

    def end(self) -> None:
        """Nothing to close."""


def polled(_wake: Callable[[], None]) -> Listening:
    """Check again after POLL_SECONDS."""
    return Polled()


def _no_listener(_wake: Callable[[], None]) -> Listening:
    raise TypeError("a service cannot wake its callers between two requests: wait with within()")

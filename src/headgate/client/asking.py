"""Waiting for what a service has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headgate.service.clock import steady
from headgate.service.looking import Looking

T = TypeVar("T")

#: A question waits at the service for at most this long: a dead connection is noticed within ten seconds.
ASK_SECONDS = 8.0
#: What is leased and was waited for is used as it is when the question took at most this part of its lease.
USABLE_PART = 0.1


class Asking:
    """A service wakes nobody who has no request open: who waits asks it again."""

    pause = 0.5

    def end(self) -> None:
        """Nothing is kept."""


class WaitingThere(Looking[T]):
    """One who waits at the service: it holds back its answer until there is one."""

    def __init__(self, ask: Callable[[float], T | None]) -> None:
        """`ask`: ask the service, which waits for up to that many seconds."""
        super().__init__(partial(ask, 0.0), lambda _: Asking())
        self._ask = ask

    def within(self, seconds: float | None) -> T | None:
        """What the service finds within that time."""
        if not seconds:
            return self.look()
        deadline = steady() + seconds
        while (left := deadline - steady()) > 0:
            if (found := self._ask(min(left, ASK_SECONDS))) is not None:
                return found
        return None

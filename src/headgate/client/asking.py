"""Waiting at a service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headgate.service.leases.clock import steady
from headgate.service.leases.looking import Looking

T = TypeVar("T")

#: A question waits at the service for at most this long: a dead connection is noticed within ten seconds.
ASK_SECONDS = 8.0
#: What is leased and was waited for is used as it is when the question took at most this part of its lease.
USABLE_PART = 0.1


class Asking:
    """Stands for a listener: a service cannot wake a client between two requests, so the client polls."""

    pause = 0.5

    def end(self) -> None:
        """Do nothing: there is no listener."""


class WaitingThere(Looking[T]):
    """A waiter whose request the service answers when there is a result."""

    def __init__(self, ask: Callable[[float], T | None]) -> None:
        """`ask`: ask the service, which waits for up to that many seconds."""
        super().__init__(partial(ask, 0.0), lambda _: Asking())
        self._ask = ask

    def within(self, seconds: float | None) -> T | None:
        """Return what the service finds within that time; None if it finds nothing."""
        if not seconds:
            return self.look()
        deadline = steady() + seconds
        while (left := deadline - steady()) > 0:
            if (found := self._ask(min(left, ASK_SECONDS))) is not None:
                return found
        return None

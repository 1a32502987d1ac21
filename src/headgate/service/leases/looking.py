"""Waiting for a result of a check: a chunk, an item, the end of a job. Steps that do not wait.

Callers take steps until one returns the result, and sleep in between until the store wakes them, or for as long as the
step says. The library and the command sleep in the calling thread, and the service in a task of its event loop.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from headgate.service.leases.clock import steady
from headgate.stores.ports.news import Listening

T = TypeVar("T")
Wake = Callable[[], None]
#: Minimum seconds between two checks of something that changes often.
REST_SECONDS = 0.5


class Looking(Generic[T]):
    """One who waits. Its steps are taken one after another, in any thread."""

    def __init__(
        self, look: Callable[[], T | None], listen: Callable[[Wake], Listening], rest: float = 0.0,
        is_unfinished: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """`look`: returns the result, or None. `listen`: registers a callback for possible results. `rest`: the minimum
        seconds between two checks, however often it is woken. `is_unfinished`: the last check ended early, and the next
        one continues it at once.
        """
        #: One check, without waiting.
        self.look = look
        self._listen = listen
        self._listening: Listening | None = None
        self._rest = rest
        self._is_unfinished = is_unfinished
        self._rests_until = 0.0

    def step(self, wake: Wake) -> T | float:
        """The result, or the maximum seconds to sleep unless `wake` is called, from any thread."""
        if self._listening is None:
            self._listening = self._listen(wake)  # Before the check, so that later changes wake the waiter.
        if (left := self._rest_left) > 0:
            return left
        found = self._rested(self.look)
        if found is not None:
            return found
        return 0.0 if self._is_unfinished() else self._listening.pause

    @property
    def _rest_left(self) -> float:
        """Seconds until the next check in any case; 0 or less: it may start."""
        return 0.0 if self._is_unfinished() else self._rests_until - steady()

    def _rested(self, look: Callable[[], T | None]) -> T | None:
        """The result of a check, after which there is a pause."""
        self._rests_until = steady() + self._rest
        return look()

    def end(self) -> None:
        """Stop listening; the next step listens again."""
        if self._listening is not None:
            self._listening.end()
            self._listening = None

    def within(self, seconds: float | None) -> T | None:
        """Return the result of a check within that time, sleeping in this thread. `seconds` is None: no limit."""
        if seconds == 0:
            return self.look()
        deadline = math.inf if seconds is None else steady() + seconds
        called = threading.Event()
        try:
            while True:
                called.clear()
                found = self.step(called.set)
                if not isinstance(found, float):
                    return found
                if (left := deadline - steady()) <= 0:
                    return None
                called.wait(min(found, left))
        finally:
            self.end()

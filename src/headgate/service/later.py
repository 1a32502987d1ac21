"""Something short that is done at its time, in one thread for all of a process."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections.abc import Callable

from headgate.service.clock import steady


class Later:
    """What is to be done, by its time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """As at the beginning: no thread outlives a fork, and what was to be done is the parent's to do."""
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._running = False

    def do(self, seconds: float, act: Callable[[], None]) -> None:
        """Do it after so many seconds. It must be short, and raise nothing."""
        with self._changed:
            entry = (steady() + seconds, next(self._order), act)
            heapq.heappush(self._due, entry)
            if not self._running:
                threading.Thread(target=self._run, name="headgate-later", daemon=True).start()
                self._running = True
            elif self._due[0] is entry:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next()()

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while True:
                left = self._due[0][0] - steady() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)


#: For the whole process.
later = Later()
os.register_at_fork(after_in_child=later.forget)

"""Delayed calls, by one thread for the whole process."""

from __future__ import annotations

import heapq
import os
import sys
import threading
from collections.abc import Callable
from itertools import count

from headgate.service.leases.clock import steady

#: The thread ends after this many idle seconds.
IDLE_SECONDS = 30.0
Work = Callable[[], None]


class Later:
    """Calls functions at their time, one after another: they have to be short."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Work]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._runs = False

    def call(self, at: float, work: Work) -> None:
        """At that time on steady(), or soon after."""
        with self._changed:
            heapq.heappush(self._due, (at, next(self._numbers), work))
            if not self._runs:
                threading.Thread(target=self._run, name="headgate-later", daemon=True).start()
                self._runs = True
            elif self._due[0][2] is work:
                self._changed.notify()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except BaseException:  # noqa: BLE001 - reported; it must not end what others asked for
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    def _next(self) -> Work | None:
        """The due functions, as soon as they are due; None: the thread may end."""
        with self._changed:
            while True:
                left = self._due[0][0] - steady() if self._due else IDLE_SECONDS
                if left <= 0:
                    return heapq.heappop(self._due)[2]
                called = self._changed.wait(min(left, threading.TIMEOUT_MAX))
                if not called and not self._due:
                    self._runs = False
                    return None


_laters: dict[int, Later] = {}


def later(at: float, work: Work) -> None:
    """Call it at that time on steady(), in a thread of this process; a forked child has its own."""
    pid = os.getpid()
    found = _laters.get(pid)
    if found is None:
        found = _laters.setdefault(pid, Later())
    found.call(at, work)

"""Stop signals while a chunk is running: held from the claim to the report, so that no report is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

#: Signals that ask a worker to stop.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
#: Maximum delay before a pause ends after a stop signal.
HEARING_SECONDS = 0.1


class Stops:
    """Handlers for stop signals. Before `hold` the first one ends the process; from then on all are recorded.

    Signals that the parent process ignores (nohup) stay ignored. For the main thread only.
    """

    def __init__(self) -> None:
        #: The first stop signal that arrived; 0: none.
        self.number = 0
        #: Passes a signal on to the command while it runs.
        self.deliver: Callable[[int], None] | None = None
        self._held = False
        self._before: dict[signal.Signals, Any] = {}

    def hold(self) -> None:
        """Record all signals from now on: a claim may be ours, and must be reported."""
        self._held = True

    def rest(self, seconds: float) -> None:
        """Wait this long, or until a stop signal arrives."""
        until = time.monotonic() + seconds
        while not self.number and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, HEARING_SECONDS))

    def __enter__(self) -> Self:
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        is_first = not self.number
        self.number = self.number or number
        if self.deliver is not None:
            self.deliver(number)
        elif is_first and not self._held:
            raise SystemExit(128 + number)


def fork() -> int:
    """Fork while stop signals wait. An exception of their handler is lost in the hooks that run after a fork."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    child = os.fork()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return child


def signal_name(number: int) -> str:
    """SIGTERM, and so on."""
    return signal.Signals(number).name

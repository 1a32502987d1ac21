"""Functions that are called at a given time of this process's own clock, unless they are postponed or cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headgate.telemetry import logger

#: The thread ends after this many idle seconds.
IDLE_SECONDS = 30.0


class DueCalls:
    """Functions that are due at some time, by key. One thread calls them when they are due."""

    def __init__(self) -> None:
        self._expected: dict[str, tuple[float, Callable[[], None]]] = {}
        self._changed = threading.Condition()
        #: When the thread checks next; None: there is no thread.
        self._next: float | None = None

    def expect(self, key: str, until: float, call: Callable[[], None]) -> None:
        """Call it at that time on the monotonic clock, unless the key is postponed or dropped before."""
        with self._changed:
            self._expected[key] = (until, call)
            if self._next is None:
                self._next = until
                threading.Thread(target=self._run, name="headgate-overdue", daemon=True).start()
            elif until < self._next:
                self._changed.notify()

    def drop(self, key: str) -> None:
        """It happened in time."""
        self._expected.pop(key, None)

    def _run(self) -> None:
        while (due := self._due()) is not None:
            for call in due:
                try:
                    call()
                except Exception:  # noqa: BLE001 - whatever it is, the others are called
                    logger.exception("zookeeper.callback_failed")

    def _due(self) -> list[Callable[[], None]] | None:
        """The functions that are due now, or after a while; None: the thread may end."""
        with self._changed:
            now = time.monotonic()
            due = [key for key, (until, _) in list(self._expected.items()) if until <= now]
            calls = [found[1] for key in due if (found := self._expected.pop(key, None))]
            if calls:
                return calls
            times = [until for until, _ in list(self._expected.values())]
            self._next = min([*times, now + IDLE_SECONDS])
            self._changed.wait(min(max(self._next - now, 0.0), threading.TIMEOUT_MAX))
            if not self._expected and time.monotonic() >= now + IDLE_SECONDS:
                self._next = None
                return None
            return []

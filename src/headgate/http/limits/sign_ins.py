"""Limits on attempts to sign in: after too many failures, an address has to wait."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable

from headgate.http.errors import TooMany
from headgate.http.limits.bounds import is_here
from headgate.service.leases.clock import steady

#: Number of attempts that may fail within this many seconds.
MOST_FAILED, WITHIN_SECONDS = 5, 60.0
#: Number of addresses that are remembered; the least recent one is forgotten first.
MOST_ADDRESSES = 10_000


class SignIns:
    """Failed attempts to sign in, by address. Attempts from the local host are not counted."""

    def __init__(self, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._guard = threading.Lock()

    def check(self, address: str) -> None:
        """Raises TooMany if this address has failed too often."""
        with self._guard:
            failed = self._lately(address)
        if len(failed) >= MOST_FAILED:
            seconds = math.ceil(failed[0] + WITHIN_SECONDS - self._clock())
            raise TooMany("too many failed attempts to sign in; try again in a moment", max(seconds, 1))

    def record_failure(self, address: str) -> None:
        """Record a failed attempt."""
        if is_here(address):
            return
        with self._guard:
            failed = self._lately(address)
            failed.append(self._clock())
            self._failed[address] = failed
            self._failed.move_to_end(address)
            while len(self._failed) > MOST_ADDRESSES:
                self._failed.popitem(last=False)

    def _lately(self, address: str) -> deque[float]:
        failed = self._failed.get(address, deque(maxlen=MOST_FAILED))
        while failed and failed[0] + WITHIN_SECONDS <= self._clock():
            failed.popleft()
        return failed

"""How long and how fast this store starts again where others were first: one pace for all of its loops."""

from __future__ import annotations

import time

from headgate import chance
from headgate.calls.deadlines import time_limit
from headgate.core.errors import StoreUnavailable

#: Seconds for which something is tried while other processes are always first.
BUSY_SECONDS = 30.0
#: A pause from the fourth attempt on: short and random, so that no process is starved.
PAUSE_SECONDS = (0.0002, 0.003)
AT_ONCE = 3


class Tries:
    """The attempts of one call, within its time."""

    def __init__(self, name: str) -> None:
        """`name`: what errors call the store."""
        self._name = name
        #: When the call has to be answered (monotonic).
        self.until = time_limit(BUSY_SECONDS)
        self._count = 0

    def again(self, why: str) -> None:
        """Return when it is time for the next attempt. StoreUnavailable, with `why`, when the time is over."""
        self._count += 1
        if self._count > AT_ONCE:
            if time.monotonic() >= self.until:
                raise StoreUnavailable(self._name, why)
            time.sleep(chance.between(*PAUSE_SECONDS))

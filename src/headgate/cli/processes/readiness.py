"""Waiting for descriptors. `select` knows no more than 1,024 of them, and a large `headgate work` has more."""

from __future__ import annotations

import math
import select
from collections.abc import Sequence

#: Callers wait in a loop, and are given no longer than this at once: `poll` counts milliseconds in 31 bits.
LONGEST_SECONDS = 86_400.0


def ready(readable: Sequence[int], seconds: float | None, *, writable: Sequence[int] = ()) -> set[int]:
    """The descriptors that can be read or written, or that ended. Waits this long for one; None: no limit.

    It may return early, after a day.
    """
    poll = select.poll()
    for each in readable:
        poll.register(each, select.POLLIN)
    for each in writable:
        poll.register(each, select.POLLOUT)
    if seconds is None:
        return {each for each, _ in poll.poll()}
    # Rounded up: the caller would otherwise ask again, without a pause, in the last millisecond.
    patience = math.ceil(1000 * min(max(seconds, 0), LONGEST_SECONDS))
    return {each for each, _ in poll.poll(patience)}

"""When the call that this thread makes has to be answered, whatever steps it takes.

A call sets its deadline once, at its outermost step; every step within asks how long it may still take.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class _Call(threading.local):
    """The call of one thread."""

    until = math.inf


_call = _Call()


def time_limit(seconds: float) -> float:
    """On the monotonic clock: so many seconds from now, or the deadline of the present call if that is sooner."""
    return min(time.monotonic() + seconds, _call.until)


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """All that this thread does meanwhile is over so many seconds from now, or sooner if an outer call says so."""
    before = _call.until
    _call.until = time_limit(seconds)
    try:
        yield
    finally:
        _call.until = before

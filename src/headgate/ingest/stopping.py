"""Long work looks now and then whether it should stop: its job may be another's by now."""

from __future__ import annotations

import time
from collections.abc import Callable

from headgate.core.errors import WorkStopped

Stop = Callable[[], bool]


def check_stop(stop: Stop | None, work: str) -> None:
    """WorkStopped when it should."""
    if stop is not None and stop():
        raise WorkStopped(work)


def waited(stop: Stop | None, work: str = "waiting") -> Callable[[float], None]:
    """A pause that ends at once, with WorkStopped, when it should."""

    def wait(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            check_stop(stop, work)
            time.sleep(min(left, 0.2))

    return wait

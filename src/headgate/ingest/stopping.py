"""Long work checks periodically whether it should stop: its job may belong to another worker by now."""

from __future__ import annotations

import time
from collections.abc import Callable

from headgate.core.errors import WorkStopped

Stop = Callable[[], bool]


def check_stop(stop: Stop | None, work: str) -> None:
    """WorkStopped when it should stop."""
    if stop is not None and stop():
        raise WorkStopped(work)


def waited(stop: Stop | None, work: str = "waiting") -> Callable[[float], None]:
    """A pause that ends immediately, with WorkStopped, when it should stop."""

    def wait(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            check_stop(stop, work)
            time.sleep(min(left, 0.2))

    return wait

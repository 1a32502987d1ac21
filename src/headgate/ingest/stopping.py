"""Long work looks now and then whether it should stop: its job may be another's by now."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.errors import WorkStopped

Stop = Callable[[], bool]


def check_stop(stop: Stop | None, work: str) -> None:
    """WorkStopped when it should."""
    if stop is not None and stop():
        raise WorkStopped(work)

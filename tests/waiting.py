"""Waiting for what another thread, process or server does."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01
#: For processes that tests start: a machine with other work may need longer than two seconds for a call. The tests of
#: deadlines set their own.
PATIENT = {"HEADGATE_ANSWER_WITHIN": "20"}


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Look until it is so; fail loudly when it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(POLL_SECONDS)

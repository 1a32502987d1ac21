"""Waiting for another thread, process or server."""

import threading
import time
from collections.abc import Callable

from headgate.core.locks.tickets import Ticket
from headgate.stores.options import StoreOptions
from headgate.stores.ports.locks import LockStore

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01
#: For processes that tests start: a machine with other work may need longer than two seconds for a call. The tests of
#: deadlines set their own.
PATIENT = {"HEADGATE_ANSWER_WITHIN": "20"}
#: The same for stores that tests open themselves.
PATIENT_OPTIONS = StoreOptions(answer_within=20.0)


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Poll until it is true; fail with a message if it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(POLL_SECONDS)


def await_turn(store: LockStore, ticket: Ticket, seconds: float) -> None:
    """Sleep in the queue until the ticket may be first, or for that long."""
    woken, until = threading.Event(), time.monotonic() + seconds
    store.listen(ticket, woken.set)
    while (left := until - time.monotonic()) > 0 and (pause := store.look(ticket)) > 0:
        if woken.wait(min(pause, left)):
            return

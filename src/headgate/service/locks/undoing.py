"""Undoing requests whose outcome is unknown, and releasing what nothing else ends, in the background: by one thread of
this process, for a bounded time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headgate.calls.deadlines import within
from headgate.core.errors import HeadgateError, Unavailable
from headgate.service.leases.clock import steady
from headgate.telemetry import event

#: The first pause before an attempt, and the longest.
FIRST_SECONDS, LONGEST_SECONDS = 0.25, 15.0
#: A request is given up after this long, unless another time is given.
PATIENCE_SECONDS = 600.0
#: Seconds that one attempt may take.
TRY_SECONDS = 2.0
#: Number of requests that are kept; the oldest are given up first.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class _Pending:
    request_id: str
    #: The store that it was sent to.
    store: object
    work: Callable[[], None]
    #: When it is given up (steady).
    until: float


class Undoing:
    """The requests to undo, and the thread that undoes them."""

    def __init__(self) -> None:
        self._pending: deque[_Pending] = deque(maxlen=MOST)
        self._guard = threading.Lock()
        self._runs = False

    def add(self, request_id: str, store: object, work: Callable[[], None], patience: float) -> None:
        """Undo what that request may have done."""
        with self._guard:
            self._pending.append(_Pending(request_id, store, work, steady() + patience))
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="headgate-undo", daemon=True).start()

    def forget(self, request_id: str) -> None:
        """Stop undoing that request."""
        if self._pending:
            with self._guard:
                kept = [each for each in self._pending if each.request_id != request_id]
                self._pending = deque(kept, MOST)

    def leave(self, store: object) -> None:
        """Stop undoing requests on that store: it is closed."""
        with self._guard:
            self._pending = deque((each for each in self._pending if each.store is not store), MOST)

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while True:
            time.sleep(pause)
            with self._guard:
                todo = list(self._pending)
                if not todo:
                    self._runs = False
                    return
            # Each in turn, the newest first: a store that stays unavailable must not delay the others.
            done = [each for each in reversed(todo) if self._is_pending(each) and self._tried(each)]
            with self._guard:
                self._pending = deque((each for each in self._pending if each not in done), MOST)
            pause = FIRST_SECONDS if done else min(2 * pause, LONGEST_SECONDS)

    def _is_pending(self, one: _Pending) -> bool:
        with self._guard:
            return one in self._pending

    def _tried(self, pending: _Pending) -> bool:
        """Whether there is nothing left to undo."""
        try:
            with within(TRY_SECONDS):
                pending.work()
        except Unavailable as error:
            if steady() < pending.until:
                return False
            event("lock.not_undone", request=pending.request_id, why=str(error))
        except HeadgateError as error:
            event("lock.not_undone", request=pending.request_id, why=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are undone
            event("lock.not_undone", logging.ERROR, request=pending.request_id, why=repr(error))
        else:
            event("lock.undone", request=pending.request_id)
        return True


_undoing: dict[int, Undoing] = {}


def undo_later(request_id: str, store: object, work: Callable[[], None], patience: float = PATIENCE_SECONDS) -> None:
    """Undo what that request may have done, in a thread of this process; a forked child has its own."""
    pid = os.getpid()
    found = _undoing.get(pid)
    if found is None:
        found = _undoing.setdefault(pid, Undoing())
    found.add(request_id, store, work, patience)


def leave(store: object) -> None:
    """That store is closed: its requests are not undone any more. Leased holds there end with their lease."""
    if found := _undoing.get(os.getpid()):
        found.leave(store)


def keep(request_id: str) -> None:
    """The same request is made again: its earlier effects count, and are not undone."""
    if _undoing and (found := _undoing.get(os.getpid())):
        found.forget(request_id)

"""Requests with an unknown outcome are undone by one thread, whatever fails for some of them."""

import math
import threading
from collections.abc import Callable

import pytest

from headgate.core.errors import LockLost, StoreUnavailable
from headgate.service.locks import undoing as module
from headgate.service.locks.undoing import Undoing
from tests.waiting import until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.01)


def raising(error: Exception, times: int, done: Callable[[], None] = lambda: None) -> Callable[[], None]:
    errors = [error] * times

    def work() -> None:
        if errors:
            raise errors.pop()
        done()

    return work


@pytest.mark.parametrize("error", [LockLost("x", 1, "it was released"), ValueError("a bug")])
def test_a_failing_request_does_not_stop_others(error: Exception) -> None:
    undoing, done = Undoing(), threading.Event()
    undoing.add("later", "store", raising(StoreUnavailable("store", "away"), 3, done.set), math.inf)
    undoing.add("fails", "store", raising(error, 1_000_000), math.inf)
    assert done.wait(30)
    until(lambda: not undoing._pending, "nothing to be left")


def test_undoing_is_retried_until_its_time_is_over_or_its_store_is_closed() -> None:
    undoing, away = Undoing(), StoreUnavailable("store", "away")
    undoing.add("short", "store", raising(away, 1_000_000), 0.0)
    undoing.add("long", "store", raising(away, 1_000_000), math.inf)
    until(lambda: [each.request_id for each in undoing._pending] == ["long"], "the short one to be given up")
    undoing.leave("another store")
    assert undoing._pending
    undoing.leave("store")
    until(lambda: not undoing._runs, "the thread to end")


def test_the_thread_starts_again() -> None:
    undoing = Undoing()
    for _ in range(2):
        done = threading.Event()
        undoing.add("one", "store", done.set, 60.0)
        assert done.wait(30)
        until(lambda: not undoing._runs, "the thread to end")

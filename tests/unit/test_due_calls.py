"""Calls that are due at a time of this process's own clock."""

import logging
import threading
import time

import pytest

from headgate.stores.zookeeper.overdue import DueCalls


def test_a_failing_call_is_logged_and_does_not_prevent_others(caplog: pytest.LogCaptureFixture) -> None:
    calls, done = DueCalls(), threading.Event()

    def fail() -> None:
        raise ValueError("a bug")

    with caplog.at_level(logging.ERROR, "headgate"):
        calls.expect("fails", time.monotonic(), fail)
        calls.expect("later", time.monotonic() + 0.05, done.set)
        assert done.wait(10)
    assert [record.message for record in caplog.records] == ["zookeeper.callback_failed"]


def test_a_call_that_was_dropped_or_postponed_is_not_made_at_its_first_time() -> None:
    calls, done, made = DueCalls(), threading.Event(), []
    began = time.monotonic()
    calls.expect("dropped", began + 0.05, lambda: made.append("dropped"))
    calls.expect("postponed", began + 0.05, lambda: made.append("too early"))
    calls.drop("dropped")
    calls.expect("postponed", began + 0.1, lambda: made.append("postponed"))
    calls.expect("last", began + 0.15, done.set)
    assert done.wait(10)
    assert made == ["postponed"]

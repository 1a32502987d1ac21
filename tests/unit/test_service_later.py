"""One thread for all postponed work."""

from __future__ import annotations

import os
import threading
import time

import pytest

import headgate
from headgate.service.leases import later as module
from headgate.service.leases.clock import steady
from headgate.service.leases.later import Later
from headgate.service.leases.renewal import LockHold


def of_name(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == name]


def test_postponed_work_runs_in_order_of_time_and_not_early() -> None:
    later, done, all_done = Later(), [], threading.Event()
    began = steady()

    def work(name: str) -> None:
        done.append((name, steady() - began))
        if len(done) == 3:
            all_done.set()

    for name, seconds in (("third", 0.15), ("first", 0.0), ("second", 0.1)):
        later.call(began + seconds, lambda name=name: work(name))  # type: ignore[misc] # mypy knows no defaults here
    assert all_done.wait(10)
    assert [name for name, _ in done] == ["first", "second", "third"]
    assert all(after >= due for (_, after), due in zip(done, (0.0, 0.1, 0.15), strict=True))


def test_the_thread_ends_when_no_work_is_left_and_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    later, done = Later(), threading.Semaphore(0)
    before = set(of_name("headgate-later"))
    for _ in range(2):
        later.call(steady(), done.release)
        assert done.acquire(timeout=10)
        for each in set(of_name("headgate-later")) - before:
            each.join(10)
            assert not each.is_alive()


def test_failing_work_is_reported_and_does_not_stop_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: reported.append(told.exc_value))
    later, done, error = Later(), threading.Event(), ValueError("a bug of the work")

    def fail() -> None:
        raise error

    later.call(steady(), fail)
    later.call(steady() + 0.05, done.set)
    assert done.wait(10)
    assert reported == [error]


def test_a_callback_of_one_hold_keeps_no_other_hold_from_being_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called for a lease that expired before its first renewal, as on a suspended machine.

    It takes a long time here.
    """
    called, may_return, renewed = threading.Event(), threading.Event(), threading.Event()

    def on_lost(_error: headgate.LockLost) -> None:
        called.set()
        may_return.wait(30)

    with headgate.connect("sqlite://") as gate:
        late = LockHold(gate.locks, gate.locks.acquire("late", "a:1", "write", lease=60), steady() - 60, on_lost, 0.0)
        late.start()
        assert called.wait(10)
        renew = gate.locks.renew

        def note_renewal(lock: headgate.Lock) -> headgate.Lock:
            renewed.set()
            return renew(lock)

        monkeypatch.setattr(gate.locks, "renew", note_renewal)
        lock = gate.locks.acquire("other", "a:2", "write", lease=0.4)
        other = LockHold(gate.locks, lock, steady(), None, 0.0)
        other.start()
        assert renewed.wait(10)
        may_return.set()
        late.stop()
        other.stop()


def test_a_forked_child_runs_its_own_postponed_work() -> None:
    module.later(steady(), lambda: None)  # The parent's thread runs, and is not inherited.
    child = os.fork()
    if not child:
        module.later(steady(), lambda: os._exit(7))
        time.sleep(30)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_short_hold_needs_no_thread_of_its_own() -> None:
    before = len(of_name("headgate-renewal"))
    with headgate.connect("sqlite://") as gate, gate.locks.held("short", "a:1", lease=60):
        assert len(of_name("headgate-renewal")) == before

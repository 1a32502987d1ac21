"""Rounds are repeated, with a growing pause while the store is unavailable, until asked to stop."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from headgate.core.errors import StoreUnavailable
from headgate.daemons import rounds as module
from headgate.daemons.reaper import until_nothing
from headgate.daemons.rounds import Rounds, run_together


class Patience(threading.Event):
    """Stops after this many pauses, without sleeping, and remembers them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(round(timeout, 6))
        if len(self.pauses) == self.most:
            self.set()
        return self.is_set()


def outcomes(*given: int | Exception) -> Callable[[], int]:
    """One after another."""
    left: Iterator[int | Exception] = iter(given)

    def act() -> int:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return act


def middle() -> float:
    return 0.5


AWAY = StoreUnavailable("here", "it is away")


def test_the_pause_grows_while_the_store_is_unavailable_and_is_reset_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop = Patience(7)
    with caplog.at_level(logging.INFO, "headgate"):
        Rounds("test", outcomes(0, AWAY, AWAY, AWAY, 4, 0, AWAY), 5.0, middle).run(stop)
    assert stop.pauses == [5, 10, 20, 40, 5, 5, 10]
    assert [record.message for record in caplog.records] == [
        "daemon.started", "daemon.failed", "daemon.failed", "daemon.failed", "daemon.recovered", "daemon.round",
        "daemon.failed", "daemon.stopped",
    ]  # fmt: skip


@pytest.mark.parametrize(("interval", "failures", "pause"), [(5, 4, 60), (5, 10_000, 60), (300, 0, 300), (300, 9, 300)])
def test_pauses_are_limited(interval: float, failures: int, pause: float) -> None:
    assert Rounds("test", outcomes(), interval, middle).pause(failures) == pause


def test_pauses_vary() -> None:
    shortest, longest = (Rounds("test", outcomes(), 10, lambda: chance).pause(0) for chance in (0.0, 1.0))  # noqa: B023 - run at once
    assert (shortest, longest) == (8, 12)


def test_an_unexpected_error_ends_the_rounds_and_is_raised() -> None:
    stop = threading.Event()
    healthy = Rounds("healthy", lambda: 0, 1000)
    with pytest.raises(ZeroDivisionError):
        run_together([healthy, Rounds("broken", lambda: 1 // 0, 1000)], stop)
    assert stop.is_set()


def test_a_call_that_hangs_in_the_store_does_not_prevent_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GOODBYE_SECONDS", 0.01)
    stop, hanging, end = threading.Event(), threading.Event(), threading.Event()

    def hang() -> int:
        hanging.set()
        end.wait(60)
        return 0

    def stop_when_it_hangs() -> None:
        hanging.wait(60)
        stop.set()

    threading.Thread(target=stop_when_it_hangs, daemon=True).start()
    run_together([Rounds("hanging", hang, 1000)], stop)
    assert not end.is_set()
    end.set()


def test_one_call_does_a_bounded_part_of_the_work() -> None:
    assert until_nothing(outcomes(1000, 1000, 7, 0)) == 2007

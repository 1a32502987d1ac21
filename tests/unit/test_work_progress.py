"""Rates and the time left of `headgate work`, on a clock that the test drives."""

from types import SimpleNamespace

import pytest

from headgate.cli.ledger import work_progress
from headgate.cli.ledger.job_loop import INTERRUPTED, WORKED, ChunkEnd
from headgate.cli.ledger.lookout import JobState
from headgate.cli.ledger.work_progress import WorkProgress
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.progress import shown_rate


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(work_progress, "time", SimpleNamespace(monotonic=clock))
    return clock


def work(progress: WorkProgress, clock: Clock, count: int, seconds: float) -> None:
    """Chunks one after another, each of that many seconds."""
    for _ in range(count):
        progress.claimed("clean")
        clock.now += seconds
        progress.ended(ChunkEnd("clean", WORKED, 0, "1"))


def last_line(progress: WorkProgress, capsys: pytest.CaptureFixture[str]) -> str:
    progress.close()
    return capsys.readouterr().err.splitlines()[0]


def test_the_rate_after_a_pause_is_that_since_the_pause(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A resident worker that slept for an hour must not show an hour for chunks that have just arrived."""
    progress = WorkProgress(Console([]), ["clean"])
    work(progress, clock, 30, 1.0)
    clock.now += 3600
    progress.states([JobState("clean", 110, 0)])
    work(progress, clock, 10, 0.5)
    assert last_line(progress, capsys) == "clean: 40 done, 0 failed, 100 left, 2.0/s, 50 s to go"


def test_the_rate_is_that_of_the_last_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = WorkProgress(Console([]), ["clean"])
    clock.now += 5  # Until the store has answered.
    work(progress, clock, 2, 50.0)
    work(progress, clock, 90, 1.0)
    assert last_line(progress, capsys) == "clean: 92 done, 0 failed, 1.0/s"


def test_slow_chunks_have_a_rate_too(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """It covers the last ten."""
    progress = WorkProgress(Console([]), ["clean"])
    work(progress, clock, 5, 60.0)
    work(progress, clock, 20, 1200.0)
    progress.states([JobState("clean", 6, 0)])
    assert last_line(progress, capsys) == "clean: 25 done, 0 failed, 6 left, 3.0/h, 2 h to go"


def test_interrupted_chunks_have_no_rate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = WorkProgress(Console([]), ["clean"])
    progress.claimed("clean")
    clock.now += 2
    progress.ended(ChunkEnd("clean", INTERRUPTED, 143, "1"))
    progress.states([JobState("clean", 1, 0)])
    assert "clean 1 interrupted" in capsys.readouterr().err
    assert last_line(progress, capsys) == "clean: 0 done, 0 failed, 1 interrupted, 1 left"


def test_an_idle_job_has_no_rate_after_a_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = WorkProgress(Console([]), ["clean"])
    work(progress, clock, 4, 0.5)
    clock.now += 61
    assert last_line(progress, capsys) == "clean: 4 done, 0 failed"


@pytest.mark.parametrize(
    ("rate", "text"),
    [(1234.5, "1,234/s"), (12, "12/s"), (0.5, "0.5/s"), (0.05, "3.0/min"), (0.001, "3.6/h"), (0.00001, "0.0/h")],
)
def test_slow_rates_are_by_the_minute_or_the_hour(rate: float, text: str) -> None:
    assert shown_rate(rate) == text

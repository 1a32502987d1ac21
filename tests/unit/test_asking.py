"""A caller that waits through a service leaves a pause between two requests that found nothing at once."""

import pytest

from headgate.client import asking
from headgate.client.asking import LONGEST_PAUSE, WaitingThere
from headgate.service.leases import looking


class Clock:
    """Time passes only while the caller sleeps, or the service holds its answer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def steady(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asking, "steady", clock.steady)
    monkeypatch.setattr(looking, "steady", clock.steady)
    monkeypatch.setattr(asking, "pause", clock.sleep)
    return clock


def test_a_service_that_answers_early_with_nothing_is_asked_less_and_less_often(clock: Clock) -> None:
    asked: list[float] = []
    assert WaitingThere(asked.append).within(60) is None
    assert clock.now == 60
    assert len(asked) == len(clock.slept) < 60 / LONGEST_PAUSE + 12
    assert max(clock.slept) == LONGEST_PAUSE


def test_a_service_that_held_its_answer_gets_the_next_request_at_once(clock: Clock) -> None:
    def hold(seconds: float) -> None:
        clock.now += seconds

    assert WaitingThere(hold).within(60) is None
    assert clock.slept == []


def test_the_pause_is_short_again_after_an_answer_that_was_held(clock: Clock) -> None:
    early = iter([True] * 20 + [False] + [True])
    pauses: list[int] = []

    def answer(seconds: float) -> str | None:
        pauses.append(len(clock.slept))
        is_early = next(early, None)
        if is_early is None:
            return "found"
        clock.now += 0 if is_early else seconds
        return None

    assert WaitingThere(answer).within(None) == "found"
    assert clock.slept[-1] == clock.slept[0] < LONGEST_PAUSE


def test_a_check_that_is_not_finished_goes_on_at_once(clock: Clock) -> None:
    left = iter([True] * 10)
    looked: list[float] = []
    waiting: WaitingThere[str] = WaitingThere(looked.append, 0.5, lambda: next(left, False))
    assert waiting.within(0.5) is None
    assert len(looked) > 1
    assert clock.slept == [0.5], "only once it was finished"

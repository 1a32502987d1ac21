"""The witness of the chain detects what it has to detect."""

from typing import Self

import pytest

from tests.faults.chain_witness import ChainWitness
from tests.faults.chain_worker import JOBS, MADE_BY


class Told:
    """Events for the witness, step by step, at any times. One chunk: 7."""

    def __init__(self) -> None:
        self.witness = ChainWitness()

    def claimed(self, worker: str, job: str, token: int, at: float, until: float) -> Self:
        outputs = [dataset for dataset, maker in MADE_BY.items() if maker == job]
        self._say(worker, "claimed", job, token, asked=at - 0.01, began=at, until=until, inputs=[*JOBS[job]],
                  outputs=outputs)  # fmt: skip
        return self

    def reporting(self, worker: str, job: str, token: int, at: float, until: float) -> Self:
        self._say(worker, "reporting", job, token, at=at, until=until, success=True)
        return self

    def reported(self, worker: str, job: str, token: int, at: float, until: float, lost: str = "") -> Self:
        self._say(worker, "reported", job, token, at=at, until=until, lost=lost)
        return self

    def made(self, worker: str, job: str, token: int, at: float) -> Self:
        """A complete run, within one second."""
        self.claimed(worker, job, token, at, at + 5).reporting(worker, job, token, at + 0.5, at + 5)
        return self.reported(worker, job, token, at + 1, at + 5)

    def kinds(self) -> list[str]:
        return [text.partition(":")[0] for text in self.witness.verdict()]

    def _say(self, worker: str, kind: str, job: str, token: int, **more: object) -> None:
        self.witness.hear(worker, {"kind": kind, "job": job, "dataid": "7", "token": token, **more})


def test_a_correct_chain_is_accepted() -> None:
    told = Told().made("a", "tidy", 1, 1).made("b", "enrich", 2, 3).made("a", "join", 3, 5)
    assert told.kinds() == []
    assert told.witness.chain.successes == 3


def test_an_input_that_nobody_made_is_detected() -> None:
    assert Told().claimed("b", "enrich", 2, 3, 8).kinds() == ["input not ready"]


def test_an_input_that_was_reported_too_late_is_detected() -> None:
    told = Told().claimed("b", "enrich", 2, 1.2, 8).made("a", "tidy", 1, 1)
    assert told.kinds() == ["overlap", "input not ready"]


def test_one_of_two_inputs_is_not_enough() -> None:
    told = Told().made("a", "tidy", 1, 1).claimed("b", "join", 2, 3, 8)
    assert told.kinds() == ["input not ready"]


def test_an_input_whose_report_was_refused_is_not_ready() -> None:
    told = Told().claimed("a", "tidy", 1, 1, 2).reporting("a", "tidy", 1, 3, 2)
    told.reported("a", "tidy", 1, 3.1, 2, lost="stale").claimed("b", "enrich", 2, 4, 8)
    assert told.kinds() == ["input not ready"]


def test_an_input_whose_maker_was_killed_while_it_reported_may_be_ready() -> None:
    told = Told().claimed("a", "tidy", 1, 1, 9).reporting("a", "tidy", 1, 2, 9)
    told.witness.killed("a", 2.1)
    assert told.claimed("b", "enrich", 2, 3, 8).kinds() == []


def test_two_successes_are_detected() -> None:
    assert Told().made("a", "tidy", 1, 1).made("b", "tidy", 2, 9).kinds() == ["two successes"]


def test_an_accepted_stale_report_is_detected() -> None:
    """By times alone: the second one has not even reported."""
    told = Told().claimed("a", "tidy", 1, 1, 2).claimed("b", "tidy", 2, 3, 8)
    told.reporting("a", "tidy", 1, 4, 2).reported("a", "tidy", 1, 4.1, 2)
    assert told.kinds() == ["stale report accepted"]


def test_a_chunk_claimed_by_two_workers_is_detected() -> None:
    assert Told().claimed("a", "tidy", 1, 1, 5).claimed("b", "tidy", 2, 2, 7).kinds() == ["overlap"]


@pytest.mark.parametrize(("at", "kinds", "starved"), [(4.0, ["unexplained loss"], 0), (5.5, [], 1)])
def test_a_loss_before_the_deadline_is_detected(at: float, kinds: list[str], starved: int) -> None:
    told = Told().claimed("a", "tidy", 1, 1, 5).reporting("a", "tidy", 1, 3, 5)
    told.reported("a", "tidy", 1, at, 5, lost="who knows")
    assert told.kinds() == kinds
    assert told.witness.counts.starved == starved


def test_kinds_of_refusal_are_distinguished() -> None:
    told = Told().claimed("a", "tidy", 1, 1, 2).claimed("c", "tidy", 2, 3, 4)
    told.reporting("a", "tidy", 1, 4.1, 2).reported("a", "tidy", 1, 4.2, 2, lost="stale")
    told.made("b", "tidy", 3, 5).reporting("c", "tidy", 2, 7, 4).reported("c", "tidy", 2, 7.1, 4, lost="it is READY")
    assert told.kinds() == []
    assert (told.witness.chain.duplicates_refused, told.witness.chain.stale_refused) == (1, 1)


def test_the_time_until_a_dead_workers_chunk_runs_again_is_measured() -> None:
    told = Told().claimed("a", "tidy", 1, 1, 9)
    told.witness.killed("a", 2)
    told.claimed("b", "tidy", 2, 9.5, 20)
    assert [seconds for _, seconds in told.witness.recoveries()] == [7.5]

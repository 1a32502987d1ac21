"""The witness detects each kind of violation: each one is planted, first in logs written by hand, then by real
processes with a real bug.
"""

from dataclasses import asdict
from pathlib import Path

import pytest

from tests.faults.fighter import Rules
from tests.faults.processes import Child, ChildFailed, Message, Zygote, now
from tests.faults.witness import Witness

R = "canary:1"
LEASE = 0.6


class Told:
    """A log written by hand, with times in seconds."""

    def __init__(self, *, fenced: bool = True) -> None:
        self.witness = Witness(fenced)

    def enter(self, worker: str, mode: str, token: int, began: float, until: float, **more: object) -> "Told":
        message = {"kind": "enter", "resource": R, "mode": mode, "token": token, "lock_id": f"{worker}-{token}"}
        message |= {"asked": began - 0.1, "began": began, "until": until, "fresh": True, **more}
        self.witness.hear(worker, message)
        return self

    def leave(self, worker: str, at: float, until: float) -> "Told":
        self.witness.hear(worker, {"kind": "leave", "resource": R, "at": at, "until": until})
        return self

    def write(self, worker: str, token: int, until: float) -> bool:
        answer = self.witness.hear(worker, {"kind": "write", "resource": R, "token": token, "until": until})
        assert answer is not None
        return bool(answer["accepted"])

    def lost(self, worker: str, at: float, until: float, by: str = "store") -> "Told":
        self.witness.hear(worker, {"kind": "lost", "resource": R, "at": at, "until": until, "why": "so", "by": by})
        return self

    def kinds(self) -> list[str]:
        return [text.partition(":")[0] for text in self.witness.verdict()]


def test_holders_in_turn_are_accepted() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 5).leave("a", 2, 5).enter("b", "exclusive", 2, 2.5, 7)
    assert told.kinds() == []


def test_concurrent_readers_are_accepted() -> None:
    assert Told().enter("a", "shared", 1, 1, 5).enter("b", "shared", 2, 2, 6).kinds() == []


@pytest.mark.parametrize(
    ("one", "other"), [("shared", "exclusive"), ("exclusive", "shared"), ("exclusive", "exclusive")]
)
def test_two_live_holders_are_an_overlap(one: str, other: str) -> None:
    assert Told().enter("a", one, 1, 1, 5).enter("b", other, 2, 2, 6).kinds() == ["overlap"]


def test_a_holder_past_its_own_deadline_is_not_live() -> None:
    assert Told().enter("a", "exclusive", 1, 1, 2).enter("b", "exclusive", 2, 2.1, 6).kinds() == []


def test_a_killed_holder_is_not_live() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 5)
    (dead,) = told.witness.killed("a", 3)
    assert told.enter("b", "exclusive", 2, 3.5, 6).kinds() == []
    assert told.witness.next_grant(dead) == 0.5


def test_a_renewal_that_is_recorded_later_counts() -> None:
    """When b entered nothing contradicted it; then a reported that it had renewed."""
    told = Told().enter("a", "exclusive", 1, 1, 2).enter("b", "exclusive", 2, 2.1, 6)
    assert told.leave("a", 4, 5).kinds() == ["overlap"]


def test_a_token_issued_twice_is_detected() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 2).leave("a", 1.5, 2).enter("b", "exclusive", 1, 1.55, 3)
    assert told.kinds() == ["token given twice", "token went back"]


def test_a_decreasing_token_is_detected() -> None:
    told = Told().enter("a", "exclusive", 5, 1, 2).leave("a", 1.5, 2).enter("b", "exclusive", 4, 3, 5)
    assert told.kinds() == ["token went back"]


def test_the_register_refuses_an_older_token() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 2).enter("b", "exclusive", 2, 3, 6)
    assert not told.write("a", 1, 2)
    assert told.write("b", 2, 6)
    assert told.kinds() == []


def test_a_writer_is_too_late_after_a_reader() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 2).enter("b", "shared", 2, 3, 6)
    assert not told.write("a", 1, 2)


def test_an_accepted_stale_write_is_detected() -> None:
    told = Told(fenced=False).enter("a", "exclusive", 1, 1, 2).enter("b", "exclusive", 2, 3, 6)
    assert told.write("a", 1, 2)
    assert told.kinds() == ["stale write accepted"]


def test_a_loss_before_the_deadline_is_detected() -> None:
    assert Told().enter("a", "exclusive", 1, 1, 5).lost("a", 3, 5).kinds() == ["unexplained loss"]
    assert Told().enter("a", "exclusive", 1, 1, 5).lost("a", 5.1, 5).kinds() == []


def test_a_holder_that_the_machine_starved_is_counted() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 2).lost("a", 2, 3, by="clock")
    assert told.kinds() == []
    assert told.witness.counts.starved == 1


def test_a_new_holder_with_an_older_token_is_detected_by_the_writes_it_allows() -> None:
    """The register refuses the true holder and accepts the stale one: detected without trusting the register."""
    told = Told().enter("a", "exclusive", 9, 1, 2).enter("b", "exclusive", 4, 3, 6, asked=0.5)
    assert told.write("a", 9, 2)
    assert told.kinds() == ["stale write accepted"]


def test_a_client_that_never_held_the_lock_makes_no_token_stale() -> None:
    """It was stopped during its request, and its deadline had passed when the answer arrived."""
    told = Told().enter("b", "exclusive", 2, 3, 6).enter("a", "exclusive", 1, 4, 2)
    assert told.write("b", 2, 6)
    assert "stale write accepted" not in told.kinds()


def test_a_holder_that_enters_too_late_makes_no_token_stale() -> None:
    """a was granted first and stopped before it could report it; b was granted long ago, and keeps writing."""
    told = Told().enter("b", "exclusive", 2, 3, 6).enter("a", "exclusive", 1, 1, 2)
    assert told.write("b", 2, 6)
    assert told.kinds() == []


def test_the_loss_of_a_stopped_holder_is_explained() -> None:
    told = Told().enter("a", "exclusive", 1, 1, 5)
    told.witness.stopped("a", 2)
    told.witness.resumed("a", 6)
    assert told.lost("a", 6.1, 6.5).kinds() == []


@pytest.mark.parametrize(
    ("fenced", "ignores_lease", "expected"),
    [
        pytest.param(True, False, set(), id="sound"),
        pytest.param(False, False, {"stale write accepted"}, id="without fence"),
        pytest.param(True, True, {"overlap"}, id="holder ignores its lease"),
    ],
)
def test_a_planted_bug_is_detected(
    processes: Zygote, tmp_path: Path, fenced: bool, ignores_lease: bool, expected: set[str]
) -> None:
    """A writer is stopped past its lease, another one takes over, the first continues and writes without checking."""
    witness = Witness(fenced)
    stage = Stage(processes, f"sqlite:///{tmp_path / 'canary.sqlite'}", witness, Rules(LEASE, 0.0, ignores_lease))
    first = stage.start("first")
    stage.hear("first", first, "write")
    witness.stopped("first", now())
    first.stop()
    second = stage.start("second")
    stage.hear("second", second, "write")
    first.resume()
    witness.resumed("first", now())
    late = stage.hear("first", first, "write")
    assert late["accepted"] is not fenced
    assert {text.partition(":")[0] for text in witness.verdict()} == expected


class Stage:
    """Two writers and the witness between them."""

    def __init__(self, processes: Zygote, url: str, witness: Witness, rules: Rules) -> None:
        self._processes = processes
        self._url = url
        self._witness = witness
        self._rules = rules

    def start(self, name: str) -> Child:
        return self._processes.spawn(
            "tests.faults.fighter:write_until_refused",
            url=self._url, name=name, resource=R, rules=asdict(self._rules),
        )  # fmt: skip

    def hear(self, name: str, child: Child, until: str) -> Message:
        """Forward messages of the child up to one of that kind; returns the answer to it."""
        while message := child.channel.receive():
            answer = self._witness.hear(name, message)
            if answer is not None:
                child.channel.send("answer", **answer)
            if message["kind"] == until and answer is not None:
                return answer
        raise ChildFailed(f"{name} ended before it said {until}")

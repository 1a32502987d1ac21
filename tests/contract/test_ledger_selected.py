"""Operations on many chunks at once: by status, range and pattern, with downstream chunks, part by part."""

from typing import Any

import pytest

from headgate import BadValue, Gate, UnknownName
from headgate.core.ledger.model import HOLD
from headgate.service.ledger.use_cases import Ledger
from headgate.stores.sql.ledger import selections
from tests.contract.ledger_steps import WHY, claimed, expire, one_job, status_of, told
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)

DAYS = [f"2026-10-{day:02}" for day in range(1, 32)]


def worked(gate: Gate, dataids: list[str], failing: tuple[str, ...] = ()) -> Ledger:
    """Each chunk of clean was attempted once; these failed."""
    ledger = one_job(gate, max_attempts=1)
    ledger.publish("raw", dataids)
    for _ in dataids:
        claim = claimed(ledger, "clean")
        ledger.fail(claim, "no space") if claim.dataid in failing else ledger.success(claim)
    return ledger


def statuses(ledger: Ledger, job: str, dataset: str) -> dict[str, str]:
    return {row.dataid: row.status for row in ledger.status(dataset, job, kind="OUTPUT")}


def test_all_that_failed_is_resubmitted_and_nothing_else(gate: Gate) -> None:
    ledger = worked(gate, ["1", "2", "3", "4"], failing=("2", "4"))
    asked: dict[str, Any] = {"reason": WHY, "status": ["failed"]}
    preview = ledger.change_selected("clean", "resubmit", **asked, dry_run=True)
    assert statuses(ledger, "clean", "tidy")["2"] == "ERROR", "a preview changes nothing"
    found = ledger.change_selected("clean", "resubmit", **asked)
    assert found == preview
    assert (found.selected, found.changed, found.refused, found.next) == ({"ERROR": 2}, {"clean": 2}, 0, None)
    assert statuses(ledger, "clean", "tidy") == {"1": "READY", "2": "RESUBMIT", "3": "READY", "4": "RESUBMIT"}
    assert told(gate, "clean", "2")[-1] == ("resubmit", "ERROR", "RESUBMIT")
    again = ledger.change_selected("clean", "resubmit", **asked)
    assert (again.count, again.total) == (0, 0), "repeating it finds nothing left"
    assert [claimed(ledger, "clean").dataid for _ in range(2)] == ["2", "4"], "they are claimed first"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["2026-10-0*"], DAYS[:9]),
        (["2026-10-29..2026-11-02"], DAYS[28:]),
        (["2026-10-3[01]", "2026-10-02"], [DAYS[1], *DAYS[29:]]),
        (["*-15"], [DAYS[14]]),
        (["2026-1?-31"], [DAYS[30]]),
        (["2026-09-*"], []),
        (["1..31"], []),
        (["*"], DAYS),
    ],
)
def test_ranges_and_patterns_name_chunks_that_are_there(gate: Gate, words: list[str], expected: list[str]) -> None:
    ledger = worked(gate, DAYS)
    found = ledger.change_selected("clean", "resubmit", reason=WHY, dataids=words)
    changed = [dataid for dataid, status in statuses(ledger, "clean", "tidy").items() if status == "RESUBMIT"]
    assert (changed, found.count) == (expected, len(expected))


def test_a_status_and_a_pattern_must_both_apply(gate: Gate) -> None:
    ledger = worked(gate, ["a1", "a2", "b1"], failing=("a1", "b1"))
    found = ledger.change_selected("clean", "resubmit", reason=WHY, dataids=["a*"], status=["ERROR"])
    assert {each.dataid for each in found.changes} == {"a1"}
    literal = ledger.change_selected("clean", "resubmit", reason=WHY, dataids=["b*"], exact=True)
    assert literal.count == 0, "taken literally, it is one data id"


def test_a_chunk_that_runs_is_reported_and_the_others_are_changed(gate: Gate) -> None:
    ledger = worked(gate, ["1", "2", "3"], failing=("1", "3"))
    running = ledger.force("clean", "2", reason=WHY, worker="node7")
    found = ledger.change_selected("clean", "resubmit", reason=WHY, dataids=["*"])
    assert (found.total, found.refused) == (2, 1)
    assert found.selected == {"ERROR": 2, "RUNNING": 1}
    assert found.refusals[0].dataid == "2"
    assert "node7" in found.refusals[0].why
    ledger.heartbeat(running)
    taken = ledger.change_selected("clean", "resubmit", reason=WHY, status=["running"], steal=True)
    assert taken.changed == {"clean": 1}


def test_a_dead_workers_chunk_is_held_as_it_would_be_by_itself(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    claimed(ledger, "clean")
    expire(gate, "1")
    found = ledger.change_selected("clean", "hold", reason=WHY, status=["RUNNING"])
    assert found.changed == {"clean": 1}
    assert told(gate, "clean", "1")[-2:] == [("reap", "RUNNING", "ERROR"), ("hold", "ERROR", "HOLD")]
    ledger.change_selected("clean", "unhold", reason=WHY, dataids=["*"])
    assert status_of(ledger, "tidy", "1", "clean") == "ERROR"


def test_downstream_chunks_follow_and_a_running_reader_keeps_its_source(gate: Gate) -> None:
    ledger = worked(gate, ["1", "2", "3", "4"])
    for _ in range(3):
        ledger.success(claimed(ledger, "report"))
    ledger.force("report", "2", reason=WHY, worker="node8")
    asked: dict[str, Any] = {"reason": WHY, "dataids": ["1..4"], "downstream": True}
    preview = ledger.change_selected("clean", "resubmit", **asked, dry_run=True)
    found = ledger.change_selected("clean", "resubmit", **asked)
    assert found == preview
    assert found.changed == {"clean": 3, "report": 2}
    assert [each.dataid for each in found.refusals] == ["2"]
    assert "node8" in found.refusals[0].why
    assert statuses(ledger, "clean", "tidy") == {"1": "RESUBMIT", "2": "READY", "3": "RESUBMIT", "4": "RESUBMIT"}
    assert statuses(ledger, "report", "rep") == {"1": "RESUBMIT", "2": "RUNNING", "3": "RESUBMIT"}


def test_many_are_held_released_and_forgotten(gate: Gate) -> None:
    ledger = worked(gate, ["1", "2", "3"], failing=("3",))
    held = ledger.change_selected("clean", "hold", reason="wrong rates", dataids=["*"])
    assert held.changed == {"clean": 3}
    assert {row.status for row in ledger.status("tidy", "clean")} == {HOLD}
    assert {row.message for row in ledger.status("tidy", "clean")} == {"wrong rates"}
    assert ledger.change_selected("clean", "hold", reason=WHY, dataids=["*"]).total == 0
    released = ledger.change_selected("clean", "unhold", reason=WHY, dataids=["1..3"])
    assert released.changed == {"clean": 3}
    assert statuses(ledger, "clean", "tidy") == {"1": "READY", "2": "READY", "3": "ERROR"}
    forgotten = ledger.change_selected("clean", "forget", reason=WHY, status=["ERROR"])
    assert forgotten.changed == {"clean": 1}
    assert ledger.status("tidy", "clean", "3") == []
    assert claimed(ledger, "clean").dataid == "3"


def test_a_job_that_makes_nothing_is_selected_by_what_it_reads(gate: Gate) -> None:
    ledger = gate.ledger
    ledger.define_dataset("raw")
    ledger.define_job("mail", inputs=["raw"], max_attempts=1)
    ledger.publish("raw", ["1", "2"])
    ledger.fail(claimed(ledger, "mail"), "bounced")
    found = ledger.change_selected("mail", "resubmit", reason=WHY, status=["ERROR"])
    assert found.changed == {"mail": 1}
    assert claimed(ledger, "mail").dataid == "1"


def test_a_large_selection_is_changed_part_by_part(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "PART", 4)
    ledger = worked(gate, [str(number) for number in range(1, 12)])
    first = ledger.change_part("clean", "resubmit", reason=WHY, dataids=["*"])
    assert (first.count, first.next is not None) == (4, True)
    rest = ledger.change_selected("clean", "resubmit", reason=WHY, status=["READY"])
    assert (rest.count, rest.total, rest.next) == (7, 7, None)
    assert set(statuses(ledger, "clean", "tidy").values()) == {"RESUBMIT"}


def test_a_selection_that_names_nothing_or_too_much_is_refused(gate: Gate) -> None:
    ledger = worked(gate, ["1"])
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("resubmit", {}, "empty"),
        ("resubmt", {"dataids": ["*"]}, "resubmit"),
        ("hold", {"dataids": ["*"], "downstream": True}, "is for resubmit"),
        ("unhold", {"dataids": ["*"], "steal": True}, "never takes a chunk"),
        ("resubmit", {"dataids": ["2026-10-01..x"]}, "not a range"),
    )
    for act, how, why in cases:
        with pytest.raises(BadValue, match=why):
            ledger.change_selected("clean", act, reason=WHY, **how)
    with pytest.raises(BadValue, match="reason"):
        ledger.change_selected("clean", "resubmit", reason="", dataids=["*"])
    with pytest.raises(UnknownName, match="claen"):
        ledger.change_selected("claen", "resubmit", reason=WHY, dataids=["*"])


def test_chunks_that_several_parts_reach_downstream_are_counted_once(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selections, "PART", 4)
    ledger = worked(gate, DAYS)
    for job, reads, makes, unit, period in (
        ("monthly", "tidy", "months", "day", "month"), ("yearly", "months", "years", "month", "year"),
    ):  # fmt: skip
        ledger.define_dataset(makes)
        maps = {reads: {"kind": "period", "period": period, "unit": unit, "need": "any"}}
        ledger.define_job(job, inputs=[reads], outputs=[makes], maps=maps)
        ledger.success(claimed(ledger, job))
    asked: dict[str, Any] = {"reason": WHY, "dataids": ["*"], "downstream": True}
    preview = ledger.change_selected("clean", "resubmit", **asked, dry_run=True)
    found = ledger.change_selected("clean", "resubmit", **asked)
    assert preview.changed == {"clean": 31, "monthly": 1, "yearly": 1}
    assert found == preview
    downstream = [(each.job, each.dataid, each.kind) for each in found.changes if each.job != "clean"]
    assert len(downstream) == len(set(downstream)) == 4, "an INPUT and an OUTPUT row of each"

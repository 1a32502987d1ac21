"""Changes that mapped jobs must notice: chunks that vanish or were held meanwhile, and new definitions and limits."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import ClaimLost, ClaimRefused, Gate
from headgate.service.ledger.use_cases import Ledger
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import WHY, claimed, hurry, next_id, status_of, told
from tests.contract.over_http import LEDGER_STORES
from tests.contract.steps import Gates

ALL = pytest.mark.parametrize("kind", LEDGER_STORES)
BY_SAMPLE = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
BY_MONTH = {"kind": "period", "period": "month", "unit": "day"}
EARLY = {"need": "any", "on_late": "redo", "late_delay": 0}
DAYS = [f"2026-02-{day:02}" for day in range(1, 29)]


def merging(gate: Gate, **mapping: Any) -> Ledger:
    """Lanes are made one by one, and merged into samples."""
    ledger = gate.ledger
    for name in ("raw", "lanes", "samples"):
        ledger.define_dataset(name)
    ledger.define_job("lane", inputs=["raw"], outputs=["lanes"], max_attempts=1)
    merge(ledger, **mapping)
    return ledger


def merge(ledger: Ledger, **mapping: Any) -> None:
    """How lanes make a sample."""
    ledger.define_job("merge", inputs=["lanes"], outputs=["samples"], maps={"lanes": BY_SAMPLE | mapping})


def make(ledger: Ledger, *dataids: str) -> None:
    """These lanes are made."""
    ledger.publish("raw", list(dataids))
    for dataid in dataids:
        ledger.success(ledger.claim("lane", dataid))


def break_lane(ledger: Ledger, dataid: str) -> None:
    """This lane fails permanently."""
    ledger.publish("raw", dataid)
    ledger.fail(ledger.claim("lane", dataid), "no signal")


def message(ledger: Ledger) -> str:
    return ledger.status("samples", "merge", "s1", kind="OUTPUT")[0].message


# ---------------------------------------------------------------- chunks that vanish


@ALL
@pytest.mark.parametrize("act", ["forget", "unhold"])
def test_a_sample_no_longer_waits_for_a_lane_that_is_gone(gate: Gate, act: str) -> None:
    ledger = merging(gate)
    make(ledger, "s1.1", "s1.2")
    if act == "forget":
        break_lane(ledger, "s1.3")
    else:
        ledger.hold("lane", "s1.3", reason=WHY)
    ledger.close("merge", "s1")
    assert [next_id(ledger, "merge") for _ in range(2)] == [None, None]
    getattr(ledger, act)("lane", "s1.3", reason=WHY)
    assert ledger.explain("merge", "s1").granted
    assert [verdict.dataid for verdict in ledger.plan("merge").next] == ["s1"]
    assert claimed(ledger, "merge").inputs["lanes"].dataids == ("s1.1", "s1.2")


@ALL
def test_a_window_closes_over_a_neighbour_that_is_gone(gate: Gate) -> None:
    ledger = merging(gate)
    ledger.define_dataset("pairs")
    ledger.define_job("pair", inputs=["lanes"], outputs=["pairs"], maps={"lanes": {"kind": "window", "before": 1}})
    make(ledger, "1", "3")
    break_lane(ledger, "2")
    assert [next_id(ledger, "pair") for _ in range(3)] == ["1", None, None]
    ledger.forget("lane", "2", reason=WHY)
    assert claimed(ledger, "pair").inputs["lanes"].dataids == ("1", "3")


@ALL
def test_a_sample_no_longer_waits_for_parts_of_a_chunk_that_is_gone(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("runs", "lanes", "samples"):
        ledger.define_dataset(name)
    ledger.define_job("cut", inputs=["runs"], fan_out=["lanes"])
    merge(ledger)
    ledger.publish("runs", ["a", "b"])
    ledger.success(ledger.claim("cut", "a"), outputs={"lanes": ["s1.1"]})
    ledger.success(ledger.claim("cut", "b"), outputs={"lanes": ["s1.2"]})
    ledger.resubmit("cut", "b", reason=WHY)
    ledger.close("merge", "s1")
    assert [next_id(ledger, "merge") for _ in range(2)] == [None, None]
    ledger.forget("cut", "b", reason=WHY)
    assert claimed(ledger, "merge").inputs["lanes"].dataids == ("s1.1",)


# ---------------------------------------------------------------- chunks that were held


@ALL
def test_inputs_that_arrived_while_a_chunk_was_held_are_late_when_it_is_released(gate: Gate) -> None:
    ledger = merging(gate, **EARLY | {"on_late": "note"})
    make(ledger, "s1.1")
    ledger.success(claimed(ledger, "merge"))
    ledger.hold("merge", "s1", reason=WHY)
    make(ledger, "s1.2")
    assert next_id(ledger, "merge") is None
    ledger.unhold("merge", "s1", reason=WHY)
    assert status_of(ledger, "samples", "s1", "merge") == "READY"
    assert message(ledger) == "late: lanes/s1.2 arrived or changed after it was read"
    ledger.hold("merge", "s1", reason=WHY)
    ledger.unhold("merge", "s1", reason=WHY)
    assert [each for each in told(gate, "merge", "s1") if each[0] == "late"] == [("late", "READY", "READY")]


@ALL
def test_a_chunk_that_was_held_is_redone_when_inputs_came_meanwhile(gate: Gate) -> None:
    ledger = merging(gate, **EARLY)
    make(ledger, "s1.1")
    ledger.success(claimed(ledger, "merge"))
    ledger.hold("merge", "s1", reason=WHY)
    make(ledger, "s1.2")
    assert next_id(ledger, "merge") is None
    ledger.unhold("merge", "s1", reason=WHY)
    claim = claimed(ledger, "merge")
    assert (claim.dataid, claim.inputs["lanes"].dataids) == ("s1", ("s1.1", "s1.2"))


@ALL
def test_releasing_many_redoes_those_whose_inputs_came_meanwhile(gate: Gate) -> None:
    ledger = merging(gate, **EARLY)
    make(ledger, "s1.1", "s2.1")
    for _ in range(2):
        ledger.success(claimed(ledger, "merge"))
    ledger.change_selected("merge", "hold", dataids=["s*"], reason=WHY)
    make(ledger, "s1.2")
    assert next_id(ledger, "merge") is None
    ledger.change_selected("merge", "unhold", dataids=["s*"], reason=WHY)
    assert [next_id(ledger, "merge") for _ in range(2)] == ["s1", None]
    assert status_of(ledger, "samples", "s2", "merge") == "READY"


# ---------------------------------------------------------------- reports, definitions, limits


@ALL
def test_a_success_whose_answer_was_lost_is_repeated_although_late_inputs_redo_the_chunk(gate: Gate) -> None:
    ledger = merging(gate, **EARLY)
    make(ledger, "s1.1")
    claim = claimed(ledger, "merge")
    make(ledger, "s1.2")
    for _ in range(2):
        ledger.success(claim)
    assert [event for event, _, _ in told(gate, "merge", "s1")] == ["claim", "success", "late"]
    again = claimed(ledger, "merge")
    with pytest.raises(ClaimLost, match="the newest claim has token"):
        ledger.success(claim)
    ledger.success(again)


@ALL
def test_a_claim_that_an_operator_overrode_has_not_succeeded(gate: Gate) -> None:
    ledger = merging(gate, **EARLY)
    make(ledger, "s1.1")
    claim = claimed(ledger, "merge")
    ledger.resubmit("merge", "s1", reason=WHY, steal=True)
    with pytest.raises(ClaimLost, match="it is not running"):
        ledger.success(claim)


@ALL
@pytest.mark.parametrize("changed", ["mapping", "expectation"])
def test_late_inputs_are_not_forgotten_when_a_definition_changes(gate: Gate, changed: str) -> None:
    ledger = merging(gate, **EARLY)
    make(ledger, "s1.1")
    ledger.success(claimed(ledger, "merge"))
    make(ledger, "s1.2")
    if changed == "mapping":
        merge(ledger, **EARLY | {"late_delay": 1})
    else:
        ledger.define_dataset("lanes", expect={"ids": ["s1.1"], "from": "2026-01-01"})
    hurry(gate)
    assert next_id(ledger, "merge") == "s1"


@pytest.mark.parametrize("kind", SQL_STORES)
@pytest.mark.parametrize(
    ("mapping", "there", "dataid"),
    [
        (BY_MONTH, DAYS, "2026-02"),
        (BY_MONTH | {"need": "any"}, DAYS[20:], "2026-02"),
        (BY_SAMPLE | {"need": 20}, [f"s1.{lane}" for lane in range(20)], "s1"),
        ({"kind": "window", "unit": "day", "before": 10}, DAYS[:11], DAYS[10]),
    ],
    ids=["all", "any", "number", "window"],
)
def test_the_limit_of_a_claim_is_that_of_who_claims(
    gates: Gates, mapping: dict[str, Any], there: list[str], dataid: str
) -> None:
    low, high = gates.open(max_input_ids="5").ledger, gates.open().ledger
    for name in ("parts", "wholes"):
        low.define_dataset(name)
    low.define_job("make", inputs=["parts"], outputs=["wholes"], maps={"parts": mapping})
    low.publish("parts", there)
    assert [next_id(low, "make") for _ in range(2)] == [None, None]
    told = "input parts: more than 5 data ids are needed, the limit of one claim (max_input_ids)"
    assert [each.text for each in low.explain("make", dataid).blockers] == [told]
    assert dataid in [verdict.dataid for verdict in low.plan("make").blocked]
    assert claimed(high, "make").inputs["parts"].dataids == tuple(there)


@ALL
def test_a_job_that_makes_nothing_and_has_nothing_to_read_is_explained(gate: Gate) -> None:
    ledger = merging(gate)
    ledger.define_job("count", inputs=["lanes"], maps={"lanes": {"kind": "all"}})
    assert "it has no data ids yet" in ledger.explain("count", "x").sentence()
    assert ledger.plan("count").next == ()
    with pytest.raises(ClaimRefused, match="it has no data ids yet"):
        ledger.claim("count", "x")


@ALL
def test_an_input_that_a_job_no_longer_reads_starts_no_counts_again(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("lanes", "flags", "samples"):
        ledger.define_dataset(name)
    by_sample = {"lanes": BY_SAMPLE | {"need": "any"}}
    ledger.define_job("merge", inputs=["lanes", "flags"], outputs=["samples"], maps=by_sample)
    ledger.publish("lanes", "s1.1")
    ledger.publish("flags", "s1")
    ledger.fail(claimed(ledger, "merge"), "no")
    ledger.set_status("flags", "s1", "external", "OUTPUT", "ERROR", reason=WHY)
    ledger.publish("flags", "s1")
    ledger.define_job("merge", inputs=["lanes"], outputs=["samples"], maps=by_sample)
    assert ledger.status("samples", "merge", "s1", kind="OUTPUT")[0].failures == 1
    assert next_id(ledger, "merge") == "s1"

"""Inputs that arrive or change after they were read, data ids that are closed, and windows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import BadValue, Gate, Refused
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY, claimed, hurry, next_id, status_of, told
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
#: No calendar determines the lanes of a sample.
BY_SAMPLE = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
NOTE = ("late", "READY", "READY")


def merging(gate: Gate, **mapping: Any) -> Ledger:
    """Lanes are merged into samples."""
    ledger = gate.ledger
    for name in ("lanes", "samples"):
        ledger.define_dataset(name)
    ledger.define_job("merge", inputs=["lanes"], outputs=["samples"], maps={"lanes": BY_SAMPLE | mapping})
    return ledger


def message(ledger: Ledger, dataid: str) -> str:
    return ledger.status("samples", "merge", dataid, kind="OUTPUT")[0].message


# ---------------------------------------------------------------- closing


def test_without_a_calendar_a_data_id_is_complete_when_it_is_closed(gate: Gate) -> None:
    ledger = merging(gate)
    ledger.publish("lanes", ["s1.1", "s1.2", "s2.1"])
    assert next_id(ledger, "merge") is None
    assert "headgate job close merge s1" in ledger.explain("merge", "s1").sentence()
    assert ledger.close("merge", "s1", reason=WHY)
    claim = claimed(ledger, "merge")
    assert (claim.dataid, claim.inputs["lanes"].dataids) == ("s1", ("s1.1", "s1.2"))
    assert next_id(ledger, "merge") is None


def test_closing_can_be_undone_and_is_recorded_once(gate: Gate) -> None:
    ledger = merging(gate)
    ledger.publish("lanes", "s1.1")
    assert [ledger.close("merge", "s1"), ledger.close("merge", "s1")] == [True, False]
    assert [ledger.close("merge", "s1", reopen=True) for _ in range(2)] == [True, False]
    assert next_id(ledger, "merge") is None
    assert told(gate, "merge", "s1") == [("close", "open", "closed"), ("reopen", "closed", "open")]
    ledger.close("merge", "s1")
    assert next_id(ledger, "merge") == "s1"


def test_a_lane_that_is_not_ready_when_its_sample_is_closed_is_waited_for(gate: Gate) -> None:
    ledger = merging(gate)
    ledger.publish("lanes", ["s1.1", "s1.2"])
    ledger.set_status("lanes", "s1.2", "external", "OUTPUT", "HOLD", reason=WHY)
    ledger.close("merge", "s1")
    assert next_id(ledger, "merge") is None
    ledger.set_status("lanes", "s1.2", "external", "OUTPUT", "READY", reason=WHY)
    assert next_id(ledger, "merge") == "s1"


def test_closing_is_refused_where_nothing_is_open(gate: Gate) -> None:
    ledger = merging(gate, format="{sample}.{lane}")
    ledger.define_dataset("days")
    ledger.define_dataset("months")
    by_month = {"kind": "period", "period": "month", "unit": "day"}
    ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": by_month})
    with pytest.raises(Refused, match="there is nothing to close"):
        ledger.close("monthly", "2026-02")
    with pytest.raises(BadValue, match="no data id of job 'monthly'"):
        ledger.close("monthly", "february")


# ---------------------------------------------------------------- need


def test_one_input_is_enough_where_any_is_needed_and_the_rest_is_late(gate: Gate) -> None:
    ledger = merging(gate, need="any")
    ledger.publish("lanes", "s1.1")
    claim = claimed(ledger, "merge")
    assert claim.inputs["lanes"].dataids == ("s1.1",)
    ledger.publish("lanes", "s1.2")
    ledger.success(claim)
    assert status_of(ledger, "samples", "s1", "merge") == "READY"
    assert message(ledger, "s1") == "late: lanes/s1.2 arrived or changed after it was read"
    assert next_id(ledger, "merge") is None
    assert told(gate, "merge", "s1")[-2:] == [("success", "RUNNING", "READY"), NOTE]


def test_a_number_of_inputs_is_enough(gate: Gate) -> None:
    ledger = merging(gate, need=2)
    ledger.publish("lanes", "s1.1")
    assert next_id(ledger, "merge") is None
    ledger.publish("lanes", "s1.2")
    assert next_id(ledger, "merge") == "s1"


# ---------------------------------------------------------------- late inputs


def test_an_input_that_arrives_after_it_was_made_is_noted_once(gate: Gate) -> None:
    ledger = merging(gate)
    ledger.publish("lanes", "s1.1")
    ledger.close("merge", "s1")
    ledger.success(claimed(ledger, "merge"))
    assert message(ledger, "s1") == ""
    ledger.publish("lanes", "s1.2")
    assert next_id(ledger, "merge") is None
    assert next_id(ledger, "merge") is None
    assert status_of(ledger, "samples", "s1", "merge") == "READY"
    assert "lanes/s1.2" in message(ledger, "s1")
    assert "lanes/s1.2" in ledger.explain("merge", "s1").sentence()
    assert told(gate, "merge", "s1")[-2:] == [("success", "RUNNING", "READY"), NOTE]


def test_late_inputs_cause_one_redo_after_a_while(gate: Gate) -> None:
    ledger = merging(gate, on_late="redo")
    ledger.publish("lanes", "s1.1")
    ledger.close("merge", "s1")
    ledger.success(claimed(ledger, "merge"))
    ledger.publish("lanes", "s1.2")
    assert next_id(ledger, "merge") is None
    (row,) = ledger.status("samples", "merge", "s1", kind="OUTPUT")
    assert row.status == "RESUBMIT"
    assert row.retry_in is not None
    assert timedelta(minutes=9) < timedelta(seconds=row.retry_in) <= timedelta(minutes=10)
    assert "redone in" in ledger.explain("merge", "s1").sentence()
    ledger.publish("lanes", "s1.3")
    assert next_id(ledger, "merge") is None, "it still waits for what else arrives"
    hurry(gate)
    claim = claimed(ledger, "merge")
    assert claim.inputs["lanes"].dataids == ("s1.1", "s1.2", "s1.3")
    ledger.success(claim)
    assert next_id(ledger, "merge") is None
    assert [event for event, _, _ in told(gate, "merge", "s1")].count("late") == 1


def test_the_delay_of_a_redo_may_be_written_with_a_unit(gate: Gate) -> None:
    ledger = merging(gate, need="any", on_late="redo", late_delay="2h")
    found = ledger.job("merge")[0]
    assert found.maps["lanes"].late_delay == 7200
    assert "redone 2 h after a late input" in str(found.maps["lanes"])
    again = ledger.define_job(
        "merge", inputs=["lanes"], outputs=["samples"], maps={"lanes": found.maps["lanes"].to_document()}
    )
    assert again.changes == (), "what is returned may be defined again"


def test_success_compares_what_was_read_with_what_is_there(gate: Gate) -> None:
    ledger = merging(gate, need="any", on_late="redo", late_delay=0)
    ledger.publish("lanes", ["s1.1", "s1.2"])
    claim = claimed(ledger, "merge")
    ledger.set_status("lanes", "s1.2", "external", "OUTPUT", "HOLD", reason=WHY)
    ledger.success(claim)
    assert status_of(ledger, "samples", "s1", "merge") == "RESUBMIT"
    again = claimed(ledger, "merge")
    assert again.inputs["lanes"].dataids == ("s1.1",)
    ledger.success(again)
    assert status_of(ledger, "samples", "s1", "merge") == "READY"


def test_data_that_was_published_again_is_another_version(gate: Gate) -> None:
    ledger = merging(gate, need="any")
    ledger.publish("lanes", "s1.1")
    ledger.success(claimed(ledger, "merge"))
    ledger.set_status("lanes", "s1.1", "external", "OUTPUT", "ERROR", reason=WHY)
    ledger.publish("lanes", "s1.1")
    assert next_id(ledger, "merge") is None
    assert "lanes/s1.1" in message(ledger, "s1")


def test_an_input_that_is_made_again_is_late_for_what_was_made_of_it(gate: Gate) -> None:
    ledger = merging(gate, need="any")
    ledger.define_dataset("raw")
    ledger.define_job("split", inputs=["raw"], outputs=["lanes"])
    ledger.publish("raw", "s1.1")
    ledger.success(claimed(ledger, "split"))
    ledger.success(claimed(ledger, "merge"))
    ledger.resubmit("split", "s1.1", reason=WHY)
    assert next_id(ledger, "merge") is None
    assert message(ledger, "s1") == "", "it is late when it is READY again"
    ledger.success(claimed(ledger, "split"))
    assert next_id(ledger, "merge") is None
    assert "lanes/s1.1" in message(ledger, "s1")


# ---------------------------------------------------------------- windows


def test_a_window_by_the_calendar_waits_for_its_neighbours(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("days", "means"):
        ledger.define_dataset(name)
    window = {"kind": "window", "before": 1, "after": 1, "unit": "day"}
    ledger.define_job("mean", inputs=["days"], outputs=["means"], maps={"days": window})
    ledger.publish("days", ["2026-02-27", "2026-02-28"])
    assert next_id(ledger, "mean") is None
    ledger.publish("days", ["2026-03-01"])
    claim = claimed(ledger, "mean")
    assert claim.dataid == "2026-02-28"
    assert claim.inputs["days"].dataids == ("2026-02-27", "2026-02-28", "2026-03-01")
    assert next_id(ledger, "mean") is None


def test_a_window_in_order_reads_what_is_next_to_it(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("runs", "diffs"):
        ledger.define_dataset(name)
    window = {"kind": "window", "before": 1, "after": 0}
    ledger.define_job("diff", inputs=["runs"], outputs=["diffs"], maps={"runs": window})
    ledger.publish("runs", ["9", "10", "12"])
    claims = [claimed(ledger, "diff") for _ in range(3)]
    assert [each.inputs["runs"].dataids for each in claims] == [("9",), ("9", "10"), ("10", "12")]
    for each in claims:
        ledger.success(each)
    ledger.publish("runs", "11")
    assert claimed(ledger, "diff").inputs["runs"].dataids == ("10", "11")
    assert next_id(ledger, "diff") is None
    late = ledger.status("diffs", "diff", "12", kind="OUTPUT")[0].message
    assert late == "late: runs/11 arrived or changed after it was read"

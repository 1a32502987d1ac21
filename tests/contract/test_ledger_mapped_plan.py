"""The plan of a job with mapped inputs, and the warnings of its definitions."""

from __future__ import annotations

import pytest

from headgate import Gate
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
MONTH = {"kind": "period", "period": "month", "unit": "day"}


def months(gate: Gate, **more: object) -> Ledger:
    for name in ("days", "months"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": MONTH | more})
    return gate.ledger


def days(month: str, count: int) -> list[str]:
    return [f"{month}-{day:02}" for day in range(1, count + 1)]


def test_data_ids_that_lack_little_come_first(gate: Gate) -> None:
    ledger = months(gate)
    for month, count in (("2026-01", 3), ("2026-02", 27), ("2026-03", 20), ("2026-04", 30)):
        ledger.publish("days", days(month, count))
    plan = ledger.plan("monthly")
    assert [each.dataid for each in plan.next] == ["2026-04"]
    assert [each.dataid for each in plan.blocked] == ["2026-02", "2026-03", "2026-01"]
    assert [each.text for each in plan.blocked[0].blockers] == [
        "input days: 27 of 28 days are READY; missing 2026-02-28"
    ]
    assert [each.dataid for each in ledger.plan("monthly", 1).blocked] == ["2026-02"]
    assert ledger.left("monthly") == 1


def test_the_plan_follows_arrivals_and_resubmissions(gate: Gate) -> None:
    ledger = months(gate, need="any")
    ledger.publish("days", days("2026-01", 3))
    assert [each.dataid for each in ledger.plan("monthly").next] == ["2026-01"]
    claim = ledger.find_next("monthly")
    assert claim
    ledger.success(claim)
    assert ledger.plan("monthly").next == ledger.plan("monthly").blocked == ()
    ledger.resubmit("monthly", "2026-01", reason=WHY)
    assert [each.first for each in ledger.plan("monthly").next] == [True]


def test_a_definition_is_kept_as_it_was_given(gate: Gate) -> None:
    ledger = months(gate, need=20, on_late="redo", late_delay=5)
    (job,) = ledger.jobs()
    assert job.to_document()["maps"] == {
        "days": {
            **MONTH, "format": "%Y-%m-%d", "job_format": "%Y-%m", "need": 20, "on_late": "redo", "late_delay": 5.0,
        }
    }  # fmt: skip
    assert ledger.job("monthly")[0] == job
    again = job.to_document()["maps"]
    assert ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps=again).changes == ()
    (line,) = ledger.define_job("monthly", inputs=["days"], outputs=["months"]).changes
    assert "every day of the month, at least 20, redone 5 s after a late input → nothing" in line
    assert not ledger.job("monthly")[0].mapped


def test_a_mapping_that_no_data_id_fits_is_warned_of(gate: Gate) -> None:
    ledger = months(gate)
    ledger.publish("days", ["2026-10-01"])
    month = {**MONTH, "format": "%Y%m%d"}
    (line,) = ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": month}).warnings
    assert "days has no such data ids; it has, for example, 2026-10-01" in line

"""Recurring jobs without outputs: when a chunk is due, what is counted, and what find_next offers."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from headgate import BadValue, ClaimRefused, Gate
from headgate.service.ledger.use_cases import Ledger
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from tests.contract.ledger_steps import WHY, claimed, database, next_id, told
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
DAY = 86_400
AGE = Statement("Time passes.", "update hg_chunk set since = since - :ago where job_id > 0")
AGE_LIST = Statement("Time passes, in the list too.", "update hg_recurrence set done = done - :ago")


def audits(gate: Gate, **more: Any) -> Ledger:
    """Objects are audited every ninety days."""
    ledger = gate.ledger
    ledger.define_dataset("objects")
    ledger.define_job("audit", inputs=["objects"], **{"recur": 90 * DAY, "max_attempts": 1, **more})
    return ledger


def pass_days(gate: Gate, days: float) -> None:
    """Chunks were done this many days earlier."""
    for statement in (AGE, AGE_LIST):
        database(gate).write(partial(_age, statement=statement, days=days))


def _age(tx: Transaction, statement: Statement, days: float) -> None:
    tx.run(statement, ago=round(days * DAY * 1_000_000))


def test_a_chunk_that_is_done_is_due_again_when_that_time_has_passed(gate: Gate) -> None:
    ledger = audits(gate)
    ledger.publish("objects", ["1", "2"])
    for dataid in "12":
        claim = claimed(ledger, "audit")
        assert claim.dataid == dataid
        ledger.success(claim)
    assert next_id(ledger, "audit") is None
    with pytest.raises(ClaimRefused, match=r"done again every 90 d \(recur\), and due in 90 d"):
        ledger.claim("audit", "1")
    pass_days(gate, 89)
    assert (next_id(ledger, "audit"), ledger.left("audit")) == (None, 0)
    pass_days(gate, 1.5)
    verdict = ledger.explain("audit", "1")
    assert verdict.granted
    assert any("it is done again every 90 d (recur): now" in each.text for each in verdict.conditions)
    assert [each.dataid for each in ledger.plan("audit").next] == ["1", "2"]
    assert ledger.left("audit") == 2
    again = claimed(ledger, "audit")
    assert (again.dataid, again.attempt) == ("1", 2)
    ledger.success(again)
    assert ledger.claim("audit", "2").attempt == 2
    assert next_id(ledger, "audit") is None
    assert told(gate, "audit", "1")[-2:] == [("claim", "DONE", "RUNNING"), ("success", "RUNNING", "DONE")]


def test_a_smaller_data_id_that_was_never_done_comes_first_and_resubmitted_ones_before_all(gate: Gate) -> None:
    ledger = audits(gate)
    ledger.publish("objects", ["2", "3"])
    for _ in range(2):
        ledger.success(claimed(ledger, "audit"))
    ledger.publish("objects", "1")
    pass_days(gate, 91)
    ledger.resubmit("audit", "3", reason=WHY)
    # Without an output a resubmission removes the row, so nothing gives it precedence.
    assert [claimed(ledger, "audit").dataid for _ in range(3)] == ["1", "2", "3"]


def test_failures_of_the_last_time_do_not_count_and_a_new_one_is_an_incident(gate: Gate) -> None:
    ledger = audits(gate, max_attempts=2)
    ledger.publish("objects", "1")
    ledger.fail(claimed(ledger, "audit"), "the disk is busy")
    ledger.success(claimed(ledger, "audit"))
    pass_days(gate, 91)
    ledger.fail(claimed(ledger, "audit"), "moby.txt: checksum mismatch")
    ledger.fail(claimed(ledger, "audit"), "moby.txt: checksum mismatch")
    pass_days(gate, 91)
    assert next_id(ledger, "audit") is None, "it stays failed until somebody resubmits it"
    (incident,) = gate.incidents.list()
    assert (incident.job, incident.subject, incident.message) == ("audit", "1", "moby.txt: checksum mismatch")


def test_a_change_of_the_time_applies_to_what_is_done_already(gate: Gate) -> None:
    ledger = audits(gate, recur=0)
    ledger.publish("objects", "1")
    ledger.success(claimed(ledger, "audit"))
    pass_days(gate, 10)
    assert next_id(ledger, "audit") is None, "without recur DONE is DONE"
    audits(gate, recur="30d")
    assert next_id(ledger, "audit") is None
    audits(gate, recur="7d")
    assert claimed(ledger, "audit").dataid == "1"


def test_a_chunk_that_is_gone_is_not_done_again_until_it_comes_back(gate: Gate) -> None:
    ledger = audits(gate)
    ledger.publish("objects", ["1", "2"])
    for _ in range(2):
        ledger.success(claimed(ledger, "audit"))
    ledger.set_status("objects", "1", "external", "OUTPUT", "ERROR", reason=WHY)
    pass_days(gate, 91)
    assert claimed(ledger, "audit").dataid == "2"
    assert next_id(ledger, "audit") is None
    ledger.publish("objects", "1")
    assert claimed(ledger, "audit").dataid == "1"


def test_a_hold_an_interruption_and_an_expired_lease_mean_what_they_always_do(gate: Gate) -> None:
    ledger = audits(gate)
    ledger.publish("objects", ["1", "2"])
    for _ in range(2):
        ledger.success(claimed(ledger, "audit"))
    ledger.hold("audit", "1", reason=WHY)
    pass_days(gate, 91)
    claim = claimed(ledger, "audit")
    assert (claim.dataid, next_id(ledger, "audit")) == ("2", None)
    ledger.interrupt(claim, "interrupted by SIGTERM")
    assert claimed(ledger, "audit").dataid == "2"
    ledger.unhold("audit", "1")
    assert next_id(ledger, "audit") is None, "its status was written just now"
    pass_days(gate, 91)
    assert claimed(ledger, "audit").dataid == "1"


def test_mapped_inputs_are_done_again_too(gate: Gate) -> None:
    versions = {"kind": "split", "format": "{object}.v{version}", "job_format": "{object}", "need": "any"}
    ledger = audits(gate, maps={"objects": versions})
    ledger.publish("objects", ["a.v1", "a.v2", "b.v1"])
    first = claimed(ledger, "audit")
    assert (first.dataid, first.inputs["objects"].dataids) == ("a", ("a.v1", "a.v2"))
    ledger.success(first)
    ledger.success(claimed(ledger, "audit"))
    ledger.publish("objects", "a.v3")
    assert next_id(ledger, "audit") is None, "it is noted that it came late"
    pass_days(gate, 91)
    again = claimed(ledger, "audit")
    assert (again.dataid, again.inputs["objects"].dataids) == ("a", ("a.v1", "a.v2", "a.v3"))


def test_the_job_without_outputs_alone_may_recur(gate: Gate) -> None:
    ledger = audits(gate)
    ledger.define_dataset("made")
    with pytest.raises(BadValue, match="without outputs"):
        ledger.define_job("bad", inputs=["objects"], outputs=["made"], recur=1)
    for wrong in (-1, "soon", True, float("nan")):
        with pytest.raises(BadValue, match="recur"):
            ledger.define_job("bad", inputs=["objects"], recur=wrong)
    (job,) = ledger.jobs()
    assert timedelta(seconds=job.recur) == timedelta(days=90)

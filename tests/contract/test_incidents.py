"""Incidents: what opens and closes them, in the same transaction, and what operators do about them."""

import pytest

from headgate import BadValue, Gate, UnknownName
from headgate.core.incidents import Incident
from tests.contract.ledger_steps import WHY, claimed, clear, expire, hurry, one_job
from tests.contract.over_http import LEDGER_STORES
from tests.waiting import until

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)

HOUR = 3600.0


def only(gate: Gate) -> Incident:
    (found,) = gate.incidents.list(closed=True)
    return found


def failed_for_good(gate: Gate, dataid: str = "1") -> Incident:
    ledger = one_job(gate, max_attempts=1)
    ledger.publish("raw", [dataid])
    ledger.fail(claimed(ledger, "clean"), "disk full")
    return only(gate)


def test_a_failure_that_may_be_retried_opens_nothing_and_the_last_one_does(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=2)
    ledger.publish("raw", ["1"])
    ledger.fail(claimed(ledger, "clean"), "no space")
    assert gate.incidents.list(closed=True) == []
    ledger.fail(claimed(ledger, "clean"), "disk full")
    found = only(gate)
    assert (found.kind, found.job, found.subject, found.message) == ("failed", "clean", "1", "disk full")
    assert (found.state, found.count, found.closed) == ("open", 1, None)
    assert found.sentence == "clean 1 failed for good: disk full"
    assert gate.incidents.count().count == {"failed": 1}
    assert gate.incidents.count().oldest == found.since


def test_success_closes_the_incident(gate: Gate) -> None:
    failed_for_good(gate)
    gate.ledger.resubmit("clean", "1", reason=WHY)
    assert only(gate).state == "open", "an operator's resubmit has repaired nothing yet"
    gate.ledger.success(claimed(gate.ledger, "clean"))
    found = only(gate)
    assert (found.state, found.closed_by) == ("closed", "success")
    assert found.closed is not None
    assert gate.incidents.list() == []
    assert gate.incidents.count().count == {}


def test_success_of_a_chunk_that_was_never_claimed_before_closes_it_too(gate: Gate) -> None:
    """The claim and the report take the fast path when nothing is wrong with a chunk."""
    failed_for_good(gate)
    clear(gate)
    gate.ledger.publish("raw", ["1"])
    gate.ledger.success(claimed(gate.ledger, "clean"))
    assert only(gate).closed_by == "success"


def test_the_same_incident_happens_again_until_it_closes(gate: Gate) -> None:
    first = failed_for_good(gate)
    gate.incidents.acknowledge(first.id, by="ann")
    gate.ledger.resubmit("clean", "1", reason=WHY)
    gate.ledger.fail(claimed(gate.ledger, "clean"), "still full")
    again = only(gate)
    assert (again.id, again.count, again.message, again.state) == (first.id, 2, "still full", "open")
    assert again.since == first.since
    gate.ledger.resubmit("clean", "1", reason=WHY)
    gate.ledger.success(claimed(gate.ledger, "clean"))
    gate.ledger.resubmit("clean", "1", reason=WHY)
    gate.ledger.fail(claimed(gate.ledger, "clean"), "full again")
    assert [each.state for each in gate.incidents.list(closed=True)] == ["open", "closed"], "another one"


def test_a_chunk_that_is_held_by_the_policy_opens_one(gate: Gate) -> None:
    ledger = one_job(gate, on_failure="hold", max_attempts=0)
    ledger.publish("raw", ["1"])
    ledger.fail(claimed(ledger, "clean"), "bad input")
    assert (only(gate).kind, only(gate).message) == ("failed", "bad input")
    ledger.forget("clean", "1", reason=WHY)
    assert only(gate).closed_by == "forget"


@pytest.mark.parametrize("by", ["reap", "find_next"])
def test_workers_that_keep_crashing_open_an_incident(gate: Gate, by: str) -> None:
    ledger = one_job(gate, max_crashes=2, max_attempts=0)
    ledger.publish("raw", ["1"])
    for _ in range(2):
        assert gate.incidents.list() == []
        assert ledger.find_next("clean", worker="node7", lease=HOUR)
        expire(gate, "1")
        if by == "reap":
            ledger.reap()
        hurry(gate)
    if by == "find_next":
        assert ledger.find_next("clean", worker="node8") is None
    assert (only(gate).kind, "node7 died" in only(gate).message) == ("crashes", True)


def test_each_of_many_simultaneous_crashes_opens_one_incident(gate: Gate) -> None:
    ledger = one_job(gate, max_crashes=1)
    ledger.publish("raw", ["1", "2", "3"])
    for dataid in ("1", "2", "3"):
        ledger.claim("clean", dataid)
        expire(gate, dataid)
    ledger.reap()
    assert sorted(each.subject for each in gate.incidents.list(kind="crashes")) == ["1", "2", "3"]
    ledger.change_selected("clean", "forget", reason=WHY, dataids=["*"])
    assert gate.incidents.list() == []


def test_a_chunk_that_never_finishes_opens_an_incident(gate: Gate) -> None:
    ledger = one_job(gate, max_interruptions=1)
    ledger.publish("raw", ["1"])
    ledger.interrupt(claimed(ledger, "clean"), "SIGTERM")
    assert (only(gate).kind, "SIGTERM" in only(gate).message) == ("interruptions", True)
    ledger.set_status("tidy", "1", "clean", "OUTPUT", "READY", reason=WHY)
    assert only(gate).closed_by == "set_status"


def test_a_job_that_makes_nothing_has_incidents_too(gate: Gate) -> None:
    ledger = gate.ledger
    ledger.define_dataset("raw")
    ledger.define_job("mail", inputs=["raw"], max_attempts=1)
    ledger.publish("raw", ["1"])
    ledger.fail(claimed(ledger, "mail"), "bounced")
    ledger.resubmit("mail", "1", reason=WHY)
    ledger.success(claimed(ledger, "mail"))
    assert (only(gate).job, only(gate).closed_by) == ("mail", "success")


def test_incidents_are_acknowledged_and_snoozed(gate: Gate) -> None:
    found = failed_for_good(gate)
    assert gate.incidents.snooze(found.id, HOUR).state == "snoozed"
    gate.incidents.snooze(found.id, 0.001)
    until(lambda: only(gate).state == "open", "the end of the snooze")
    known = gate.incidents.acknowledge(found.id, by="ann")
    assert known.state == "acknowledged"
    assert known.acknowledged_by
    assert gate.incidents.get(found.id) == known
    for wrong in (0, -1, True):
        with pytest.raises(BadValue):
            gate.incidents.get(wrong)
    with pytest.raises(UnknownName, match="incident"):
        gate.incidents.acknowledge(found.id + 1)


def test_incidents_are_listed_newest_first_in_pages(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=1)
    ledger.publish("raw", ["1", "2", "3"])
    for _ in range(3):
        ledger.fail(claimed(ledger, "clean"), "no")
    assert [each.subject for each in gate.incidents.list()] == ["3", "2", "1"]
    page = gate.incidents.list(limit=2)
    assert [each.subject for each in gate.incidents.list(after=page[-1].id)] == ["1"]
    assert gate.incidents.list(job="report") == []
    assert len(gate.incidents.list(job="clean", kind="failed")) == 3

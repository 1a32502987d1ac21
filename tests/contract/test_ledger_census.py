"""Overviews of many chunks: counts by status, complete or in part."""

import pytest

from headgate import BadValue, Gate, UnknownName
from headgate.core.ledger.census import Span
from headgate.core.ledger.model import Row, failure_cursor
from headgate.service.ledger import census
from tests.contract.ledger_steps import WHY, claimed, expire, one_job
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)


def counts(gate: Gate, most: int = 100) -> dict[tuple[str, str, str], tuple[int, bool]]:
    found = census.tallies(gate.ledger, most)
    return {(each.dataset, each.job, each.status): (each.count, each.more) for each in found}


def test_small_numbers_are_counted_fully(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(1, 6)])
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "clean"), "no")
    ledger.hold("clean", "5", reason=WHY)
    assert counts(gate) == {
        ("raw", "external", "READY"): (5, False),
        ("tidy", "clean", "READY"): (1, False),
        ("tidy", "clean", "ERROR"): (1, False),
        ("tidy", "clean", "HOLD"): (1, False),
    }


def test_large_numbers_are_counted_up_to_a_limit_but_failures_and_claims_fully(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(10, 30)])
    for _ in range(6):
        ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "clean"), "no")
    ledger.hold("clean", "29", reason=WHY)
    claimed(ledger, "clean")
    found = counts(gate, 4)
    assert found["raw", "external", "READY"] == (5, True)
    assert found["tidy", "clean", "READY"][1], "there are more than were read"
    rare = {status: found["tidy", "clean", status] for status in ("HOLD", "RUNNING")}
    assert rare == {"HOLD": (1, False), "RUNNING": (1, False)}


def test_a_job_that_makes_nothing_is_counted_by_what_it_has_read(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.define_job("tell", inputs=["raw"])
    ledger.publish("raw", ["1", "2"])
    ledger.success(claimed(ledger, "tell"))
    assert counts(gate)["raw", "tell", "DONE"] == (1, False)


def test_spans_follow_the_order_of_the_dataset_and_include_other_datasets(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(8, 13)])
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "clean"), "no")
    assert census.spans(ledger, "raw", ["tidy"], size=2) == [
        Span("8", "9", {"raw": {"READY": 2}, "tidy": {"ERROR": 1, "READY": 1}}),
        Span("10", "11", {"raw": {"READY": 2}, "tidy": {}}),
        Span("12", "12", {"raw": {"READY": 1}, "tidy": {}}),
    ]
    part = census.spans(ledger, "raw", ["tidy"], start="9", last="10")
    assert [(span.first, dict(span.cells)) for span in part] == [
        ("9", {"raw": {"READY": 1}, "tidy": {"ERROR": 1}}),
        ("10", {"raw": {"READY": 1}}),
    ]
    assert [span.first for span in census.spans(ledger, "raw", size=2, limit=1)] == ["8"]


def test_invalid_requests_for_spans_are_refused(gate: Gate) -> None:
    ledger = one_job(gate)
    assert census.spans(ledger, "raw") == []
    with pytest.raises(UnknownName):
        census.spans(ledger, "nothing")
    with pytest.raises(BadValue, match="more than"):
        census.spans(ledger, "raw", size=1000, limit=1000)
    with pytest.raises(BadValue, match="size"):
        census.spans(ledger, "raw", size=0)


def test_failures_are_paged_from_the_newest_on_also_where_many_failed_at_once(gate: Gate) -> None:
    ledger = one_job(gate)
    for sink in ("mail", "print"):  # Neither has outputs: their rows are those of their inputs.
        ledger.define_job(sink, inputs=["raw"])
    ledger.publish("raw", ["2", "10", "9"])
    for job in ("clean", "mail", "print"):
        for dataid in ("2", "10"):
            ledger.claim(job, dataid, lease=60)
    for dataid in ("2", "10"):
        expire(gate, dataid)
    ledger.reap()
    ledger.fail(ledger.claim("clean", "9"), "the newest")
    whole = ledger.failures()
    assert (len(whole), whole[0].message) == (7, "the newest")
    for limit in (1, 2, 3):
        found: list[Row] = []
        while page := ledger.failures(limit, failure_cursor(found[-1]) if found else None):
            assert len(page) <= limit
            found += page
        assert [(row.job, row.dataid) for row in found] == [(row.job, row.dataid) for row in whole]
    with pytest.raises(BadValue, match="after"):
        ledger.failures(1, "yesterday")

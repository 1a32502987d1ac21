"""Jobs with mapped inputs: the read set of a claim, its requirements, and what it blocks meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import ClaimRefused, Gate, LockRefused
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY, claimed, expire, next_id, status_of, told
from tests.contract.over_http import LEDGER_STORES, behind
from tests.contract.steps import Gates

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
DAYS = [f"2026-02-{day:02}" for day in range(1, 29)]
BY_MONTH = {"kind": "period", "period": "month", "unit": "day"}
BY_YEAR = {"kind": "period", "period": "year", "unit": "month", "need": "any"}


def monthly(gate: Gate, **mapping: Any) -> Ledger:
    """Days are cleaned one by one, and a month is made from its days."""
    ledger = gate.ledger
    for name in ("raw", "days", "months", "years"):
        ledger.define_dataset(name, uri=f"file:///{name}")
    ledger.define_job("clean", inputs=["raw"], outputs=["days"])
    ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": BY_MONTH | mapping})
    ledger.define_job("yearly", inputs=["months"], outputs=["years"], maps={"months": BY_YEAR})
    return ledger


def clean(ledger: Ledger, *dataids: str) -> None:
    """These days are made."""
    ledger.publish("raw", list(dataids))
    for dataid in dataids:
        ledger.success(ledger.claim("clean", dataid))


def test_a_month_is_claimed_when_all_of_its_days_are_ready(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS[1:])
    assert next_id(ledger, "monthly") is None
    verdict = ledger.explain("monthly", "2026-02")
    assert "27 of 28" in verdict.sentence()
    assert "2026-02-01" in verdict.sentence()
    clean(ledger, DAYS[0])
    claim = claimed(ledger, "monthly")
    assert (claim.dataid, claim.inputs["days"].dataids) == ("2026-02", tuple(DAYS))
    ledger.success(claim)
    assert status_of(ledger, "months", "2026-02", "monthly") == "READY"
    assert next_id(ledger, "monthly") is None
    assert told(gate, "monthly", "2026-02") == [("claim", "absent", "RUNNING"), ("success", "RUNNING", "READY")]


def test_days_that_were_there_before_the_job_are_found(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("days", "months"):
        ledger.define_dataset(name)
    ledger.publish("days", DAYS)
    ledger.define_job("monthly", inputs=["days"], outputs=["months"])
    assert next_id(ledger, "monthly") == DAYS[0]
    ledger.interrupt(ledger.force("monthly", DAYS[0], reason=WHY, steal=True))
    ledger.forget("monthly", DAYS[0], reason=WHY)
    ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": BY_MONTH})
    assert [next_id(ledger, "monthly") for _ in range(2)] == ["2026-02", None]


def test_the_same_request_gets_the_same_claim_with_the_same_read_set(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    first = ledger.find_next("monthly", request_id="one")
    assert first
    again = ledger.find_next("monthly", request_id="one")
    assert again
    assert (again.token, again.inputs["days"].dataids) == (first.token, first.inputs["days"].dataids)


def test_upstream_data_ids_of_a_claim_are_locked_shared(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    claim = claimed(ledger, "monthly")
    held = {lock.resource: str(lock.mode) for lock in gate.locks.list()}
    assert held == {f"data:days/{day}": "shared" for day in DAYS} | {"data:months/2026-02": "exclusive"}
    with pytest.raises(LockRefused):
        gate.locks.acquire("ann", "data:days/2026-02-03", "exclusive")
    gate.locks.release(gate.locks.acquire("ann", "data:days/2026-02-03", "shared"))
    gate.locks.release(gate.locks.acquire("ann", "data:days/2026-02", "exclusive"))
    ledger.success(claim)
    assert gate.locks.list() == []
    gate.locks.acquire("ann", "data:days/2026-02-03", "exclusive")


def test_a_month_waits_for_an_exclusive_lock_on_one_of_its_days(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    lock = gate.locks.acquire("ann", "data:days/2026-02-03", "exclusive")
    assert next_id(ledger, "monthly") is None
    with pytest.raises(ClaimRefused, match="ann holds data:days/2026-02-03"):
        ledger.claim("monthly", "2026-02")
    gate.locks.release(lock)
    assert next_id(ledger, "monthly") == "2026-02"


def test_a_day_is_not_made_again_while_its_month_is_made(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    claim = claimed(ledger, "monthly")
    ledger.resubmit("clean", DAYS[4], reason=WHY)
    assert next_id(ledger, "clean") is None
    with pytest.raises(ClaimRefused, match="monthly"):
        ledger.claim("clean", DAYS[4])
    ledger.fail(claim, "no")
    assert next_id(ledger, "monthly") is None, "one of its days is not READY"
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "monthly") == "2026-02"


def test_a_day_that_was_forgotten_is_not_claimed_for_the_first_time_while_it_is_read(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    claim = claimed(ledger, "monthly")
    ledger.forget("clean", DAYS[4], reason=WHY)
    assert next_id(ledger, "clean") is None
    ledger.fail(claim, "no")
    assert next_id(ledger, "clean") == DAYS[4]


def test_a_new_ready_of_any_day_starts_the_counts_again(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    for _ in range(3):
        ledger.fail(claimed(ledger, "monthly"), "no")
    assert next_id(ledger, "monthly") is None
    ledger.resubmit("clean", DAYS[4], reason=WHY)
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "monthly") == "2026-02"


def test_a_worker_that_died_is_reaped_and_interruptions_and_failures_are_made_again(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    claimed(ledger, "monthly")
    expire(gate, "2026-02")
    assert ledger.reap() == 1
    assert status_of(ledger, "months", "2026-02", "monthly") == "ERROR"
    assert gate.locks.list() == []
    ledger.interrupt(claimed(ledger, "monthly"))
    again = claimed(ledger, "monthly")
    assert (again.dataid, again.inputs["days"].dataids) == ("2026-02", tuple(DAYS))
    ledger.heartbeat(again)
    ledger.fail(again, "no")
    ledger.hold("monthly", "2026-02", reason=WHY)
    assert next_id(ledger, "monthly") is None
    ledger.unhold("monthly", "2026-02")
    assert next_id(ledger, "monthly") == "2026-02"
    ledger.forget("monthly", "2026-02", reason=WHY, steal=True)
    assert gate.locks.list() == []
    assert next_id(ledger, "monthly") == "2026-02"


def test_resubmitting_a_day_downstream_reaches_its_month_and_its_year(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    ledger.success(claimed(ledger, "monthly"))
    ledger.success(claimed(ledger, "yearly"))
    preview = ledger.resubmit("clean", DAYS[4], reason=WHY, downstream=True, dry_run=True)
    outputs = [("clean", DAYS[4]), ("monthly", "2026-02"), ("yearly", "2026")]
    assert [(each.job, each.dataid) for each in preview if str(each.kind) == "OUTPUT"] == outputs
    assert status_of(ledger, "months", "2026-02", "monthly") == "READY"
    ledger.resubmit("clean", DAYS[4], reason=WHY, downstream=True)
    assert status_of(ledger, "years", "2026", "yearly") == "RESUBMIT"
    assert (next_id(ledger, "monthly"), next_id(ledger, "yearly")) == (None, None)
    ledger.success(claimed(ledger, "clean"))
    ledger.success(claimed(ledger, "monthly"))
    assert next_id(ledger, "yearly") == "2026"


def test_reference_data_is_waited_for_and_read_by_every_chunk(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("raw", "lists", "codes", "tidy"):
        ledger.define_dataset(name)
    maps: dict[str, dict[str, Any]] = {"lists": {"kind": "all"}, "codes": {"kind": "list", "ids": ["iso", "un"]}}
    ledger.define_job("join", inputs=["raw", "lists", "codes"], outputs=["tidy"], maps=maps)
    ledger.publish("raw", ["1", "2"])
    ledger.publish("codes", ["iso", "other"])
    assert next_id(ledger, "join") is None
    ledger.publish("lists", ["b", "a"])
    assert next_id(ledger, "join") is None
    ledger.publish("codes", "un")
    claim = claimed(ledger, "join")
    assert claim.dataid == "1"
    assert (claim.inputs["lists"].dataids, claim.inputs["codes"].dataids) == (("a", "b"), ("iso", "un"))
    assert claim.inputs["raw"].dataids is None
    assert next_id(ledger, "join") == "2"


def test_new_reference_data_starts_the_counts_of_failed_chunks_again(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("raw", "lists", "tidy"):
        ledger.define_dataset(name)
    maps = {"lists": {"kind": "all"}}
    ledger.define_job("join", inputs=["raw", "lists"], outputs=["tidy"], max_attempts=1, maps=maps)
    ledger.publish("lists", "a")
    ledger.publish("raw", ["1", "2"])
    ledger.success(claimed(ledger, "join"))
    ledger.fail(claimed(ledger, "join"), "the list is too short")
    assert next_id(ledger, "join") is None
    ledger.publish("lists", "b")
    claim = claimed(ledger, "join")
    assert (claim.dataid, claim.inputs["lists"].dataids) == ("2", ("a", "b"))
    assert status_of(ledger, "tidy", "1", "join") == "READY"


def test_the_plan_knows_of_everything_that_arrived(gate: Gate) -> None:
    ledger = monthly(gate)
    ledger.publish("raw", DAYS)
    clean(ledger, *DAYS[1:])
    assert [each.dataid for each in ledger.plan("monthly").blocked] == ["2026-02"]
    assert ledger.left("monthly") == 0
    clean(ledger, DAYS[0])
    assert ledger.left("monthly") == 1
    assert [each.dataid for each in ledger.plan("monthly").next] == ["2026-02"]


def test_a_job_of_reference_data_alone_is_claimed_with_a_data_id(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("lists", "books"):
        ledger.define_dataset(name)
    ledger.define_job("bind", inputs=["lists"], outputs=["books"], maps={"lists": {"kind": "all"}})
    ledger.publish("lists", ["a", "b"])
    assert next_id(ledger, "bind") is None
    claim = ledger.claim("bind", "autumn")
    assert claim.inputs["lists"].dataids == ("a", "b")
    ledger.fail(claim, "no paper")
    assert next_id(ledger, "bind") == "autumn"


def test_several_inputs_create_the_data_ids_that_all_of_them_create(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("days", "plans", "months"):
        ledger.define_dataset(name)
    ledger.define_job("monthly", inputs=["days", "plans"], outputs=["months"], maps={"days": BY_MONTH})
    ledger.publish("plans", ["2026-01", "2026-02"])
    ledger.publish("days", DAYS)
    claim = claimed(ledger, "monthly")
    assert (claim.dataid, claim.inputs["days"].dataids) == ("2026-02", tuple(DAYS))
    assert next_id(ledger, "monthly") is None


def test_two_workers_get_two_months(gates: Gates) -> None:
    one, two = gates.open(), gates.open()
    ledger = monthly(one)
    clean(ledger, *DAYS)
    ledger.publish("raw", [f"2026-04-{day:02}" for day in range(1, 31)])
    while claim := ledger.find_next("clean"):
        ledger.success(claim)
    assert [next_id(one.ledger, "monthly"), next_id(two.ledger, "monthly")] == ["2026-02", "2026-04"]
    assert next_id(two.ledger, "monthly") is None


def test_arrivals_that_wait_are_no_damage(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    ledger.success(claimed(ledger, "monthly"))
    ledger.resubmit("clean", DAYS[4], reason=WHY, downstream=True)
    assert next_id(ledger, "monthly") is None
    ledger.success(claimed(ledger, "clean"))
    assert behind(gate).faults() == []
    assert next_id(ledger, "monthly") == "2026-02"
    assert behind(gate).faults() == []

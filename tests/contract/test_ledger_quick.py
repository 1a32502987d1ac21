"""The fast path of a claim and of a report writes exactly what the slow path writes, or nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headgate import Claim, ClaimLost, ClaimRefused, Gate
from headgate.core.ledger.model import Row
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY, claimed, database, everything, expire, next_id, one_job, told
from tests.contract.over_http import LEDGER_STORES
from tests.contract.steps import Gates

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)


def carefully(gate: Gate) -> Ledger:
    """The ledger of a gate without the fast path."""
    dialect: Any = database(gate).dialect
    dialect.claim_next = lambda *_: None
    dialect.succeed = lambda *_: None
    return gate.ledger


def left(gate: Gate, dataid: str) -> tuple[Any, ...]:
    """Everything stored about one data id, without the values that differ from one to the next."""
    rows, entries, candidates = everything(gate)
    plain = [replace(row, dataid="", token=0, since=None, started=None) for row in rows if row.dataid == dataid]
    here = (each for each in entries if each.resource.endswith(f"/{dataid}"))
    happened = [(each.event, each.job, each.client, each.before, each.after, each.reason) for each in here]
    return sorted(plain, key=Row.sentence), happened, [row[:1] + row[2:] for row in candidates if row[1] == dataid]


def test_both_paths_write_the_same(gates: Gates) -> None:
    quick, careful = gates.open(), gates.open()
    ledger, other = one_job(quick), carefully(careful)
    ledger.define_job("both", inputs=["raw", "tidy"], outputs=[])
    ledger.publish("raw", ["1", "2"])
    one, two = ledger.find_next("clean", worker="ann"), other.find_next("clean", worker="ann")
    assert one
    assert two
    assert (one.dataid, two.dataid) == ("1", "2")
    assert left(quick, "1") == left(quick, "2")
    alike: dict[str, Any] = {"dataid": "", "token": 0, "inputs": {}, "outputs": {}}
    assert replace(one, **alike) == replace(two, **alike)
    assert [replace(port, dataid="") for port in one.inputs.values()] == [
        replace(port, dataid="") for port in two.inputs.values()
    ]
    assert two.token > one.token
    ledger.success(one)
    other.success(two)
    assert left(quick, "1") == left(quick, "2")
    assert [next_id(ledger, "report"), next_id(ledger, "both")] == ["1", "1"]


@pytest.mark.parametrize(
    "near",
    [
        lambda gate: gate.locks.acquire("ann", "data:tidy/1", "shared"),
        lambda gate: gate.ledger.set_status("tidy", "1", "clean", "OUTPUT", "HOLD", reason=WHY),
        lambda gate: gate.ledger.set_status("raw", "1", "clean", "INPUT", "ODD", reason=WHY),
        lambda gate: gate.ledger.hold("clean", "1", reason=WHY),
        lambda gate: gate.ledger.pause("clean", reason=WHY),
        lambda gate: gate.ledger.set_status("raw", "1", "external", "OUTPUT", "PENDING", reason=WHY),
    ],
)
def test_the_fast_path_leaves_special_chunks_to_the_slow_path(gate: Gate, near: Callable[[Gate], object]) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    near(gate)
    before = everything(gate)[:2]
    assert next_id(ledger, "clean") is None
    assert everything(gate)[:2] == before


def test_resubmitted_chunks_are_claimed_before_all_others(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2", "3", "4"])
    first = claimed(ledger, "clean")
    second = claimed(ledger, "clean")
    ledger.success(second)
    ledger.resubmit("clean", "2", reason=WHY)
    expire(gate, "1")
    assert [next_id(ledger, "clean") for _ in range(4)] == ["2", "1", "3", "4"]
    with pytest.raises(ClaimLost):
        ledger.success(first)


def test_a_chunk_that_comes_late_is_found_below_all_that_were_claimed(gates: Gates) -> None:
    """Whatever starting point find_next uses: a chunk that becomes claimable before it is next."""
    gate = gates.open()
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(1000, 1010)])
    held: dict[str, Claim] = {}
    for _ in range(5):
        claim = claimed(ledger, "clean")
        held[claim.dataid] = claim
        database(gate).dialect.raise_mark(database(gate), "clean")
    ledger.publish("raw", "7")
    assert next_id(gates.open().ledger, "clean") == "7"
    ledger.success(held["1000"])
    ledger.fail(held["1001"], "once more")
    assert next_id(ledger, "clean") == "1001"
    database(gate).dialect.raise_mark(database(gate), "clean")
    ledger.forget("clean", "1000", reason=WHY)
    assert [next_id(ledger, "clean") for _ in range(2)] == ["1000", "1005"]


def test_a_report_on_a_claim_that_is_only_partly_there_changes_nothing(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = claimed(ledger, "clean")
    ledger.set_status("tidy", "1", "clean", "OUTPUT", "ERROR", reason=WHY)
    before = everything(gate)
    with pytest.raises(ClaimLost):
        ledger.success(claim)
    assert everything(gate) == before


def test_a_job_that_makes_something_else_now_is_not_claimed_as_it_was(gates: Gates) -> None:
    ledger, worker = one_job(gates.open()), gates.open().ledger
    ledger.publish("raw", ["1", "2"])
    worker.success(claimed(worker, "clean"))
    ledger.define_dataset("more")
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy", "more"])
    claim = claimed(worker, "clean")
    assert list(claim.outputs) == ["tidy", "more"]
    worker.success(claim)
    assert [row.status for row in ledger.status(job="clean", dataid="2", kind="OUTPUT")] == ["READY", "READY"]


def test_many_are_resubmitted_with_all_that_was_made_from_them(gate: Gate) -> None:
    """Some were not processed further, one is held, one failed: each is treated separately."""
    ledger = one_job(gate)
    ids = [str(number) for number in range(1, 8)]
    ledger.publish("raw", ids)
    for _ in ids:
        ledger.success(claimed(ledger, "clean"))
    for _ in ids[:5]:
        claim = claimed(ledger, "report")
        ledger.fail(claim, "no space") if claim.dataid == "4" else ledger.success(claim)
        if claim.dataid == "4":
            ledger.hold("report", "4", reason="wait")
    ledger.hold("report", "2", reason="wrong")
    preview = ledger.resubmit("clean", ids, reason=WHY, downstream=True, dry_run=True)
    assert list(ledger.resubmit("clean", ids, reason=WHY, downstream=True)) == list(preview)
    after = {(each.job, each.dataid, each.kind.value): each.after for each in preview}
    assert {after["clean", dataid, "OUTPUT"] for dataid in ids} == {"RESUBMIT"}
    assert {dataid: after.get(("report", dataid, "OUTPUT"), "none") for dataid in ids} == {
        "1": "RESUBMIT", "2": "HOLD", "3": "RESUBMIT", "4": "HOLD", "5": "RESUBMIT", "6": "none", "7": "none",
    }  # fmt: skip
    assert told(gate, "report", "2")[-1] == ("resubmit", "HOLD", "HOLD")
    assert told(gate, "report", "3")[-1] == ("resubmit", "READY", "RESUBMIT")
    assert next_id(ledger, "report") is None, "its input is to be made again"
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "report") == "1"
    ledger.unhold("report", "2", reason=WHY)
    assert ledger.explain("report", "2").granted is False
    with pytest.raises(ClaimRefused):
        ledger.resubmit("report", ["2", "1"], reason=WHY, downstream=True)

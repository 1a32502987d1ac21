"""Fan-out: one chunk makes several data ids of another dataset, which its worker lists when it reports success."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest

from headgate import BadValue, Claim, ClaimLost, ClaimRefused, Gate, LockRefused, Refused, UnknownName
from headgate.core.ledger.model import MOST_PARTS
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY, claimed, expire, next_id, status_of, told
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)


def splitting(gate: Gate, *, outputs: Iterable[str] = ()) -> Ledger:
    """A run is split into samples, each of which is aligned."""
    ledger = gate.ledger
    for name in ("runs", "samples", "aligned", *outputs):
        ledger.define_dataset(name)
    ledger.define_job("split", inputs=["runs"], outputs=list(outputs), fan_out=["samples"])
    ledger.define_job("align", inputs=["samples"], outputs=["aligned"])
    ledger.publish("runs", ["r1", "r2"])
    return ledger


def split(ledger: Ledger, run: str, *samples: str) -> Claim:
    claim = ledger.claim("split", run)
    ledger.success(claim, outputs={"samples": samples})
    return claim


def samples(ledger: Ledger) -> dict[str, str]:
    return {row.dataid: row.status for row in ledger.status("samples", kind="OUTPUT", job="split")}


# ---------------------------------------------------------------- success


def test_data_ids_that_a_success_lists_are_ready_and_read_by_other_jobs(gate: Gate) -> None:
    ledger = splitting(gate)
    assert next_id(ledger, "align") is None
    split(ledger, "r1", "a", "b")
    assert samples(ledger) == {"a": "READY", "b": "READY"}
    assert [next_id(ledger, "align") for _ in range(3)] == ["a", "b", None]
    assert status_of(ledger, "runs", "r1", "split", kind="INPUT") == "DONE"
    assert next_id(ledger, "split") == "r2"
    assert ledger.status("samples", dataid="a", kind="OUTPUT")[0].message == "made from r1"
    assert [told(gate, "split", each) for each in ("a", "b")] == [[("list", "absent", "READY")]] * 2


def test_a_job_may_have_outputs_of_its_own_data_id_beside(gate: Gate) -> None:
    ledger = splitting(gate, outputs=["reports"])
    claim = claimed(ledger, "split")
    assert (claim.outputs["reports"].dataids, claim.outputs["samples"].dataids) == (None, ())
    ledger.success(claim, outputs={"samples": ["a"]})
    assert status_of(ledger, "reports", "r1", "split") == "READY"
    assert samples(ledger) == {"a": "READY"}


def test_a_success_lists_every_dataset_that_the_job_fans_out_to_and_no_other(gate: Gate) -> None:
    ledger = splitting(gate)
    claim = ledger.claim("split", "r1")
    with pytest.raises(BadValue, match="samples' is missing"):
        ledger.success(claim)
    with pytest.raises(BadValue, match="did you mean 'samples'"):
        ledger.success(claim, outputs={"sample": ["a"]})
    with pytest.raises(BadValue, match="not a list of data ids"):
        ledger.success(claim, outputs={"samples": "a"})
    with pytest.raises(BadValue, match=f"at most {MOST_PARTS:,}"):
        ledger.success(claim, outputs={"samples": map(str, range(MOST_PARTS + 1))})
    assert (samples(ledger), status_of(ledger, "runs", "r1", "split", kind="INPUT")) == ({}, "RUNNING")
    ledger.success(claim, outputs={"samples": []})
    assert (samples(ledger), status_of(ledger, "runs", "r1", "split", kind="INPUT")) == ({}, "DONE")
    ledger.publish("samples", "x")
    other = ledger.claim("align", "x")
    with pytest.raises(BadValue, match="has no fan_out"):
        ledger.success(other, outputs={"aligned": ["x"]})


def test_a_success_that_is_repeated_changes_nothing(gate: Gate) -> None:
    ledger = splitting(gate)
    claim = split(ledger, "r1", "a", "b")
    ledger.success(claim, outputs={"samples": ["a"]})
    assert samples(ledger) == {"a": "READY", "b": "READY"}
    assert len(told(gate, "split", "a")) == 1


def test_many_data_ids_are_listed_at_once(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", *(f"s{number:04}" for number in range(2500)))
    assert next_id(ledger, "align") == "s0000"
    assert ledger.left("align") == 2499
    counts = {each.status: each.count for each in ledger.tallies(5000) if each.dataset == "samples"}
    assert counts == {"READY": 2500}


# ---------------------------------------------------------------- ids of others


def test_a_data_id_that_was_made_from_another_one_refuses_the_success(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a", "b")
    claim = ledger.claim("split", "r2")
    with pytest.raises(ClaimRefused, match="samples/b was made by split from r1"):
        ledger.success(claim, outputs={"samples": ["b", "c"]})
    assert samples(ledger) == {"a": "READY", "b": "READY"}
    assert status_of(ledger, "runs", "r2", "split", kind="INPUT") == "RUNNING"
    ledger.success(claim, outputs={"samples": ["c"]})
    assert samples(ledger) == {"a": "READY", "b": "READY", "c": "READY"}


def test_a_data_id_that_was_published_refuses_the_success(gate: Gate) -> None:
    ledger = splitting(gate)
    ledger.publish("samples", "x")
    claim = ledger.claim("split", "r1")
    with pytest.raises(ClaimRefused, match="samples/x was published"):
        ledger.success(claim, outputs={"samples": ["x"]})
    ledger.fail(claim, "no")
    assert samples(ledger) == {}


def test_a_data_id_stays_its_own_while_it_is_left_out(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a", "b")
    ledger.resubmit("split", "r1", reason=WHY)
    split(ledger, "r1", "a")
    claim = ledger.claim("split", "r2")
    with pytest.raises(ClaimRefused, match="samples/b was made by split from r1"):
        ledger.success(claim, outputs={"samples": ["b"]})
    ledger.fail(claim, WHY)
    ledger.forget("split", "r1", reason=WHY)
    split(ledger, "r2", "b")
    assert samples(ledger) == {"b": "READY"}


# ---------------------------------------------------------------- another attempt


def test_another_attempt_holds_what_the_last_one_made_and_then_what_it_no_longer_lists(gate: Gate) -> None:
    ledger = splitting(gate)
    first = split(ledger, "r1", "a", "b")
    ledger.resubmit("split", "r1", reason=WHY)
    assert samples(ledger) == {"a": "RESUBMIT", "b": "RESUBMIT"}
    assert next_id(ledger, "align") is None
    claim = claimed(ledger, "split")
    assert (claim.dataid, claim.outputs["samples"].dataids) == ("r1", ("a", "b"))
    assert samples(ledger) == {"a": "RUNNING", "b": "RUNNING"}
    assert claim.token > first.token
    ledger.success(claim, outputs={"samples": ["b", "c"]})
    assert samples(ledger) == {"a": "HOLD", "b": "READY", "c": "READY"}
    assert ledger.status("samples", dataid="a", kind="OUTPUT")[0].message == "made from r1, which no longer lists it"
    assert [next_id(ledger, "align") for _ in range(3)] == ["b", "c", None]
    assert told(gate, "split", "a") == [("list", "absent", "READY"), ("unlist", "RUNNING", "HOLD")]


def test_a_data_id_that_was_left_out_stays_on_hold_until_it_is_listed_again(gate: Gate) -> None:
    ledger = splitting(gate)
    for listed in (["a", "b"], ["a"]):
        split(ledger, "r1", *listed)
        ledger.resubmit("split", "r1", reason=WHY)
    assert samples(ledger) == {"a": "RESUBMIT", "b": "HOLD"}
    claim = ledger.claim("split", "r1")
    assert claim.outputs["samples"].dataids == ("a",)
    assert samples(ledger) == {"a": "RUNNING", "b": "HOLD"}
    ledger.success(claim, outputs={"samples": ["b"]})
    assert samples(ledger) == {"a": "HOLD", "b": "READY"}


@pytest.mark.parametrize(
    ("end", "status"),
    [(lambda ledger, claim: ledger.fail(claim, "no"), "ERROR"),
     (lambda ledger, claim: ledger.interrupt(claim), "RESUBMIT")],
)  # fmt: skip
def test_chunks_of_an_earlier_attempt_are_not_read_when_the_next_one_fails(
    gate: Gate, end: Callable[[Ledger, Claim], None], status: str
) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    ledger.resubmit("split", "r1", reason=WHY)
    end(ledger, ledger.claim("split", "r1"))
    assert samples(ledger) == {"a": status}
    assert next_id(ledger, "align") is None
    split(ledger, "r1", "a")
    assert next_id(ledger, "align") == "a"


def test_the_chunks_of_a_worker_that_died_are_made_again(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    ledger.resubmit("split", "r1", reason=WHY)
    claim = ledger.claim("split", "r1")
    expire(gate, "r1")
    assert ledger.reap() == 1
    assert samples(ledger) == {"a": "ERROR"}
    with pytest.raises(ClaimLost):
        ledger.success(claim, outputs={"samples": ["a"]})
    assert ledger.reap() == 0
    assert next_id(ledger, "split") == "r1"
    assert samples(ledger) == {"a": "RUNNING"}


def test_parts_are_no_data_ids_of_their_job(gate: Gate) -> None:
    """Neither a plan, nor a list of failures, nor the doctor treats them as chunks that wait for the job."""
    ledger = splitting(gate)
    split(ledger, "r1", "a", "b")
    ledger.resubmit("split", "r1", reason=WHY)
    ledger.fail(ledger.claim("split", "r1"), "no")
    assert {each.dataid for each in ledger.plan("split").blocked} <= {"r1", "r2"}
    assert [(row.dataset, row.dataid) for row in ledger.failures()] == [("runs", "r1")]
    assert [(each.dataset, each.count) for each in ledger.standing() if each.job == "split"] == [("runs", 1)]
    claim = ledger.claim("split", "r1")
    assert {each.dataid for each in ledger.plan("split").blocked} <= {"r1", "r2"}
    assert gate.faults() == []
    ledger.success(claim, outputs={"samples": []})
    assert gate.faults() == []


# ---------------------------------------------------------------- readers and locks


def test_a_chunk_is_not_made_again_while_something_made_of_it_is_read(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a", "b")
    reading = ledger.claim("align", "a")
    ledger.resubmit("split", "r1", reason=WHY)
    assert next_id(ledger, "split") == "r2"
    with pytest.raises(ClaimRefused, match="another job is reading it: INPUT samples/a of align is RUNNING"):
        ledger.claim("split", "r1")
    ledger.success(reading)
    assert next_id(ledger, "split") == "r1"


def test_chunks_that_are_made_again_are_locked(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    ledger.resubmit("split", "r1", reason=WHY)
    lock = gate.locks.acquire("me", "data:samples/a", mode="shared")
    with pytest.raises(ClaimRefused, match="me holds data:samples/a shared"):
        ledger.claim("split", "r1")
    gate.locks.release(lock)
    claim = ledger.claim("split", "r1")
    with pytest.raises(LockRefused):
        gate.locks.acquire("me", "data:samples/a", mode="shared")
    ledger.success(claim, outputs={"samples": ["a"]})
    gate.locks.release(gate.locks.acquire("me", "data:samples/a", mode="shared"))


def test_readers_of_a_chunk_include_the_parts_made_from_it(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "b", "a")
    found = [(link.dataset, link.dataid, link.status) for link in ledger.readers("runs", "r1")]
    assert found == [("runs", "r1", "DONE"), ("samples", "a", "READY"), ("samples", "b", "READY")]
    (link,) = ledger.readers("samples", "a")
    assert (link.job, link.dataid) == ("align", "a")


# ---------------------------------------------------------------- operators


def test_resubmitting_downstream_goes_from_a_chunk_to_all_that_was_made_of_its_parts(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a", "b")
    split(ledger, "r2", "c")
    for _ in range(3):
        ledger.success(claimed(ledger, "align"))
    preview = ledger.resubmit("split", "r1", reason=WHY, downstream=True, dry_run=True)
    expected = {("samples", "a", "RESUBMIT"), ("samples", "b", "RESUBMIT"), ("aligned", "a", "RESUBMIT"),
                ("aligned", "b", "RESUBMIT")}  # fmt: skip
    assert {(each.dataset, each.dataid, each.after) for each in preview if each.kind == "OUTPUT"} == expected
    assert samples(ledger) == {"a": "READY", "b": "READY", "c": "READY"}
    changes = ledger.resubmit("split", "r1", reason=WHY, downstream=True)
    assert sorted(map(str, changes)) == sorted(map(str, preview))
    assert samples(ledger) == {"a": "RESUBMIT", "b": "RESUBMIT", "c": "READY"}
    assert status_of(ledger, "aligned", "c", "align") == "READY"
    assert next_id(ledger, "align") is None
    split(ledger, "r1", "a")
    assert [next_id(ledger, "align") for _ in range(2)] == ["a", None]


def test_holding_a_chunk_holds_what_was_made_of_it(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    ledger.hold("split", "r1", reason=WHY)
    assert (samples(ledger), next_id(ledger, "align")) == ({"a": "HOLD"}, None)
    ledger.unhold("split", "r1")
    assert (samples(ledger), next_id(ledger, "align")) == ({"a": "READY"}, "a")


def test_a_chunk_that_was_held_before_it_was_made_again_is_made_again(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    ledger.resubmit("split", "r1", reason=WHY)
    ledger.hold("split", "r1", reason=WHY)
    ledger.unhold("split", "r1")
    assert samples(ledger) == {"a": "RESUBMIT"}
    assert next_id(ledger, "split") == "r1"


def test_forgetting_a_chunk_removes_what_was_made_of_it(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a", "b")
    ledger.forget("split", "r1", reason=WHY)
    assert samples(ledger) == {}
    assert next_id(ledger, "align") is None
    assert next_id(ledger, "split") == "r1"


def test_the_status_of_a_part_follows_its_chunk_and_is_not_set_by_hand(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    with pytest.raises(Refused, match="its status follows the chunk that it was made from"):
        ledger.set_status("samples", "a", "split", "OUTPUT", "ERROR", reason=WHY)


def test_an_operator_may_force_a_chunk_that_made_others(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    claim = ledger.force("split", "r1", reason=WHY)
    assert samples(ledger) == {"a": "RUNNING"}
    again = ledger.force("split", "r1", reason=WHY, steal=True)
    with pytest.raises(ClaimLost):
        ledger.success(claim, outputs={"samples": ["a"]})
    ledger.success(again, outputs={"samples": ["a"]})
    assert samples(ledger) == {"a": "READY"}


# ---------------------------------------------------------------- mappings on both sides


def test_a_mapped_job_reads_what_was_made_by_fan_out_and_learns_that_it_was_made_again(gate: Gate) -> None:
    ledger = splitting(gate)
    ledger.define_dataset("lanes")
    ledger.define_dataset("merged")
    ledger.define_job("lane", inputs=["runs"], fan_out=["lanes"])
    by_sample = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}", "need": 2, "on_late": "redo",
                 "late_delay": 0}  # fmt: skip
    ledger.define_job("merge", inputs=["lanes"], outputs=["merged"], maps={"lanes": by_sample})
    for run, listed in (("r1", ["s1.1", "s2.1"]), ("r2", ["s1.2"])):
        ledger.success(ledger.claim("lane", run), outputs={"lanes": listed})
    claim = claimed(ledger, "merge")
    assert (claim.dataid, claim.inputs["lanes"].dataids) == ("s1", ("s1.1", "s1.2"))
    ledger.resubmit("lane", "r1", reason=WHY)
    with pytest.raises(ClaimRefused, match="another job is reading it"):
        ledger.claim("lane", "r1")
    ledger.success(claim)
    ledger.success(ledger.claim("lane", "r1"), outputs={"lanes": ["s1.1"]})
    again = claimed(ledger, "merge")
    assert (again.dataid, again.attempt) == ("s1", 2)


def test_a_late_input_makes_a_chunk_again_with_all_that_was_made_of_it(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("days", "shares"):
        ledger.define_dataset(name)
    month = {"kind": "period", "period": "month", "unit": "day", "need": 1, "on_late": "redo", "late_delay": 0}
    ledger.define_job("share", inputs=["days"], fan_out=["shares"], maps={"days": month})
    ledger.publish("days", "2026-02-01")
    ledger.success(claimed(ledger, "share"), outputs={"shares": ["2026-02.a", "2026-02.b"]})
    ledger.publish("days", "2026-02-02")
    claim = claimed(ledger, "share")
    assert (claim.dataid, claim.outputs["shares"].dataids) == ("2026-02", ("2026-02.a", "2026-02.b"))
    ledger.publish("days", "2026-02-03")
    ledger.success(claim, outputs={"shares": ["2026-02.a"]})
    found = {row.dataid: row.status for row in ledger.status("shares", kind="OUTPUT")}
    assert found == {"2026-02.a": "RESUBMIT", "2026-02.b": "HOLD"}


# ---------------------------------------------------------------- loops and definitions


def test_a_loop_lists_the_data_ids_that_its_body_names(gate: Gate) -> None:
    ledger = splitting(gate)
    with ledger.work("split") as chunks:
        for claim in chunks:
            if claim.dataid == "r1":
                chunks.made("samples", ["a", "b"])
    assert samples(ledger) == {"a": "READY", "b": "READY"}
    assert next_id(ledger, "split") is None


def test_a_loop_fails_the_chunk_whose_list_is_refused(gate: Gate) -> None:
    ledger = splitting(gate)
    split(ledger, "r1", "a")
    chunks = ledger.work("split")
    assert next(chunks).dataid == "r2"
    chunks.made("samples", ["a"])
    with pytest.raises(ClaimRefused):
        next(chunks)
    assert status_of(ledger, "runs", "r2", "split", kind="INPUT") == "ERROR"


def test_definitions_that_cannot_fan_out_are_refused(gate: Gate) -> None:
    ledger = splitting(gate)
    ledger.define_dataset("more")
    for job, why in (
        ({"inputs": ["runs"], "outputs": ["more"], "fan_out": ["more"]}, "is an output of job 'other' too"),
        ({"inputs": ["runs"], "fan_out": ["runs"]}, "both input and output"),
        ({"inputs": ["runs"], "fan_out": ["samples"]}, "already produced by job 'split'"),
        ({"inputs": ["runs"], "fan_out": ["more", "more"]}, "named twice"),
        ({"fan_out": ["more"]}, "its status is kept there"),
        ({"inputs": ["runs"], "fan_out": ["more"], "recur": 60}, "recur"),
    ):
        with pytest.raises(BadValue, match=why):
            ledger.define_job("other", **job)
    ledger.claim("split", "r1")
    with pytest.raises(Refused, match="is processing r1"):
        ledger.define_job("split", inputs=["runs"], outputs=["samples"])


def test_data_ids_that_a_job_made_before_it_fanned_out_are_its_own(gate: Gate) -> None:
    ledger = splitting(gate)
    ledger.define_job("split", inputs=["runs"], outputs=["samples"])
    ledger.success(ledger.claim("split", "r1"))
    ledger.define_job("split", inputs=["runs"], fan_out=["samples"])
    split(ledger, "r2", "r1", "new")
    assert samples(ledger) == {"r1": "READY", "new": "READY"}


# ---------------------------------------------------------------- many at once


def split_all(ledger: Ledger, made: Counter[str]) -> None:
    while claim := ledger.find_next("split"):
        made[claim.dataid] += 1
        ledger.success(claim, outputs={"samples": [f"{claim.dataid}.{number}" for number in range(4)]})


def align_until(ledger: Ledger, finished: Event) -> None:
    while not finished.is_set() or ledger.left("align"):
        if claim := ledger.find_next("align", wait=0.05):
            ledger.success(claim)


def redo_some(ledger: Ledger, runs: Iterable[str]) -> None:
    for run in runs:
        with suppress(ClaimRefused, UnknownName):  # A worker is processing it, or none was yet.
            ledger.resubmit("split", run, reason=WHY, downstream=True)


def test_workers_and_an_operator_who_meet_on_parts_all_get_their_answer(gate: Gate) -> None:
    """Runs are split, and samples aligned, while runs are redone: no conflict in the store refuses anything."""
    ledger = splitting(gate)
    runs = [f"run{number}" for number in range(12)]
    ledger.publish("runs", runs)
    made: Counter[str] = Counter()

    finished = Event()
    with ThreadPoolExecutor(6) as pool:
        aligning = [pool.submit(align_until, ledger, finished) for _ in range(2)]
        working = [pool.submit(split_all, ledger, made) for _ in range(3)]
        for each in (*working, pool.submit(redo_some, ledger, runs[::3])):
            each.result(60)
        split_all(ledger, made)
        finished.set()
        for each in aligning:
            each.result(60)
    rows = ledger.status("samples", kind="OUTPUT", job="split")
    assert Counter(row.status for row in rows) == {"READY": 4 * (len(runs) + 2)}
    assert Counter(row.status for row in ledger.status("aligned", kind="OUTPUT")) == {"READY": 4 * (len(runs) + 2)}
    assert {*runs} <= set(made)

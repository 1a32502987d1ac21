"""Bad input: a clear error, and nothing changes."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate import BadValue, ClaimLost, ClaimRefused, Gate, Refused, UnknownName
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import RUNS_CODE, WHY, claimed, everything, next_id, one_job, status_of
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
BAD_IDS: list[Any] = ["", " ", "a/b", "a\nb", "a\0b", "x" * 256, 7, None]


def by_job(ledger: Ledger, job: str, dataid: Any) -> list[Callable[[], object]]:
    """Every call that names a job and a chunk."""
    return [
        lambda: ledger.claim(job, dataid),
        lambda: ledger.force(job, dataid, reason=WHY),
        lambda: ledger.resubmit(job, [dataid], reason=WHY),
        lambda: ledger.hold(job, dataid, reason=WHY),
        lambda: ledger.unhold(job, dataid),
        lambda: ledger.forget(job, dataid, reason=WHY),
        lambda: ledger.explain(job, dataid),
        lambda: ledger.success(job, dataid, 1),
        lambda: ledger.fail(job, "why", dataid, 1),
        lambda: ledger.heartbeat(job, dataid, 1),
        lambda: ledger.set_status("tidy", dataid, job, "OUTPUT", "READY", reason=WHY),
    ]


def test_an_impossible_data_id_is_refused_everywhere(gate: Gate) -> None:
    ledger = one_job(gate)
    before = everything(gate)
    for bad in BAD_IDS:
        for act in by_job(ledger, "clean", bad):
            with pytest.raises(BadValue):
                act()
        with pytest.raises(BadValue):
            ledger.publish("raw", [bad])
    assert everything(gate) == before


def test_an_unknown_job_is_reported_with_the_nearest_name(gate: Gate) -> None:
    ledger = one_job(gate)
    before = everything(gate)
    acts: list[Callable[[], object]] = [
        *by_job(ledger, "claen", "1"), lambda: ledger.find_next("claen"), lambda: ledger.plan("claen"),
        lambda: ledger.pause("claen", reason=WHY), lambda: ledger.unpause("claen"),
        lambda: ledger.connections("claen"), lambda: ledger.status(job="claen"),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(UnknownName, match="Did you mean 'clean'"):
            act()
    assert everything(gate) == before


def test_an_unknown_dataset_is_reported(gate: Gate) -> None:
    ledger = one_job(gate)
    acts: list[Callable[[], object]] = [
        lambda: ledger.publish("rwa", "1"),
        lambda: ledger.status("rwa"),
        lambda: ledger.define_job("x", inputs=["rwa"]),
        lambda: ledger.set_status("rwa", "1", "external", "OUT", "READY", reason=WHY),
    ]
    for act in acts:
        with pytest.raises(UnknownName, match="rwa"):
            act()


def test_an_unknown_chunk_is_reported(gate: Gate) -> None:
    ledger = one_job(gate)
    before = everything(gate)
    with pytest.raises(ClaimRefused, match="no job has produced it and nobody has published it"):
        ledger.claim("clean", "nowhere")
    for report in (ledger.success, ledger.heartbeat):
        with pytest.raises(ClaimLost, match="there is no such claim"):
            report("clean", "nowhere", 1)
    with pytest.raises(UnknownName):
        ledger.resubmit("clean", "nowhere", reason=WHY)
    with pytest.raises(UnknownName):
        ledger.forget("clean", "nowhere", reason=WHY)
    assert everything(gate) == before
    assert not ledger.explain("clean", "nowhere").granted


@pytest.mark.parametrize("token", [None, 0, -1, True, 1.5, "1", 2**63])
def test_a_token_is_a_whole_number(gate: Gate, token: Any) -> None:
    ledger = one_job(gate)
    with pytest.raises(BadValue, match="token"):
        ledger.success("clean", "1", token)


@pytest.mark.parametrize("lease", [0, -1, None, "60", float("nan"), float("inf"), 1e12])
def test_a_lease_is_a_span_of_time(gate: Gate, lease: Any) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    with pytest.raises(BadValue, match="lease"):
        ledger.find_next("clean", lease=lease)
    assert next_id(ledger, "clean") == "1"


def test_an_unknown_status_is_kept_shown_and_blocks(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.set_status("tidy", "1", "clean", "out", "Mittagspause", reason=WHY)
    assert status_of(ledger, "tidy", "1", "clean") == "Mittagspause"
    assert (next_id(ledger, "clean"), next_id(ledger, "report")) == (None, None)
    assert "Mittagspause" in ledger.explain("clean", "1").sentence()


def test_a_status_that_no_chunk_has_is_not_accepted_as_a_filter(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    assert ledger.status(status="failed") == []
    with pytest.raises(BadValue, match=r"status 'REDY' is not one of .*; did you mean 'READY'"):
        ledger.status(status="REDY")
    ledger.set_status("raw", "1", "external", "OUTPUT", "redy", reason=WHY)
    assert [row.dataid for row in ledger.status(status="redy")] == ["1"]
    assert ledger.status("tidy", status="redy") == []


def test_support_may_not_set_a_row_that_no_job_has(gate: Gate) -> None:
    ledger = one_job(gate)
    before = everything(gate)
    for dataset, job, kind in (("rep", "clean", "OUT"), ("tidy", "clean", "IN"), ("raw", "external", "IN")):
        with pytest.raises(BadValue, match="is no"):
            ledger.set_status(dataset, "1", job, kind, "READY", reason=WHY)
    with pytest.raises(BadValue, match="not one of INPUT"):
        ledger.set_status("raw", "1", "clean", "sideways", "READY", reason=WHY)
    with pytest.raises(BadValue, match="reason"):
        ledger.set_status("tidy", "1", "clean", "OUT", "READY", reason="")
    assert everything(gate) == before


def test_a_chunk_made_by_a_job_cannot_be_published_by_hand(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "2")
    ledger.success(claimed(ledger, "clean"))
    before = everything(gate)
    with pytest.raises(ClaimRefused, match="tidy/2 is produced by job clean"):
        ledger.publish("tidy", ["1", "2", "3"])
    assert everything(gate) == before


def test_publishing_again_changes_nothing(gate: Gate) -> None:
    ledger = one_job(gate)
    assert ledger.publish("raw", ["1", "2", "1"]) == 2
    before = everything(gate)
    assert ledger.publish("raw", ["1", "2"]) == 0
    assert everything(gate) == before
    with pytest.raises(BadValue, match="are missing"):
        ledger.publish("raw", [])


def test_invalid_definitions_are_refused(gate: Gate) -> None:
    ledger = one_job(gate)
    wrong: list[Callable[[], object]] = [
        lambda: ledger.define_job("second", outputs=["tidy"]),
        lambda: ledger.define_job("self", inputs=["raw"], outputs=["raw"]),
        lambda: ledger.define_job("external", inputs=["raw"]),
        lambda: ledger.define_job("empty"),
        lambda: ledger.define_job("letters", inputs="raw"),
        lambda: ledger.define_job("bad", inputs=["raw"], max_attempts=-1),
        lambda: ledger.define_job("bad", inputs=["raw"], retry_delay=-1),
        lambda: ledger.define_job("bad", inputs=["raw"], on_failure="shrug"),
        lambda: ledger.define_job("bad", inputs=["raw"], environment={"A": 1}),  # type: ignore[dict-item]
        *(lambda name=name: ledger.define_job("bad", inputs=["raw"], environment={name: "x"}) for name in RUNS_CODE),
        lambda: ledger.define_dataset("a/b"),
        lambda: ledger.define_dataset("x", order="backwards"),
        lambda: ledger.define_dataset("x", uri="a\nb"),
    ]
    for define in wrong:
        with pytest.raises(BadValue):
            define()
    assert [job.name for job in ledger.jobs()] == ["clean", "report"]
    assert [dataset.name for dataset in ledger.datasets()] == ["raw", "rep", "tidy"]


def test_defining_is_idempotent_and_says_what_changes(gate: Gate) -> None:
    ledger = one_job(gate)
    assert ledger.define_dataset("raw", uri="file:///raw").changes == ()
    assert ledger.define_dataset("raw", uri="s3://raw").changes == ("dataset raw: uri file:///raw → s3://raw",)
    assert ledger.define_job("clean", inputs=["raw"], outputs=["tidy"]).changes == ()
    changed = ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], max_attempts=5)
    assert changed.changes == ("job clean: max_attempts 3 → 5",)


def test_a_job_that_can_never_start_is_reported(gate: Gate) -> None:
    ledger = one_job(gate)
    told = ledger.define_job("back", inputs=["rep"], outputs=["raw"]).warnings
    assert any("can never start" in line for line in told)


def test_the_order_of_a_dataset_with_chunks_stays(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.define_dataset("rep", order="text")
    ledger.publish("raw", "1")
    with pytest.raises(Refused, match="the order cannot be changed"):
        ledger.define_dataset("raw", order="text")


def test_a_job_that_is_defined_late_finds_existing_chunks(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("a", "b", "c"):
        ledger.define_dataset(name)
    ledger.publish("a", ["1", "2", "3"])
    ledger.publish("b", ["3", "2"])
    ledger.define_job("join", inputs=["a", "b"], outputs=["c"])
    claim = claimed(ledger, "join")
    assert claim.dataid == "2"
    with pytest.raises(Refused, match="is processing 2"):
        ledger.define_job("join", inputs=["a"], outputs=["c"])
    ledger.success(claim)
    ledger.define_job("join", inputs=["a"], outputs=["c"])
    assert [next_id(ledger, "join") for _ in range(3)] == ["1", "3", None]


def test_a_paused_job_claims_no_chunk(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.pause("clean", reason="the disk is full")
    assert next_id(ledger, "clean") is None
    with pytest.raises(ClaimRefused, match="the job is paused: the disk is full"):
        ledger.claim("clean", "1")
    assert ledger.define_job("clean", inputs=["raw"], outputs=["tidy"]).changes == ()
    ledger.unpause("clean")
    assert next_id(ledger, "clean") == "1"


def test_names_that_databases_tend_to_alter_are_kept(gate: Gate) -> None:
    """Sensitive to case, blanks and similar letters, and of maximum length."""
    ledger = gate.ledger
    ledger.define_dataset("raw")
    ledger.define_dataset("RAW")
    ledger.define_job("mail", inputs=["raw"])
    ids = ["a", "A", "a ", "ä", "a\u0308", "😀" * 255, "x" * 255, "'; drop table hg_chunk; --", "100%", "{now}", ":job"]
    assert ledger.publish("raw", ids) == len(ids)
    assert sorted(claim.dataid for claim in ledger.work("mail")) == sorted(ids)
    assert ledger.status("RAW") == []


def test_pages_follow_the_order_of_the_dataset(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["10", "9", "1"])
    first = ledger.status("raw", limit=2)
    assert [row.dataid for row in first] == ["1", "9"]
    assert [row.dataid for row in ledger.status("raw", after="9")] == ["10"]
    with pytest.raises(BadValue, match="needs a dataset"):
        ledger.status(after="9")


def test_a_plan_shows_what_is_next_and_what_blocks_the_rest(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2", "3", "4"])
    ledger.success(claimed(ledger, "clean"))
    ledger.resubmit("clean", "1", reason=WHY)
    ledger.hold("clean", "3", reason=WHY)
    ledger.claim("clean", "2")
    plan = ledger.plan("clean")
    assert [verdict.dataid for verdict in plan.next] == ["1", "4"]
    assert [verdict.dataid for verdict in plan.blocked] == ["2", "3"]

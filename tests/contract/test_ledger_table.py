"""Every cell of the claim table, asked and tried; every operation in every status."""

from collections.abc import Callable
from itertools import product

import pytest

from headgate import ClaimLost, ClaimRefused, Gate, HeadgateError, TransitionRefused, UnknownName
from headgate.core.ledger.rules import CHUNK_RULES, CLAIM_TABLE, INPUT_STATES
from headgate.core.ledger.verdicts import Answer
from headgate.core.tables.states import CHUNK
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY, claimed, clear, everything, expire, next_id, one_job, status_of, told
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
CELLS = list(product(CLAIM_TABLE, INPUT_STATES))


def make_row(gate: Gate, dataset: str, kind: str, state: str) -> None:
    """A row in that state, written directly."""
    status, _, life = state.partition(", ")
    if status == "absent":
        return
    word = "lunch" if status == "other" else status
    gate.ledger.set_status(dataset, "1", "clean", kind, word, reason=WHY)
    if life == "expired":
        expire(gate, "1")


def in_cell(gate: Gate, output: str, given: str) -> Ledger:
    """A chunk whose input is READY, with rows for one cell of the table."""
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    # Expired claims come first, because expiring affects all running ones.
    for dataset, kind, state in sorted(
        [("tidy", "OUT", output), ("raw", "IN", given)], key=lambda each: each[2][-1:] != "d"
    ):
        make_row(gate, dataset, kind, state)
    return ledger


def test_explain_claim_and_find_next_agree_on_each_cell(gate: Gate) -> None:
    """One store for all 42 cells, emptied between them."""
    ledger = one_job(gate)
    wrong = []
    for output, given in CELLS:
        ledger = in_cell(gate, output, given)
        expected = CHUNK_RULES.cell(output, given)
        verdict = ledger.explain("clean", "1")
        answers = [verdict.granted, _claims(ledger), None]
        clear(gate, "hg_incident")
        in_cell(gate, output, given)
        answers[2] = next_id(ledger, "clean") == "1"
        clear(gate, "hg_incident")
        if answers != [expected is not Answer.NO] * 3 or verdict.first is not (expected is Answer.FIRST):
            wrong.append((output, given, expected, answers))
    assert wrong == []


def _claims(ledger: Ledger) -> bool:
    try:
        claim = ledger.claim("clean", "1")
    except ClaimRefused as refusal:
        return bool(refusal.verdict is None or refusal.verdict.granted)
    assert status_of(ledger, "tidy", "1", "clean") == "RUNNING"
    assert status_of(ledger, "raw", "1", "clean", "INPUT") == "RUNNING"
    assert ledger.heartbeat(claim) == 60
    return True


@pytest.mark.parametrize("status", ["RUNNING", "ERROR", "RESUBMIT", "HOLD", "PENDING", "lunch"])
def test_an_input_that_is_not_ready_blocks(gate: Gate, status: str) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.set_status("raw", "1", "external", "OUTPUT", status, reason=WHY)
    assert not ledger.explain("clean", "1").granted
    assert next_id(ledger, "clean") is None
    ledger.set_status("raw", "1", "external", "OUTPUT", "READY", reason=WHY)
    assert next_id(ledger, "clean") == "1"


# ------------------------------------------------------------------ operations

STATUSES = ("absent", "RUNNING", "expired", "READY", "ERROR", "RESUBMIT", "HOLD", "PENDING", "lunch")
Act = Callable[[Ledger], object]
OPERATIONS: dict[str, Act] = {
    "claim": lambda ledger: ledger.claim("clean", "1"),
    "force": lambda ledger: ledger.force("clean", "1", reason=WHY),
    "steal": lambda ledger: ledger.force("clean", "1", reason=WHY, steal=True),
    "resubmit": lambda ledger: ledger.resubmit("clean", "1", reason=WHY),
    "hold": lambda ledger: ledger.hold("clean", "1", reason=WHY),
    "unhold": lambda ledger: ledger.unhold("clean", "1", reason=WHY),
    "forget": lambda ledger: ledger.forget("clean", "1", reason=WHY),
    "forget, steal": lambda ledger: ledger.forget("clean", "1", reason=WHY, steal=True),
    "resubmit, steal": lambda ledger: ledger.resubmit("clean", "1", reason=WHY, steal=True),
    "publish": lambda ledger: ledger.publish("tidy", "1"),
}
ALIVE_REFUSES = {"force", "resubmit", "hold", "forget"}


def expected_after(operation: str, status: str) -> str | type[HeadgateError]:  # noqa: PLR0911 - one line a rule
    """The table of reports and operations: the status afterwards, or the refusal."""
    event, _, steal = operation.partition(", ")
    event = "force" if event == "steal" else event
    state = {"lunch": "other", "expired": "RUNNING"}.get(status, status)
    if status == "RUNNING" and event in ALIVE_REFUSES and not (steal or operation == "steal"):
        return ClaimRefused
    if event == "publish":
        return "READY" if status == "absent" else ClaimRefused
    if event == "claim":
        return "RUNNING" if status in ("absent", "expired", "ERROR", "RESUBMIT") else ClaimRefused
    if status == "absent" and event in ("resubmit", "forget"):
        return UnknownName
    if event == "unhold":
        return "absent" if status == "HOLD" else TransitionRefused
    if event == "hold":
        return "HOLD"
    return CHUNK.find(state, event)[0].target


def put_in(gate: Gate, status: str) -> Ledger:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    if status == "HOLD":
        ledger.hold("clean", "1", reason=WHY)
    elif status in ("RUNNING", "expired"):
        claimed(ledger, "clean")
        if status == "expired":
            expire(gate, "1")
    elif status != "absent":
        ledger.set_status("tidy", "1", "clean", "OUTPUT", status, reason=WHY)
    return ledger


@pytest.mark.parametrize("status", STATUSES)
def test_every_operation_in_a_status(gate: Gate, status: str) -> None:
    for operation, act in OPERATIONS.items():
        ledger = put_in(gate, status)
        expected = expected_after(operation, status)
        before = everything(gate)
        if isinstance(expected, str):
            act(ledger)
            found = status_of(ledger, "tidy", "1", "external" if operation == "publish" else "clean")
            assert found == expected, (operation, status)
            assert len(everything(gate)[1]) > len(before[1]) or (operation, status) == ("hold", "HOLD")
        else:
            with pytest.raises(expected):
                act(ledger)
            assert everything(gate) == before, (operation, status)
        clear(gate, "hg_incident")


@pytest.mark.parametrize("report", ["success", "fail", "interrupt"])
@pytest.mark.parametrize("status", [each for each in STATUSES if each not in ("absent", "RUNNING", "expired")])
def test_a_report_on_a_chunk_that_is_not_running_changes_nothing(gate: Gate, status: str, report: str) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = claimed(ledger, "clean")
    ledger.set_status("tidy", "1", "clean", "OUTPUT", status, reason=WHY)
    same = {"success": ("READY",), "fail": ("ERROR", "HOLD"), "interrupt": ()}[report]
    before = everything(gate)
    if status in same:
        getattr(ledger, report)(claim)
    else:
        with pytest.raises(ClaimLost):
            getattr(ledger, report)(claim)
    assert everything(gate) == before


def test_hold_keeps_the_former_status_or_its_absence(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    ledger.success(ledger.claim("clean", "1"))
    for dataid, before in (("1", "READY"), ("2", "absent")):
        ledger.hold("clean", dataid, reason=WHY)
        assert status_of(ledger, "tidy", dataid, "clean") == "HOLD"
        ledger.unhold("clean", dataid)
        assert status_of(ledger, "tidy", dataid, "clean") == before
    assert next_id(ledger, "clean") == "2"


def test_a_held_chunk_cannot_be_read(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    ledger.hold("clean", "1", reason=WHY)
    assert next_id(ledger, "report") is None
    ledger.unhold("clean", "1")
    assert next_id(ledger, "report") == "1"


def test_resubmit_downstream_includes_all_chunks_made_from_it(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.define_dataset("sum")
    ledger.define_job("total", inputs=["tidy", "rep"], outputs=["sum"])
    ledger.define_job("mail", inputs=["rep"])
    ledger.publish("raw", ["1", "2"])
    for job in ("clean", "report", "total", "mail"):
        for _ in range(2):
            ledger.success(claimed(ledger, job))
    before = everything(gate)
    preview = ledger.resubmit("clean", "1", reason=WHY, downstream=True, dry_run=True)
    assert everything(gate) == before
    assert {(each.job, each.dataset, each.after) for each in preview} == {
        ("clean", "tidy", "RESUBMIT"), ("clean", "raw", "absent"),
        ("report", "rep", "RESUBMIT"), ("report", "tidy", "absent"),
        ("total", "sum", "RESUBMIT"), ("total", "tidy", "absent"), ("total", "rep", "absent"),
        ("mail", "rep", "absent"),
    }  # fmt: skip
    assert list(ledger.resubmit("clean", "1", reason=WHY, downstream=True)) == list(preview)
    assert [next_id(ledger, job) for job in ("report", "total", "mail")] == [None, None, None]
    for job in ("clean", "report", "total", "mail"):
        claim = claimed(ledger, job)
        assert claim.dataid == "1"
        ledger.success(claim)
        assert next_id(ledger, job) is None


def test_resubmit_downstream_changes_nothing_while_one_of_them_runs(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    running = claimed(ledger, "report")
    before = everything(gate)
    with pytest.raises(ClaimRefused, match="a worker is processing it"):
        ledger.resubmit("clean", "1", reason=WHY, downstream=True)
    assert everything(gate) == before
    ledger.resubmit("clean", "1", reason=WHY)
    assert next_id(ledger, "clean") is None, "another job is reading that output chunk right now"
    ledger.success(running)
    assert next_id(ledger, "clean") == "1"


def test_held_chunks_downstream_stay_held(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    for job in ("clean", "report"):
        ledger.success(claimed(ledger, job))
    ledger.hold("report", "1", reason="wait for Ann")
    ledger.resubmit("clean", "1", reason=WHY, downstream=True)
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "report") is None
    ledger.unhold("report", "1")
    assert claimed(ledger, "report").dataid == "1"


def test_the_history_records_actor_reason_and_status_before_and_after(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = ledger.claim("clean", "1", worker="night shift")
    ledger.fail(claim, "no space left")
    ledger.resubmit("clean", "1", reason="there is space now")
    ledger.pause("clean", reason="holidays")
    assert told(gate, "clean", "1") == [
        ("claim", "absent", "RUNNING"), ("fail", "RUNNING", "ERROR"), ("resubmit", "ERROR", "RESUBMIT"),
    ]  # fmt: skip
    newest = gate.history(job="clean")
    assert (newest[0].noun, newest[0].event, newest[0].reason) == ("job", "pause", "holidays")
    assert (newest[1].reason, newest[1].resource, newest[1].job) == ("there is space now", "data:tidy/1", "clean")
    assert (newest[3].client, newest[3].token) == ("night shift", claim.token)
    assert newest[2].reason == "no space left"
    assert told(gate, "external", "1") == [("publish", "absent", "READY")]

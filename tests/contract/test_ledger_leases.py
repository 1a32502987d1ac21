"""Leases, tokens, retries: a dead worker is noticed, a stale claim cannot report, a chunk that kills its workers is
held.
"""

import re
from collections.abc import Callable

import pytest

from headgate import BadValue, ClaimLost, ClaimRefused, Gate, UnknownName
from headgate.core.ledger.model import Asker
from headgate.service.ledger import dead_workers
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.ledger import claims as claiming
from tests.contract.ledger_steps import (
    WHY,
    claimed,
    database,
    everything,
    expire,
    hurry,
    let_lease_end,
    next_id,
    one_job,
    status_of,
    told,
)
from tests.contract.over_http import LEDGER_STORES
from tests.contract.steps import SHORT, Gates
from tests.waiting import until

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
KEPT_REQUEST = Statement(
    "The request whose claim is running.", "select request_id from hg_chunk where request_id <> ''"
)


def test_the_claim_of_a_dead_worker_expires_by_the_stores_clock(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    dead = ledger.find_next("clean", lease=SHORT, worker="dead")
    assert dead
    assert (next_id(ledger, "clean"), ledger.reap()) == (None, 0)
    let_lease_end(ledger, "clean", "1")
    again = claimed(ledger, "clean")
    assert (again.dataid, again.attempt) == ("1", 2)
    assert again.token > dead.token
    assert told(gate, "clean", "1") == [
        ("claim", "absent", "RUNNING"), ("reap", "RUNNING", "ERROR"), ("claim", "ERROR", "RUNNING"),
    ]  # fmt: skip


def test_heartbeats_keep_a_claim_alive(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = ledger.find_next("clean", lease=1.0)
    assert claim
    assert ledger.heartbeat(claim, lease=100) == 100
    (row,) = ledger.status("tidy")
    assert row.expires_in is not None
    assert row.expires_in > 50
    assert row.lease == 100


def test_an_expired_lease_is_not_renewed(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = claimed(ledger, "clean")
    expire(gate, "1")
    before = everything(gate)
    with pytest.raises(ClaimLost, match="its lease expired"):
        ledger.heartbeat(claim)
    assert everything(gate) == before


def test_an_expired_claim_that_nobody_reaped_may_still_report(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    one, two = claimed(ledger, "clean"), claimed(ledger, "clean")
    expire(gate, "1")
    expire(gate, "2")
    ledger.success(one)
    ledger.fail(two, "late")
    assert (status_of(ledger, "tidy", "1", "clean"), status_of(ledger, "tidy", "2", "clean")) == ("READY", "ERROR")


@pytest.mark.parametrize("ending", ["reap", "claim", "force", "resubmit", "forget"])
def test_a_claim_made_stale_can_report_nothing(gate: Gate, ending: str) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    stale = claimed(ledger, "clean")
    if ending in ("reap", "claim"):
        expire(gate, "1")
    acts: dict[str, Callable[[], object]] = {
        "reap": ledger.reap,
        "claim": lambda: ledger.claim("clean", "1"),
        "force": lambda: ledger.force("clean", "1", reason=WHY, steal=True),
        "resubmit": lambda: ledger.resubmit("clean", "1", reason=WHY, steal=True),
        "forget": lambda: ledger.forget("clean", "1", reason=WHY, steal=True),
    }
    acts[ending]()
    before = everything(gate)
    for report in (ledger.success, ledger.fail, ledger.interrupt, ledger.heartbeat):
        with pytest.raises(ClaimLost) as lost:
            report(stale)
        assert (lost.value.job, lost.value.dataid, lost.value.token) == ("clean", "1", stale.token)
    assert everything(gate) == before


def test_repeating_a_report_succeeds_and_changes_nothing(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    one, two = claimed(ledger, "clean"), claimed(ledger, "clean")
    ledger.success(one)
    ledger.fail(two, "boom")
    before = everything(gate)
    ledger.success(one)
    ledger.fail(two, "boom")
    assert everything(gate) == before
    with pytest.raises(ClaimLost, match="it is not running: it is READY"):
        ledger.fail(one, "after all")


def test_tokens_keep_growing_after_forget(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    tokens = []
    for _ in range(3):
        claim = claimed(ledger, "clean")
        tokens.append(claim.token)
        ledger.success(claim)
        ledger.forget("clean", "1", reason=WHY)
    assert tokens == sorted(set(tokens))


def test_tokens_keep_growing_after_all_locks_are_released(gates: Gates) -> None:
    ledger = one_job(gates.open())
    ledger.publish("raw", ["1", "2"])
    token = claimed(ledger, "clean").token
    gates.close()
    assert claimed(gates.open().ledger, "clean").token > token


def test_a_chunk_without_attempts_left_stays_error_and_explain_says_so(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=2)
    ledger.publish("raw", ["1", "2"])
    for _ in range(2):
        ledger.fail(ledger.claim("clean", "1"), "boom")
    assert status_of(ledger, "tidy", "1", "clean") == "ERROR"
    assert next_id(ledger, "clean") == "2", "it does not block others"
    with pytest.raises(ClaimRefused, match=r"it used up its attempts \(2 of 2 failed\)"):
        ledger.claim("clean", "1")
    assert "2 of 2 failed" in ledger.explain("clean", "1").sentence()
    ledger.resubmit("clean", "1", reason="mended")
    assert next_id(ledger, "clean") == "1"


def test_a_new_ready_of_an_input_starts_the_counts_again(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=1)
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "report"), "boom")
    assert next_id(ledger, "report") is None
    ledger.resubmit("clean", "1", reason=WHY)
    ledger.success(claimed(ledger, "clean"))
    assert claimed(ledger, "report").attempt == 2
    assert ledger.status("rep")[0].failures == 0


def test_a_chunk_that_kills_its_workers_ends_on_hold(gate: Gate) -> None:
    ledger = one_job(gate, max_crashes=2)
    ledger.publish("raw", ["1", "2"])
    for _ in range(2):
        ledger.claim("clean", "1")
        expire(gate, "1")
        assert ledger.reap() == 1
    assert status_of(ledger, "tidy", "1", "clean") == "HOLD"
    assert next_id(ledger, "clean") == "2"
    (row,) = ledger.status("tidy", dataid="1")
    assert (row.crashes, row.failures, row.former) == (2, 0, "ERROR")
    assert "lease expired" in row.message


def test_find_next_skips_chunks_that_killed_their_workers(gate: Gate) -> None:
    """Even if the last one was not reaped yet."""
    ledger = one_job(gate, max_crashes=1)
    ledger.publish("raw", "1")
    claimed(ledger, "clean")
    expire(gate, "1")
    with pytest.raises(ClaimRefused):
        ledger.claim("clean", "1")
    assert next_id(ledger, "clean") is None
    assert status_of(ledger, "tidy", "1", "clean") == "HOLD"


def test_on_failure_hold_waits_for_a_person(gate: Gate) -> None:
    ledger = one_job(gate, on_failure="hold")
    ledger.publish("raw", "1")
    ledger.fail(claimed(ledger, "clean"), "look at this")
    assert status_of(ledger, "tidy", "1", "clean") == "HOLD"
    assert next_id(ledger, "clean") is None
    ledger.unhold("clean", "1")
    assert status_of(ledger, "tidy", "1", "clean") == "ERROR"
    assert next_id(ledger, "clean") == "1"


def test_a_delay_lets_other_chunks_go_first_and_grows(gate: Gate) -> None:
    ledger = one_job(gate, retry_delay=1000)
    ledger.publish("raw", ["1", "2"])
    ledger.fail(claimed(ledger, "clean"), "boom")
    (row,) = ledger.status("tidy", dataid="1")
    assert row.retry_in is not None
    assert 900 < row.retry_in <= 1000
    assert "it can be retried in" in ledger.explain("clean", "1").sentence()
    assert [next_id(ledger, "clean") for _ in range(2)] == ["2", None]
    hurry(gate)
    ledger.fail(claimed(ledger, "clean"), "boom")
    (row,) = ledger.status("tidy", dataid="1")
    assert row.retry_in is not None
    assert 1900 < row.retry_in <= 2000


def test_a_short_delay_ends_by_itself(gate: Gate) -> None:
    ledger = one_job(gate, retry_delay=SHORT)
    ledger.publish("raw", "1")
    ledger.fail(claimed(ledger, "clean"), "boom")
    until(lambda: next_id(ledger, "clean") == "1", "the delay to end")


def test_a_repeated_request_returns_the_same_claim(gate: Gate) -> None:
    """A caller that lost the answer repeats the id and gets the same chunk; another id gets the next chunk."""
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2", "3"])
    first = ledger.find_next("clean", request_id="request-1")
    second = ledger.claim("clean", "2", request_id="request-2")
    before = everything(gate)
    for again, given in (
        (ledger.find_next("clean", request_id="request-1"), first),
        (ledger.claim("clean", "2", request_id="request-2"), second),
    ):
        assert again is not None
        assert given is not None
        assert (again.dataid, again.token, again.attempt) == (given.dataid, given.token, given.attempt)
    assert everything(gate) == before
    assert next_id(ledger, "clean") == "3"


def test_a_request_that_was_cut_off_is_recognised(gate: Gate) -> None:
    """If the answer was lost, the claim is not."""
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    first = ledger.find_next("clean", worker="me", lease=60)
    # A service keeps it under the caller's name.
    kept = database(gate).read(lambda tx: str(tx.all(KEPT_REQUEST)[0][0]))
    cut_off = Asker("me", 60.0, kept, fresh=True)
    again = database(gate).write(lambda tx: claiming.find_next(tx, "clean", cut_off, None), again=True)
    assert first is not None
    assert isinstance(again, type(first))
    assert (again.dataid, again.token) == (first.dataid, first.token)


def test_a_request_id_is_checked(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    with pytest.raises(BadValue):
        ledger.find_next("clean", request_id="x" * 201)
    assert ledger.status(job="clean") == []


def test_the_number_left_counts_the_chunks_that_the_job_can_claim(gate: Gate) -> None:
    """Chunks that are running, done, used up or lack an input are excluded, and so are those that wait for a retry."""
    ledger = one_job(gate, max_attempts=2, retry_delay=1000)
    assert ledger.left("clean") == 0
    ledger.publish("raw", ["1", "2", "3", "4"])
    assert (ledger.left("clean"), ledger.left("report")) == (4, 0)
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "clean"), "boom")
    claimed(ledger, "clean")
    assert (ledger.left("clean"), ledger.left("report")) == (2, 1)
    hurry(gate)
    ledger.fail(ledger.claim("clean", "2"), "boom")
    assert ledger.left("clean") == 1
    ledger.publish("raw", ["5", "6", "7"])
    assert (ledger.left("clean"), ledger.left("clean", 2)) == (4, 2)
    with pytest.raises(UnknownName):
        ledger.left("claen")


def test_work_reports_the_outcome_of_its_body(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=1)
    ledger.publish("raw", ["1", "2", "3"])
    done = []
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the loop itself raises
        for claim in ledger.work("clean", lease=5):
            done.append(claim.dataid)
            _ = 1 // (2 - len(done))
    assert done == ["1", "2"]
    assert [status_of(ledger, "tidy", dataid, "clean") for dataid in "123"] == ["READY", "ERROR", "absent"]
    assert [claim.dataid for claim in ledger.work("clean")] == ["3"]


def test_work_keeps_its_claim_alive(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    for claim in ledger.work("clean", lease=1.0):
        (before,) = ledger.status("tidy")
        until(lambda: _renewed(gate, before.expires_in), "a heartbeat")  # noqa: B023 - run at once
        assert claim.dataid == "1"
    assert status_of(ledger, "tidy", "1", "clean") == "READY"


def _renewed(gate: Gate, before: float | None) -> bool:
    (row,) = gate.ledger.status("tidy")
    assert before is not None
    assert row.expires_in is not None
    return row.expires_in > before


def test_work_says_that_its_claim_was_lost(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    with pytest.raises(ClaimLost):  # noqa: PT012 - the loop itself raises
        for claim in ledger.work("clean"):
            ledger.resubmit("clean", claim.dataid, reason=WHY, steal=True)
    assert status_of(ledger, "tidy", "1", "clean") == "RESUBMIT"


def test_the_status_lists_failed_chunks_newest_first(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.define_job("mail", inputs=["raw"])
    ledger.publish("raw", ["1", "2"])
    ledger.fail(claimed(ledger, "clean"), "first")
    ledger.fail(claimed(ledger, "mail"), "second")
    found = gate.status()["failures"]
    assert [(each["id"], each["job"], each["message"]) for each in found] == [
        ("data:raw/1", "mail", "second"), ("data:tidy/1", "clean", "first"),
    ]  # fmt: skip


def test_the_doctor_finds_unreaped_claims_of_dead_workers(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=3)
    ledger.publish("raw", ["1", "2"])
    for _ in range(2):
        assert ledger.find_next("clean", worker="w") is not None
    expire(gate, "1")
    assert dead_workers.faults(ledger) == [], "a reaper may be on its way"
    expire(gate, "1", dead_workers.LONG_GONE_SECONDS + 1)
    (fault,) = gate.faults()
    assert (fault.kind, fault.item) == ("dead-worker", "clean/1")
    assert sorted(row.dataid for row in ledger.running()) == ["1", "2"]
    assert gate.repair(fault, by="me")
    assert gate.faults() == []
    assert [status_of(ledger, "tidy", dataid, "clean") for dataid in "12"] == ["ERROR", "RUNNING"]


def test_plan_explain_and_the_doctor_agree_about_a_claim_whose_lease_has_expired(gate: Gate) -> None:
    """The chunk that find_next would return; the row shows that its worker died; a delay after a crash blocks
    everywhere.
    """
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    assert ledger.find_next("clean", worker="w7") is not None
    expire(gate, "1", 5)
    verdict = ledger.explain("clean", "1")
    says = "OUTPUT tidy/1 of clean is RUNNING by w7, lease expired"
    assert (verdict.granted, [each.dataid for each in ledger.plan("clean").next]) == (True, ["1", "2"])
    assert any(each.text.startswith(says) for each in verdict.conditions)
    (notice,) = gate.notices()
    assert re.match(rf"{says} \d+ s ago: its worker died; the next worker or the reaper frees it", notice)
    one_job(gate, retry_delay=60)
    assert [each.dataid for each in ledger.plan("clean").next] == ["2"]
    (blocked,) = ledger.plan("clean").blocked
    assert blocked.blockers[0].text == "it may be retried 1 min after its dead claim is reaped"
    with pytest.raises(ClaimRefused):
        ledger.claim("clean", "1")
    assert next_id(ledger, "clean") == "2"

"""Interruptions on every store: a worker that is asked to stop has not failed."""

import threading
from collections.abc import Callable

import pytest

from headgate import Gate
from headgate.core.errors import BadValue, ClaimLost
from headgate.core.ledger.model import Row
from headgate.service.ledger.use_cases import Ledger
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import WHY, claimed, everything, expire, next_id, one_job, status_of, told
from tests.contract.over_http import HTTP

pytestmark = pytest.mark.parametrize("kind", [*SQL_STORES, HTTP])
STOP = "interrupted by SIGTERM"


def row_of(gate: Gate, dataid: str) -> Row:
    (row,) = gate.ledger.status("tidy", "clean", dataid, kind="OUTPUT")
    return row


def counts(row: Row) -> tuple[int, int, int, int]:
    return row.attempt, row.failures, row.crashes, row.interruptions


def test_an_interruption_counts_as_nothing_but_itself_and_its_chunk_goes_first(gate: Gate) -> None:
    """Its counts are those before the claim; repeating the report changes nothing; a dead claim may report it too."""
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    ledger.fail(ledger.claim("clean", "2"), "boom")
    stopped = ledger.claim("clean", "2")
    ledger.interrupt(stopped, STOP)
    row = row_of(gate, "2")
    assert (row.status, counts(row), row.message, row.token) == ("RESUBMIT", (1, 1, 0, 1), STOP, stopped.token)
    assert ledger.status("raw", "clean", "2", kind="INPUT") == []
    assert told(gate, "clean", "2")[-1] == ("interrupt", "RUNNING", "RESUBMIT")
    verdict = ledger.explain("clean", "2")
    assert verdict.sentence() == "clean may claim 2 (first: it was interrupted)"
    assert any(each.text == "it was interrupted once; it is held after 10" for each in verdict.conditions)
    before = everything(gate)
    ledger.interrupt(stopped, "again")
    for report in (ledger.success, ledger.fail, ledger.heartbeat):
        with pytest.raises(ClaimLost, match="it is not running: it is RESUBMIT"):
            report(stopped)
    assert everything(gate) == before
    again = claimed(ledger, "clean")
    assert (again.dataid, again.attempt) == ("2", 2)
    expire(gate, "2")
    ledger.interrupt(again, STOP)
    assert (row_of(gate, "2").status, counts(row_of(gate, "2"))) == ("RESUBMIT", (1, 1, 0, 2))
    with pytest.raises(ClaimLost):
        ledger.interrupt(stopped, STOP)
    ledger.success(claimed(ledger, "clean"))
    with pytest.raises(ClaimLost):
        ledger.interrupt(again, STOP)
    assert (row_of(gate, "2").status, next_id(ledger, "clean")) == ("READY", "1")


def test_a_chunk_that_is_always_interrupted_is_held_and_explain_says_why(gate: Gate) -> None:
    ledger = one_job(gate, max_interruptions=2)
    ledger.publish("raw", "1")
    for _ in range(2):
        ledger.interrupt(claimed(ledger, "clean"), STOP)
    row = row_of(gate, "1")
    assert (row.status, row.former, counts(row)) == ("HOLD", "RESUBMIT", (0, 0, 0, 2))
    assert row.message == f"{STOP}; held after 2 interruptions (max_interruptions is 2)"
    assert row.message in ledger.explain("clean", "1").sentence()
    assert next_id(ledger, "clean") is None
    ledger.unhold("clean", "1")
    claim = claimed(ledger, "clean")
    ledger.interrupt(claim, STOP)
    assert row_of(gate, "1").status == "HOLD"
    ledger.interrupt(claim, STOP)
    ledger.resubmit("clean", "1", reason=WHY)
    assert counts(row_of(gate, "1")) == (0, 0, 0, 0)
    ledger.interrupt(claimed(ledger, "clean"), STOP)
    ledger.set_status("raw", "1", "external", "OUTPUT", "RESUBMIT", reason=WHY)
    ledger.publish("raw", "1")
    assert (row_of(gate, "1").status, row_of(gate, "1").interruptions) == ("RESUBMIT", 0)
    # Without a limit it is never held.
    one_job(gate, max_interruptions=0)
    for _ in range(3):
        ledger.interrupt(claimed(ledger, "clean"), STOP)
    assert (row_of(gate, "1").status, row_of(gate, "1").interruptions) == ("RESUBMIT", 3)


def test_a_word_that_blocked_before_a_forced_claim_comes_back(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    for word in ("PENDING", "lunch"):
        ledger.set_status("tidy", "1", "clean", "OUTPUT", word, reason=WHY)
        ledger.force("clean", "1", reason=WHY)
        claim = ledger.force("clean", "1", reason=WHY, steal=True)
        ledger.interrupt(claim, STOP)
        ledger.interrupt(claim, STOP)
        assert row_of(gate, "1").status == word
    ledger.hold("clean", "1", reason=WHY)
    ledger.interrupt(ledger.force("clean", "1", reason=WHY), STOP)
    assert (row_of(gate, "1").status, row_of(gate, "1").former) == ("HOLD", "RESUBMIT")
    # A known failure is not an interruption, even if the chunk is held as well.
    one_job(gate, on_failure="hold")
    claim = ledger.force("clean", "1", reason=WHY)
    ledger.fail(claim, "no")
    with pytest.raises(ClaimLost):
        ledger.interrupt(claim, STOP)


def test_a_job_that_makes_nothing_is_interrupted_too(gate: Gate) -> None:
    """Its rows are removed, and the history counts: INPUT rows never become RESUBMIT."""
    ledger = gate.ledger
    for name in ("raw", "beside"):
        ledger.define_dataset(name)
        ledger.publish(name, ["1", "2"])
    ledger.define_job("mail", inputs=["raw", "beside"], max_interruptions=2)
    ledger.success(claimed(ledger, "mail"))
    claim = claimed(ledger, "mail")
    ledger.interrupt(claim, STOP)
    ledger.interrupt(claim, STOP)
    assert ledger.status("raw", "mail", "2") == ledger.status("beside", "mail", "2") == []
    assert told(gate, "mail", "2")[-1] == ("interrupt", "RUNNING", "absent")
    assert ledger.failures() == []
    with pytest.raises(ClaimLost):
        ledger.interrupt("mail", STOP, "2", claim.token + 1)
    ledger.interrupt(claimed(ledger, "mail"), STOP)
    (held,) = ledger.status("raw", "mail", "2")
    assert (held.status, held.former, held.interruptions) == ("HOLD", "", 2)
    assert held.message == f"{STOP}; held after 2 interruptions (max_interruptions is 2)"
    ledger.unhold("mail", "2")
    claim = claimed(ledger, "mail")
    ledger.interrupt(claim, STOP)
    ledger.interrupt(claim, STOP)
    assert status_of(ledger, "raw", "2", "mail", "INPUT") == "HOLD"
    for again in (lambda: ledger.resubmit("mail", "2", reason=WHY), lambda: _publish_again(ledger, "beside", "2")):
        again()
        ledger.interrupt(claimed(ledger, "mail"), STOP)
        assert ledger.status("raw", "mail", "2") == [], "the counts were reset"
    ledger.fail(claimed(ledger, "mail"), "no")
    ledger.success(claimed(ledger, "mail"))
    assert next_id(ledger, "mail") is None


def _publish_again(ledger: Ledger, dataset: str, dataid: str) -> None:
    ledger.set_status(dataset, dataid, "external", "OUTPUT", "RESUBMIT", reason=WHY)
    ledger.publish(dataset, dataid)


def test_an_unknown_word_on_an_input_row_blocks(gate: Gate) -> None:
    """RESUBMIT is not a status of INPUT rows: set by hand, it locks like any unknown word."""
    gate.ledger.define_dataset("raw")
    gate.ledger.publish("raw", "1")
    gate.ledger.define_job("mail", inputs=["raw"])
    gate.ledger.set_status("raw", "1", "mail", "INPUT", "RESUBMIT", reason=WHY)
    assert next_id(gate.ledger, "mail") is None


def test_how_a_loop_over_chunks_ends_is_what_is_reported(gate: Gate) -> None:
    """KeyboardInterrupt, SystemExit, the stop event and `break` interrupt; another error is a failure with its text."""
    ledger = one_job(gate)
    ledger.publish("raw", "1")

    def fails(error: BaseException) -> None:
        with pytest.raises(type(error)), ledger.work("clean") as chunks:  # noqa: PT012 - the loop itself raises
            for _ in chunks:
                raise error

    for error in (KeyboardInterrupt(), SystemExit(3)):
        fails(error)
        assert (row_of(gate, "1").status, row_of(gate, "1").message) == (
            "RESUBMIT",
            f"interrupted by {type(error).__name__}",
        )
    with ledger.work("clean") as chunks:
        for _ in chunks:
            break
    assert counts(row_of(gate, "1")) == (0, 0, 0, 3)
    fails(ValueError("bad rate"))
    assert (row_of(gate, "1").status, row_of(gate, "1").message) == ("ERROR", "ValueError: bad rate")
    for _ in ledger.work("clean"):  # Python closes the iterator of a plain `for` without the error.
        break
    assert row_of(gate, "1").message.endswith("; to record the reason, use: with ledger.work(…) as chunks")
    stop = threading.Event()
    for _ in ledger.work("clean", stop=stop):
        stop.set()
    assert (row_of(gate, "1").status, counts(row_of(gate, "1"))) == ("RESUBMIT", (2, 2, 0, 4))
    assert list(ledger.work("clean", stop=stop)) == []
    stop.clear()
    for claim in ledger.work("clean", stop=stop):
        ledger.success(claim)
        stop.set()
    assert row_of(gate, "1").status == "READY"


def test_a_job_may_trust_the_end_of_a_body_that_was_asked_to_stop(gate: Gate) -> None:
    ledger = one_job(gate, stop_exit="trust")
    ledger.publish("raw", ["1", "2"])
    stop = threading.Event()
    for _ in ledger.work("clean", stop=stop):
        stop.set()
    assert row_of(gate, "1").status == "READY"
    assert ledger.job("clean")[0].stop_exit == claimed(ledger, "clean").stop_exit == "trust"
    wrong: list[Callable[[], object]] = [
        lambda: one_job(gate, stop_exit="maybe"),
        lambda: one_job(gate, max_interruptions=-1),
    ]
    for define in wrong:
        with pytest.raises(BadValue):
            define()

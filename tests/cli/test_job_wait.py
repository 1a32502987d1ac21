"""Waiting for chunks and watching items: both end with their subject, and the exit code shows how."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from headgate import connect
from headgate.cli.ledger.dataids import Selection
from headgate.core.ledger.model import Row
from headgate.core.ledger.ranges import expand
from headgate.core.logs import LogStream, LogText
from tests.cli.commands import Headgate
from tests.contract.ledger_steps import one_job
from tests.contract.queue_steps import batch_in


def test_waiting_ends_with_the_chunks_and_reports_their_outcome(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        ledger = one_job(gate, max_attempts=2)
        assert headgate("job", "wait", "clean").code == 0  # There is nothing to wait for.
        ledger.publish("raw", ["1", "2", "3"])
        ledger.claim("clean", "1", worker="node7")
        late = headgate("job", "wait", "clean", "1..2", "--timeout", "0s", "--json")
        assert (late.code, late.json["ended"], late.json["left"], late.json["waiting"]) == (75, False, 2, ["1", "2"])
        for dataid in ("2", "3"):
            ledger.success(ledger.claim("clean", dataid))
        assert headgate("job", "wait", "clean", "2..3").out == "finished: clean\n"
        running = next(row for row in ledger.status("tidy", "clean", "1"))
        ledger.fail("clean", "broken", "1", running.token)
        # It will be retried.
        assert headgate("job", "wait", "clean", "--timeout", "0s").code == 75
        ledger.fail(ledger.claim("clean", "1"), "broken again")
        for words in (["1..3"], []):
            done = headgate("job", "wait", "clean", *words)
            assert done.code == 1
            assert "1 chunk of clean failed or held:\n  1  ERROR: broken again\n" in done.out
            assert "headgate job explain clean 1" in done.out
        assert headgate("job", "wait", "cleam").code == 2


def test_wait_names_what_it_waits_for_and_works_from_python(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        ledger = one_job(gate)
        ledger.publish("raw", ["1"])
        claim = ledger.claim("clean", "1")
        process = headgate.start("job", "wait", "clean", "1")
        assert process.stderr is not None
        assert process.stderr.readline() == b"waiting for 1 chunk of clean: 1\n"
        assert ledger.wait("clean", ["1"], timeout=0).left == 1
        done = threading.Thread(target=ledger.success, args=(claim,))
        done.start()
        assert ledger.wait("clean", ["1"], timeout=30).ended
        assert process.wait(30) == 0
        done.join()


def test_waiting_for_many_chunks_queries_few_at_a_time(headgate: Headgate, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(headgate.url) as gate:
        ledger = one_job(gate)
        ledger.publish("raw", [str(number) for number in range(1, 26)])
        asked: list[object] = []
        ask = ledger.status

        def status(*words: str, **more: Any) -> Sequence[Row]:
            asked.append(words)
            return ask(*words, **more)

        monkeypatch.setattr(ledger, "status", status)
        following = ledger.following("clean", Selection([expand("1..100000000")]))
        assert following.now().left == 100_000_000
        assert len(asked) == 20
        for claim in ledger.work("clean"):
            assert claim.lease
        asked.clear()
        found = following.now()
        assert (found.left, found.waiting[0]) == (100_000_000 - 25, "26")
        assert len(asked) == 45, "25 that are finished, and 20 that are not"


@pytest.mark.parametrize(("well", "code"), [(True, 0), (False, 1)])
def test_watching_a_batch_or_job_ends_with_it(headgate: Headgate, well: bool, code: int) -> None:
    with connect(headgate.url) as gate:
        batch = batch_in(gate.queue, "completed" if well else "failed", well=well)
        job = gate.queue.jobs(batch=batch.id)[0]
    assert headgate("ingest", "batch", batch.id, "--watch").code == code
    assert headgate("ingest", "job", job.id, "--watch").code == code
    assert headgate("ingest", "batch", batch.id).code == 0


def test_an_error_is_never_marked_as_fine(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        ledger = one_job(gate)
        ledger.publish("raw", ["1"])
        ledger.fail(ledger.claim("clean", "1"), "broken")
    shown = headgate("job", "explain", "clean", "1").out
    assert "  err  OUTPUT tidy/1 of clean is ERROR: broken" in shown
    assert not any(line.startswith("  yes") and "ERROR" in line for line in shown.splitlines())
    marks = [each["failed"] for each in headgate("job", "explain", "clean", "1", "--json").json["conditions"]]
    assert marks == [False, True]


def test_explain_names_the_command_that_makes_a_chunk_run_again(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        ledger = one_job(gate, max_attempts=1)
        ledger.publish("raw", ["1", "2"])
        claim = ledger.claim("clean", "1")
        ledger.keep_log(claim, [LogText(LogStream.STDERR, "no rates", 8)], ended=True)
        ledger.fail(claim, "broken")
        ledger.hold("clean", "2", reason="wrong rates")
    again = headgate("job", "explain", "clean", "1").err
    assert again.splitlines() == [
        "to run it again: headgate job resubmit clean 1 --reason why", "its output: headgate job logs clean 1",
    ]  # fmt: skip
    release = headgate("job", "explain", "clean", "2").err
    assert release == "to release it: headgate job unhold clean 2\n"
    for line in (again.splitlines()[1], again.splitlines()[0], release):
        assert headgate(*line.partition(": headgate ")[2].split()).code == 0
    assert headgate("job", "explain", "clean", "1").err == headgate("job", "explain", "clean", "2").err == ""

"""Stopping `job run`: an interruption is not a failure, and no number of signals loses a report."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate as library
from headgate.core.ledger.model import Row
from headgate.service.ledger.use_cases import Ledger
from tests.cli.commands import Headgate, read_number
from tests.cli.stubborn import blocked
from tests.waiting import until

TEN = "1 2 3 4 5 6 7 8 9 10"


@pytest.fixture
def pipeline(headgate: Headgate, ledger: Ledger) -> Headgate:
    for name in ("raw", "tidy"):
        ledger.define_dataset(name)
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    ledger.publish("raw", ["1", "2", "3"])
    return headgate


@pytest.fixture
def ledger(headgate: Headgate) -> Iterator[Ledger]:
    with library.connect(headgate.url) as gate:
        yield gate.ledger


def row_of(ledger: Ledger, dataid: str) -> Row:
    (row,) = ledger.status("tidy", "clean", dataid, kind="OUTPUT")
    return row


def unreported(headgate: Headgate) -> Counter[str]:
    """Number of claims without a report, by chunk; a report without a claim would be negative."""
    with library.connect(headgate.url) as gate:
        told = gate.history(job="clean", limit=10_000)
    count = Counter[str]()
    for entry in told:
        count[entry.resource] += entry.event == "claim"
        count[entry.resource] -= entry.event in ("success", "fail", "interrupt")
    return Counter({chunk: number for chunk, number in count.items() if number})


def test_a_stopped_command_is_interrupted_whatever_its_exit_code(pipeline: Headgate, ledger: Ledger) -> None:
    """A shell script continues when its child is killed, and succeeds, which is not its own success."""
    scripts = (
        "trap 'asked=1' TERM; kill -TERM $PPID; until [ $asked ]; do sleep 0.01; done; exit 0",
        f"trap 'exit 9' TERM; for i in {TEN}; do kill -TERM $PPID; done; while :; do sleep 0.01; done",
        f"trap '' TERM INT; for i in {TEN}; do kill -INT $PPID; kill -TERM $PPID; done; exit 0",
    )
    ends = ("exit code 0", "exit code 9", "exit code 0")
    for times, (script, end) in enumerate(zip(scripts, ends, strict=True), 1):
        done = pipeline("job", "run", "clean", "--", "sh", "-c", script)
        name = "SIGINT" if times == 3 else "SIGTERM"
        why = f"interrupted by {name} ({end})"
        assert done.code == 128 + signal.Signals[name]
        assert done.err.endswith(f"headgate: clean 1: {why}; no attempt was used up\n")
        row = row_of(ledger, "1")
        assert (row.status, row.attempt, row.failures, row.interruptions, row.message) == ("RESUBMIT", 0, 0, times, why)
    # If all processes of a job are signalled, the command may die first.
    late = "setsid sh -c 'echo >up; while kill -0 $1 2>/dev/null; do :; done; kill -TERM $0' $PPID $$"
    script = f"{late} & until [ -e up ]; do sleep 0.01; done; kill -TERM $$"
    assert pipeline("job", "run", "clean", "--", "sh", "-c", script).code == 143
    assert row_of(ledger, "1").message == "interrupted by SIGTERM (ended by signal 15)"
    # Only the command is killed: that is a failure.
    assert pipeline("job", "run", "clean", "--", "sh", "-c", "kill -TERM $$").code == 143
    assert (row_of(ledger, "1").status, row_of(ledger, "1").message) == ("ERROR", "ended by signal 15")


def test_signals_after_the_commands_end_lose_no_report(pipeline: Headgate, ledger: Ledger) -> None:
    """They arrive while the worker reaps and reports, twenty in a row, from a process that the command left behind."""
    script = f"setsid sh -c 'for i in {TEN}; do kill -TERM $0; kill -INT $0; done' $PPID & exit 0"
    codes = [pipeline("job", "run", "clean", "--", "sh", "-c", script).code for _ in range(8)]
    assert set(codes) <= {0, 3, 143, 130}
    assert unreported(pipeline) == {}
    assert not [row for row in ledger.status("tidy") if row.failures or row.crashes]


def test_a_report_is_retried_despite_signals_until_the_store_accepts_it(pipeline: Headgate, ledger: Ledger) -> None:
    process = pipeline.start(
        "job", "run", "clean", "--", "sh", "-c", "echo $$ >pid; until [ -e go ]; do sleep 0.01; done"
    )
    child = read_number(pipeline.folder / "pid")
    with blocked(pipeline):
        (pipeline.folder / "go").touch()
        until(lambda: not Path(f"/proc/{child}").exists(), "the command to be reaped")
        for _ in range(10):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
        assert process.poll() is None
    # The first ones may have arrived while the command's end was being determined.
    outcomes = {(0, "READY"), (143, "RESUBMIT"), (130, "RESUBMIT")}
    assert (process.wait(30), row_of(ledger, "1").status) in outcomes
    assert unreported(pipeline) == {}


def test_ten_signals_at_any_moment_lose_no_report(pipeline: Headgate, ledger: Ledger) -> None:
    """From the start of the process on: before and during claims, while commands are running, and at their end."""
    ledger.publish("raw", [str(number) for number in range(4, 30)])
    for moment in ("started", "claimed", "running"):
        script = "echo $$ >pid; exec sleep 60" if moment == "running" else "sleep 0.05"
        process = pipeline.start("job", "run", "clean", "--loop", "--workers", "2", "--", "sh", "-c", script)
        if moment == "claimed":
            until(lambda: bool(ledger.status("tidy")), "a claim")
        elif moment == "running":
            read_number(pipeline.folder / "pid")
        for number in (signal.SIGTERM, signal.SIGINT) * 5:
            if process.poll() is None:
                os.kill(process.pid, number)
        assert process.wait(30) in (143, 130, -15, -2)
        assert unreported(pipeline) == {}, moment
    assert not [row for row in ledger.status("tidy") if row.failures or row.crashes]
    assert {row.status for row in ledger.status("tidy", kind="OUTPUT")} <= {"READY", "RESUBMIT"}


def test_a_loop_that_ends_beside_a_running_claim_says_so(pipeline: Headgate, ledger: Ledger) -> None:
    claim = ledger.claim("clean", "2", worker="db1:77")
    done = pipeline("job", "run", "clean", "--loop", "--", "true")
    plan = "see: headgate job plan clean"
    assert done.code == 0
    assert done.err.endswith(f"nothing to do for clean, but 1 chunk is still running: 2 by db1:77; {plan}\n")
    assert (
        pipeline("job", "interrupt", "clean", "2", "--token", str(claim.token), "--message", "node drained").code == 0
    )
    assert (row_of(ledger, "2").status, row_of(ledger, "2").message) == ("RESUBMIT", "node drained")

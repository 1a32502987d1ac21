"""The end of consumers: on request, by a kill, without a store; and what happens to their items."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate import Gate, StoreUnavailable, connect
from tests.cli.commands import Headgate, gone, read_number
from tests.daemons.queues import STEPS, bring_to, counts, ended, everything, fill, moves, opened, states
from tests.daemons.test_consumers import JOB, Script, start, stop, told
from tests.fresh import fresh
from tests.servers import PrivateServer
from tests.waiting import until

#: Runs until a file exists; prints its process id first.
SLOW = "echo $$ >pid.$$; mv pid.$$ pid; until test -e go; do sleep 0.05; done"


def test_after_the_first_signal_running_work_may_finish(headgate: Headgate, script: Script) -> None:
    with opened(headgate) as gate:
        fill(gate, jobs=2)
        process = start(headgate, "--exec", f"job-pending={script('slow', SLOW)}")
        read_number(headgate.folder / "pid")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert any(json.loads(line)["event"] == "consumer.stopping" for line in process.stderr)
        (headgate.folder / "go").touch()
        assert process.wait(60) == 0
        assert counts(gate) == {"estimating": 1, "pending": 1}


@pytest.mark.parametrize("hurried", [False, True], ids=["grace over", "second signal"])
def test_work_that_does_not_finish_in_time_is_stopped_and_returned_to_the_queue(
    on_sqlite: Headgate, script: Script, hurried: bool
) -> None:
    """A command that ignores SIGTERM is killed; its job is free in the same state at once."""
    with opened(on_sqlite) as gate:
        fill(gate)
        stubborn = script("stubborn", "trap '' TERM; " + SLOW)
        words = ["--exec", f"job-pending={stubborn}", "--grace", "60" if hurried else "0.2"]
        process = start(on_sqlite, *words)
        child = read_number(on_sqlite.folder / "pid")
        process.send_signal(signal.SIGTERM)
        if hurried:
            assert process.stderr is not None
            assert any(json.loads(line)["event"] == "consumer.stopping" for line in process.stderr)
            process.send_signal(signal.SIGTERM)
        until(lambda: gate.queue.job(JOB).worker == "", "the job to be free")
        assert gone(child)
        assert gate.queue.acquire_job("pending") is not None
        assert process.wait(60) == 0


def test_a_python_handler_that_hangs_is_abandoned_and_its_job_released(on_sqlite: Headgate) -> None:
    (on_sqlite.folder / "mine.py").write_text(
        "import time, pathlib\n"
        "def hang(item, hold):\n    pathlib.Path('pid').write_text('1\\n')\n    while True: time.sleep(1)\n"
    )
    with opened(on_sqlite) as gate:
        fill(gate)
        process = start(on_sqlite, "--handler", "job-pending=mine:hang", "--grace", "0.1")
        read_number(on_sqlite.folder / "pid")
        lines = stop(process, signal.SIGINT)
        assert [each["item"] for each in told(lines, "consumer.handed_back")] == [JOB]
        assert (gate.queue.job(JOB).state, gate.queue.job(JOB).worker) == ("pending", "")


def test_a_killed_consumer_ends_its_command_and_the_job_is_taken_again(headgate: Headgate, script: Script) -> None:
    with opened(headgate) as gate:
        fill(gate)
        bring_to(gate, "processing")
        words = ["--exec", f"job-processing={script('slow', SLOW)}", "--lease", "1"]
        process = start(headgate, *words)
        child = read_number(headgate.folder / "pid")
        before = gate.queue.job(JOB)
        process.kill()
        process.wait(60)
        until(lambda: gone(child), "the command to end")
        assert gate.queue.job(JOB).state == "processing"
        (headgate.folder / "go").touch()
        again = start(headgate, *words)
        until(lambda: gate.queue.job(JOB).state == "recording", "the job to be taken again")
        stop(again)
        assert gate.queue.job(JOB).token > before.token
        assert moves(gate, JOB)[-1:] == [("processing", "recording")]


def test_losing_the_lease_stops_the_command_and_its_report_is_refused(on_sqlite: Headgate, script: Script) -> None:
    """The consumer is suspended past its lease; the job runs elsewhere; the late report changes nothing."""
    with opened(on_sqlite) as gate:
        fill(gate)
        process = start(on_sqlite, "--exec", f"job-pending={script('slow', SLOW)}", "--lease", "1")
        child = read_number(on_sqlite.folder / "pid")
        until(lambda: is_stopped_outside_a_transaction(process.pid, on_sqlite.url), "a moment between its writes")
        until(lambda: gone(child), "the guardian to end the command")
        until(lambda: accept_one(gate), "the job to be free")
        os.kill(process.pid, signal.SIGCONT)
        lines = stop(process)
        assert gate.queue.job(JOB).state == "estimating"
        assert len(moves(gate, JOB, "accept")) == 1
        assert told(lines, "consumer.lost") or told(lines, "consumer.report_refused")


def test_killed_again_and_again_every_job_ends_once(headgate: Headgate) -> None:
    """Consumers are killed at random points; afterwards each job has passed each step exactly once."""
    jobs, kills = 12, 6
    (headgate.folder / "headgate.toml").write_text("max_crashes = 0\n")  # Any number of kills may hit the same job.
    with opened(headgate) as gate:
        batch = fill(gate, jobs=jobs)
        words = [*everything("sleep 0.02"), "--exec", "batch-reporting=true", "--lease", "1", "--workers", "2"]
        for number in range(kills):
            process = start(headgate, *words)
            done = number * jobs * len(STEPS) // (2 * kills)
            until(lambda done=done: len(moved(headgate)) > done, "some progress")  # type: ignore[misc]
            process.kill()
            process.wait(60)
        process = start(headgate, *words)
        until(lambda: gate.queue.batch(batch).state == "completed", "the batch to end", 90)
        stop(process)
        # The cleaner removes the files of completed jobs sooner or later.
        assert ended(gate) == jobs
        for job in states(gate):
            assert [before for before, _after in moves(gate, job)] == list(STEPS[1:])
            assert len(moves(gate, job, "accept")) == 1
        assert len(moves(gate, batch, "report")) == 1
        assert gate.queue.faults() == []


def moved(command: Headgate) -> list[object]:
    """All steps that were passed so far."""
    with opened(command) as gate:
        found = [gate.history(item="bid0000000001", event=event, limit=1000) for event in ("accept", "finish")]
    return [*found[0], *found[1]]


def is_stopped_outside_a_transaction(pid: int, url: str) -> bool:
    """Stop it, and continue it at once if it has locked the file, so that others can take the job."""
    os.kill(pid, signal.SIGSTOP)
    try:
        with connect(url, answer_within="0.3") as probe:
            probe.locks.release(probe.locks.acquire("probe", "probe", "exclusive"))
    except StoreUnavailable:
        os.kill(pid, signal.SIGCONT)
        return False
    return True


def accept_one(gate: Gate) -> bool:
    job = gate.queue.acquire_job("pending")
    return job is not None and gate.queue.fire(job, "accept").state == "estimating"


def test_a_store_that_is_away_at_the_start_and_in_the_middle_is_survived(
    private_server: Callable[[str], PrivateServer], tmp_path: Path, script: Script
) -> None:
    server = private_server("postgresql")
    command = Headgate(fresh(server.url), tmp_path)
    with opened(command) as gate:
        fill(gate, jobs=2)
    server.kill()
    process = start(command, *everything(script("slow", "test -e go || " + SLOW)))
    try:
        await_event(process, "daemon.store_away")
        server.start()
        read_number(tmp_path / "pid")
        server.kill()
        (tmp_path / "go").touch()
        await_event(process, "consumer.store_away")
        server.start()
        with opened(command) as gate:
            until(lambda: ended(gate) == 2, "both jobs to end", 90)
            stop(process)
            for job in states(gate):
                assert len(moves(gate, job)) == len(STEPS) - 1
    finally:
        command.end_all()


def await_event(process: "subprocess.Popen[bytes]", name: str) -> None:
    assert process.stderr is not None
    assert any(json.loads(line)["event"] == name for line in process.stderr)


WRONG = {
    "no handler": ["job-pending"],
    "nearest name": ["job-pendng"],
    "a handler for nobody": ["reaper", "--exec", "job-pending=true"],
    "a handler that is not needed": ["--exec", "reaper=true"],
    "both": ["--exec", "job-pending=true", "--handler", "job-pending=os:getpid"],
    "twice": ["--exec", "job-pending=true", "--exec", "job-pending=false"],
    "no name": ["--exec", "true"],
    "no command": ["--exec", "job-pending= "],
    "unknown command": ["--exec", "job-pending=./no-such-thing"],
    "open quote": ["--exec", "job-pending='a"],
    "no module": ["--handler", "job-pending=no_such_module:f"],
    "not a function": ["--handler", "job-pending=os:no_such_function"],
    "not MODULE:FUNCTION": ["--handler", "job-pending=os"],
    "once": ["--once", "--exec", "job-pending=true"],
    "no lease": ["--exec", "job-pending=true", "--lease", "0"],
    "no worker": ["--exec", "job-pending=true", "--workers", "0"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_said_at_once(on_sqlite: Headgate, words: list[str]) -> None:
    done = on_sqlite("daemon", *words)
    assert done.code == 2, done.err
    assert any(word in done.err for word in ("job-pending", "reaper", "lease", "NAME", "workers")), done.err

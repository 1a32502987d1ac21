"""`headgate work` as a real process: all jobs of a pipeline file, with its commands."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate as library
from headgate.core.ledger.model import COMMANDS_EVENT, Row
from headgate.service.ledger.use_cases import Ledger
from tests.cli.commands import Headgate, gone, read_number
from tests.cli.terminal import HEIGHT, typed
from tests.waiting import until

CHAIN = """
dataset = {{ raw = {{}}, tidy = {{}}, report = {{}} }}
[job.sum]
inputs = ["tidy"]
outputs = ["report"]
command = {sum}
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
{more}
command = {clean}
"""
MONTHS = """
dataset = { days = {}, months = {} }
[job.monthly]
inputs = ["days"]
outputs = ["months"]
command = "cat $HEADGATE_INPUT_IDS_FILE >$HEADGATE_DATAID"
[job.monthly.maps.days]
kind = "period"
period = "month"
unit = "day"
"""


@pytest.fixture
def ledger(headgate: Headgate) -> Iterator[Ledger]:
    with library.connect(headgate.url) as gate:
        yield gate.ledger


def write(command: Headgate, text: str) -> Path:
    path = command.folder / "pipeline.toml"
    path.write_text(text)
    assert command("define", str(path)).code == 0
    return path


def chain(command: Headgate, clean: object = "true", of_sum: object = "true", more: str = "", count: int = 3) -> Path:
    path = write(command, CHAIN.format(clean=json.dumps(clean), sum=json.dumps(of_sum), more=more))
    assert command("data", "publish", "raw", f"1..{count}").code == 0
    return path


def statuses(ledger: Ledger, dataset: str) -> dict[str, str]:
    return {row.dataid: row.status for row in ledger.status(dataset, kind="OUTPUT")}


def row_of(ledger: Ledger, dataid: str) -> Row:
    (row,) = ledger.status("tidy", "clean", dataid, kind="OUTPUT")
    return row


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_job_continues_with_what_another_makes(headgate: Headgate, ledger: Ledger) -> None:
    """Commands run in the folder of the file, wherever `work` was started; the file may list jobs in any order."""
    elsewhere = headgate.folder / "elsewhere"
    elsewhere.mkdir()
    path = chain(headgate, "echo $HEADGATE_DATAID >made-$HEADGATE_DATAID", ["sh", "-c", "cat made-$HEADGATE_DATAID"])
    there = Headgate(headgate.url, elsewhere)
    done = there("work", "-f", str(path))
    assert (done.code, done.out) == (0, ""), done.err
    assert "clean: 3 done, 0 failed, 0 left" in done.err
    assert statuses(ledger, "report") == {"1": "READY", "2": "READY", "3": "READY"}
    assert (headgate.folder / "made-2").read_text() == "2\n"
    assert there("work", "-f", str(path)).err == "nothing to do for clean, sum\n"


def test_a_month_is_made_when_its_days_are_ready(headgate: Headgate, ledger: Ledger) -> None:
    write(headgate, MONTHS)
    headgate("data", "publish", "days", "2026-02-01..2026-03-02")
    assert headgate("work").code == 0
    assert statuses(ledger, "months") == {"2026-02": "READY"}
    assert (headgate.folder / "2026-02").read_text().splitlines() == [f"2026-02-{day:02}" for day in range(1, 29)]


def test_jobs_can_be_chosen(headgate: Headgate, ledger: Ledger) -> None:
    chain(headgate)
    assert headgate("work", "clean").code == 0
    assert (len(statuses(ledger, "tidy")), statuses(ledger, "report")) == (3, {})
    done = headgate("work", "claen")
    assert (done.code, "did you mean 'clean'?" in done.err) == (2, True)


def test_output_of_commands_is_kept_and_printed_on_request(headgate: Headgate) -> None:
    chain(headgate, "echo out; echo err >&2", count=1)
    done = headgate("work", "clean")
    assert "out" not in done.out + done.err.replace("work", "")
    assert "out\n" in headgate("job", "logs", "clean", "1").out
    headgate("job", "resubmit", "clean", "1", "--reason", "again")
    done = headgate("work", "clean", "--output")
    assert (done.out, "err\n" in done.err) == ("out\n", True)


def test_with_json_each_end_is_an_event(headgate: Headgate) -> None:
    chain(headgate, "[ $HEADGATE_DATAID != 2 ] || { echo no such rate; exit 4; }", more="max_attempts = 1")
    done = headgate("work", "clean", "--json")
    *chunks, end = events(done.out)
    assert (done.code, done.err) == (1, "")
    assert [(each["dataid"], each["outcome"], each["message"]) for each in chunks] == [
        ("1", "done", ""), ("2", "failed", "exit code 4: no such rate"), ("3", "done", ""),
    ]  # fmt: skip
    assert end == {"event": "end", "jobs": {"clean": {"done": 2, "failed": 1, "interrupted": 0, "left": 0}}}


def test_a_chunk_that_succeeds_in_the_end_is_no_failure(headgate: Headgate) -> None:
    chain(headgate, "[ $HEADGATE_ATTEMPT = 2 ]", count=1)
    done = headgate("work", "clean")
    assert (done.code, "clean 1 failed: exit code 1" in done.err) == (0, True)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-command", 127),
        ("./no-such-script $HEADGATE_DATAID", 127),
        (["no-such-command"], 127),
        ("./plain", 126),
    ],
)
def test_a_command_that_cannot_be_run_claims_nothing(
    headgate: Headgate, ledger: Ledger, command: object, code: int
) -> None:
    (headgate.folder / "plain").write_text("true\n")
    chain(headgate, command)
    done = headgate("work")
    assert (done.code, done.err.count("\n"), "command of job clean" in done.err) == (code, 1, True)
    assert statuses(ledger, "tidy") == {}


@pytest.mark.parametrize("text", ["if true; then exit 0; fi", "cd / && exit 0", "A=1 true", "exit 0"])
def test_words_of_the_shell_are_commands(headgate: Headgate, text: str) -> None:
    chain(headgate, text, count=1)
    assert headgate("work").code == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("comand = 'true'", "did you mean 'command'?"),
        ("workers = 0", "line 10, must be a whole number from 1 to 1,000"),
        ("timeout = 'soon'", "line 10, is not a duration"),
        ("timeout = 0", "must be more than 0 seconds"),
        ("key_file = 3", "is not the path of a file"),
        ("recur = '90 days'", "recur '90 days' of job clean in pipeline.toml, line 10, is not a duration"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(headgate: Headgate, line: str, why: str) -> None:
    path = headgate.folder / "pipeline.toml"
    path.write_text(CHAIN.format(clean='"true"', sum='"true"', more=line))
    for words in (["work"], ["define", "pipeline.toml"]):
        done = headgate(*words)
        assert (done.code, why in done.err) == (2, True), done.err


def test_a_job_without_a_command_is_named_with_the_key_to_write(headgate: Headgate) -> None:
    path = chain(headgate)
    path.write_text(path.read_text() + '[job.check]\ninputs = ["report"]\n')
    done = headgate("work", "check")
    assert (done.code, 'write command = "./check.sh" under [job.check]' in done.err) == (2, True), done.err


def test_a_job_that_is_not_defined_is_named_with_what_to_do(headgate: Headgate) -> None:
    (headgate.folder / "pipeline.toml").write_text(CHAIN.format(clean='"true"', sum='"true"', more=""))
    done = headgate("work")
    assert (done.code, "headgate define pipeline.toml" in done.err, done.err.count("\n")) == (2, True, 1)


def test_commands_are_read_from_a_regular_file(headgate: Headgate) -> None:
    os.mkfifo(headgate.folder / "pipe.toml")
    for name in ("pipe.toml", "/dev/null"):
        done = headgate("work", "-f", name)
        assert (done.code, "is not a regular file" in done.err) == (2, True), done.err


def test_forever_and_until_done_exclude_each_other(headgate: Headgate) -> None:
    chain(headgate)
    done = headgate("work", "--forever", "--until-done")
    assert (done.code, "choose one" in done.err) == (2, True)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_refused(headgate: Headgate, ledger: Ledger, mode: int) -> None:
    path = chain(headgate)
    path.chmod(mode)
    done = headgate("work")
    assert (done.code, "can write it" in done.err) == (2, True)
    assert "(chmod go-w pipeline.toml)" in done.err
    path.chmod(0o600)
    headgate.folder.chmod(0o777)
    done = headgate("work")
    assert (done.code, "every user can write in its folder" in done.err) == (2, True)
    assert f"(chmod go-w {headgate.folder})" in done.err
    assert statuses(ledger, "tidy") == {}


def test_the_store_keeps_the_digest_and_no_command(headgate: Headgate) -> None:
    path = chain(headgate, "true marker-of-a-command")
    for _ in range(2):
        assert headgate("work", "clean").code == 0
    with library.connect(headgate.url) as gate:
        (entry,) = gate.history(job="clean", event=COMMANDS_EVENT)
    assert entry.reason.endswith(hashlib.sha256(path.read_bytes()).hexdigest())
    assert b"marker-of-a-command" not in Path(headgate.url.removeprefix("sqlite:///")).read_bytes()


def test_a_command_that_runs_for_too_long_has_failed(headgate: Headgate, ledger: Ledger) -> None:
    chain(headgate, "sleep 60", more='timeout = "0.3s"\nmax_attempts = 1', count=1)
    done = headgate("work", "clean")
    assert (done.code, "clean 1 failed: timed out after 0.3 s" in done.err) == (1, True)
    assert (row_of(ledger, "1").status, row_of(ledger, "1").failures) == ("ERROR", 1)
    headgate("job", "resubmit", "clean", "1", "--reason", "again")
    done = headgate("job", "run", "clean", "--timeout", "0.3", "--", "sleep", "60")
    assert (done.code, row_of(ledger, "1").message) == (124, "timed out after 0.3 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_interrupts_running_chunks(headgate: Headgate, ledger: Ledger, number: signal.Signals) -> None:
    chain(headgate, "echo $$ >pid; exec sleep 60", count=1)
    process = headgate.start("work", "--forever")
    child = read_number(headgate.folder / "pid")
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert gone(child)
    row = row_of(ledger, "1")
    assert (row.status, row.attempt, row.failures, row.interruptions) == ("RESUBMIT", 0, 0, 1)


@pytest.mark.parametrize("grace", ["0.2", "20"])
def test_a_command_that_ignores_the_stop_is_killed_and_counts_as_interrupted(
    headgate: Headgate, ledger: Ledger, grace: str
) -> None:
    """After the grace period; at once after a second request."""
    chain(headgate, "trap '' TERM INT; echo $$ >pid; while :; do sleep 0.1; done", count=1)
    process = headgate.start("work", "--grace", grace)
    read_number(headgate.folder / "pid")
    process.send_signal(signal.SIGTERM)
    if grace == "20":
        time.sleep(0.6)  # Two signals within half a second are one request.
        process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 143
    assert (row_of(ledger, "1").status, row_of(ledger, "1").failures) == ("RESUBMIT", 0)


def test_a_resident_worker_is_woken(headgate: Headgate, ledger: Ledger) -> None:
    chain(headgate, of_sum="touch sum-$HEADGATE_DATAID", count=1)
    process = headgate.start("work", "--forever")
    until((headgate.folder / "sum-1").exists, "the first chunk")
    ledger.publish("raw", "2")
    until((headgate.folder / "sum-2").exists, "the second chunk")
    assert process.poll() is None
    process.terminate()
    assert process.wait(30) == 143


def test_a_resident_worker_says_that_its_file_has_changed(headgate: Headgate, ledger: Ledger) -> None:
    path = chain(headgate, "touch old-$HEADGATE_DATAID", count=1)
    process = headgate.start("work", "clean", "--forever")
    until((headgate.folder / "old-1").exists, "the first chunk")
    path.write_text(path.read_text().replace("old-", "newer-"))
    assert process.stderr is not None
    while b"has changed" not in (line := process.stderr.readline()):
        assert line
    assert b"pipeline.toml has changed; this run continues with the commands" in line
    ledger.publish("raw", "2")
    until((headgate.folder / "old-2").exists, "the second chunk")
    process.terminate()
    assert process.wait(30) == 143


def test_chunks_that_another_worker_drops_are_taken_over(headgate: Headgate, ledger: Ledger) -> None:
    """It waits for another worker's claim, and then for its lease."""
    chain(headgate, count=2)
    claim = ledger.claim("clean", "2", worker="another", lease=60)
    runs = headgate.start("job", "run", "clean", "--until-done", "--", "true")
    works = headgate.start("work", "--until-done")
    until(lambda: statuses(ledger, "report").get("1") == "READY", "what is free to be made")
    assert (runs.poll(), works.poll()) == (None, None)
    ledger.heartbeat(claim, lease=0.2)
    assert (runs.wait(30), works.wait(30)) == (0, 0)
    assert statuses(ledger, "report") == {"1": "READY", "2": "READY"}


def test_the_table_of_many_jobs_fits_the_screen(headgate: Headgate) -> None:
    """Scrolled lines cannot be erased. The last table has every job."""
    jobs = [f"job-{number:02}" for number in range(HEIGHT + 5)]
    outputs = "".join(f"of-{name} = {{}}, " for name in jobs)
    texts = [f'[job.{name}]\ninputs = ["raw"]\noutputs = ["of-{name}"]\ncommand = "true"\n' for name in jobs]
    write(headgate, f"dataset = {{ {outputs}raw = {{}} }}\n" + "".join(texts))
    headgate("data", "publish", "raw", "1")
    code, shown = typed(headgate, "work", *jobs[-3:], *jobs[:-3])
    assert code == 0
    erased = [int(number) for number in re.findall(r"\x1b\[(\d+)A", shown)]
    assert erased
    assert max(erased) < HEIGHT
    first, last = shown.split("\x1b[J")[0], shown.split("\x1b[J")[-1]
    assert f"and {len(jobs) - (HEIGHT - 3)} other jobs" in first
    assert [line.split()[0] for line in last.splitlines()[1:]] == jobs


def test_a_job_gets_its_own_key(headgate: Headgate, ledger: Ledger) -> None:
    chain(headgate, 'grep -q "open sesame" $HEADGATE_CLAIM_FILE', more='key_file = "clean.key"', count=1)
    master = {"HEADGATE_MASTER_KEY_FILE": str(headgate.folder / "ring"), "RAW_PASSWORD": "open sesame"}
    assert headgate("keys", "rotate", **master).code == 0
    path = headgate.folder / "pipeline.toml"
    path.write_text(path.read_text().replace("raw = {}", 'raw = { secrets = { password = "env:RAW_PASSWORD" } }'))
    key = headgate("keys", "new", "clean", **master).out.split()[-1]
    assert headgate("define", "pipeline.toml", "--yes", **master).code == 0
    done = headgate("work", "clean")
    assert (done.code, "clean.key" in done.err, statuses(ledger, "tidy")) == (2, True, {})
    (headgate.folder / "clean.key").write_text(key)
    (headgate.folder / "clean.key").chmod(0o600)
    done = headgate("work", "clean")
    assert (done.code, row_of(ledger, "1").status) == (0, "READY"), done.err


def test_child_processes_import_no_heavy_modules(headgate: Headgate) -> None:
    """Modules that each chunk would import are imported before the first fork."""
    chain(headgate, count=2)
    probe = headgate.folder / "probe.py"
    probe.write_text(PROBE)
    words = [sys.executable, str(probe), "work", "clean"]
    done = subprocess.run(words, cwd=headgate.folder, env=headgate.environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in (headgate.folder / "imported").read_text().splitlines()]
    assert len(told) >= 2
    assert {name for names in told for name in names} == set()


#: Runs the command; each process forked for a chunk finally reports the modules that it has imported since.
PROBE = """
import os, sys
from headgate.cli.ledger import job_loop

start, leave = job_loop.JobLoop._start, os._exit

def told_start(self, job):
    global before
    before = set(sys.modules)
    start(self, job)

def told_exit(code):
    if "before" in globals():
        with open("imported", "a") as file:
            file.write(" ".join(sorted(set(sys.modules) - before)) + "\\n")
    leave(code)

job_loop.JobLoop._start, os._exit = told_start, told_exit
from headgate.cli.main import main
code = main(sys.argv[1:])
del before
sys.exit(code)
"""


def test_a_daemon_runs_work_beside_others(headgate: Headgate, ledger: Ledger) -> None:
    chain(headgate, count=1)
    process = headgate.start("daemon", "reaper", "--work", "pipeline.toml")
    until(lambda: statuses(ledger, "report") == {"1": "READY"}, "the chunk to be made")
    process.terminate()
    assert process.wait(60) == 0
    (headgate.folder / "pipeline.toml").chmod(0o666)
    done = headgate("daemon", "reaper", "--work", "pipeline.toml")
    assert (done.code, "every user can write it" in done.err) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_daemon_interrupts_running_chunks(
    headgate: Headgate, ledger: Ledger, number: signal.Signals
) -> None:
    """However it ends, nothing is left behind."""
    chain(headgate, "echo $PPID >pid; exec sleep 60", count=1)
    process = headgate.start("daemon", "reaper", "--work", "pipeline.toml")
    child = read_number(headgate.folder / "pid")
    process.send_signal(number)
    process.wait(60)
    until(lambda: gone(child), "the child to end")
    assert (row_of(ledger, "1").status, row_of(ledger, "1").failures) == ("RESUBMIT", 0)

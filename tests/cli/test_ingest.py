"""`headgate ingest`: the output and the warnings for depositors and operators."""

import json
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Gate, connect
from tests.cli.commands import PROGRAM, Headgate, Result
from tests.daemons.queues import bring_to, fill, states
from tests.waiting import until

SUBMIT = ("ingest", "submit", "http://example.org/x", "--profile", "demo", "--submitter", "me")
JOB, BATCH = "jid0000000001", "bid0000000001"


@pytest.fixture
def gate(headgate: Headgate) -> Iterator[Gate]:
    with connect(headgate.url) as opened:
        yield opened


def fail_all(gate: Gate, state: str = "downloading") -> None:
    bring_to(gate, state)
    while (job := gate.queue.acquire_job(state)) is not None:
        gate.queue.fire(job, "fail", "no route to host")


def good(done: Result) -> Result:
    assert done.code == 0, done.err
    return done


def test_a_submitted_batch_is_shown(headgate: Headgate, gate: Gate) -> None:
    done = good(headgate(*SUBMIT, "erc_what=A book", "local_id=b1", "--request-id", "r1", "--json"))
    assert (done.json["id"], done.json["state"]) == (BATCH, "pending")
    assert done.json["submission"]["metadata"] == {"erc_what": "A book", "local_id": "b1"}
    assert "request_id" not in done.json["submission"]
    assert headgate(*SUBMIT, "--request-id", "r1", "--json").json["id"] == BATCH
    assert headgate("ingest", "batch", "1", "--json").json["failed_jobs"] == []
    assert "erc_what:     A book" in headgate("ingest", "batch", "bid1").out
    assert len(gate.queue.batches()) == 1


def test_a_file_is_submitted_as_a_url(headgate: Headgate) -> None:
    (headgate.folder / "my book.checkm").touch()
    words = ("ingest", "submit", "my book.checkm", "--profile", "demo", "--submitter", "me", "--json")
    assert good(headgate(*words)).json["submission"]["payload_url"].endswith("/my%20book.checkm")


BAD = {
    "no file": (
        ("ingest", "submit", "none", "--profile", "p", "--submitter", "s"),
        "is neither an existing file nor a URL",
    ),
    "metadata": ((*SUBMIT, "erc_wat=x"), "did you mean 'erc_what'"),
    "no value": ((*SUBMIT, "erc_what"), "NAME=VALUE"),
    "twice": ((*SUBMIT, "note=a", "note=b"), "given twice"),
    "type": ((*SUBMIT, "--type", "object-manifset"), "did you mean 'object-manifest'"),
    "state": (("ingest", "jobs", "--state", "faild"), "did you mean 'failed'"),
    "priority": (("ingest", "priority", JOB, "100"), "from 0 (first) to 99 (last)"),
    "priority below": (("ingest", "priority", JOB, "--", "-1"), "from 0 (first) to 99 (last)"),
    "no such job": (("ingest", "job", "jid7"), "nearest is jid0000000003"),
    "no such batch": (("ingest", "delete", "bid7", "--reason", "x"), "nearest is bid0000000001"),
    "no id": (("ingest", "job", "seven"), "is not an id"),
    "wrong kind": (("ingest", "job", BATCH), "is a batch"),
    "nothing named": (("ingest", "resume"), "--batch BID"),
    "both named": (("ingest", "resume", JOB, "--all-failed"), "not both"),
    "failed of what": (("ingest", "delete", "--failed", "--reason", "x"), "--batch BID or --profile P"),
    "hold without reason": (("ingest", "hold", "demo"), "--reason"),
    "command": (("ingest", "relaese", JOB), "release"),
}


@pytest.mark.parametrize(("words", "told"), BAD.values(), ids=BAD)
def test_wrong_usage_names_the_nearest_word(headgate: Headgate, gate: Gate, words: tuple[str, ...], told: str) -> None:
    fill(gate, jobs=3)
    before = (states(gate), gate.queue.batches())
    done = headgate(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert (states(gate), gate.queue.batches()) == before


def test_empty_lists_say_what_to_do(headgate: Headgate) -> None:
    assert "headgate ingest submit" in good(headgate("ingest", "batches")).out
    assert "list all with: headgate ingest jobs" in good(headgate("ingest", "jobs", "--state", "failed")).out
    assert "headgate ingest hold" in good(headgate("ingest", "holds")).out
    assert headgate("ingest", "jobs", "--json").json == {"items": [], "next": None}


def test_lists_are_filtered_and_paged(headgate: Headgate, gate: Gate) -> None:
    fill(gate, jobs=3)
    fill(gate, jobs=1, profile="other")
    page = headgate("ingest", "jobs", "--batch", "1", "--limit", "2", "--json").json
    assert ([each["id"] for each in page["items"]], page["next"]) == ([JOB, "jid0000000002"], "jid0000000002")
    page = headgate("ingest", "jobs", "--batch", "1", "--after", page["next"], "--json").json
    assert ([each["id"] for each in page["items"]], page["next"]) == (["jid0000000003"], None)
    assert len(headgate("ingest", "jobs", "--profile", "other", "--json").json["items"]) == 1
    assert "continue with: --after bid0000000001" in headgate("ingest", "batches", "--limit", "1").err
    taken = gate.queue.acquire_job("pending")
    assert taken is not None
    assert [each["id"] for each in headgate("ingest", "jobs", "--taken", "--json").json["items"]] == [taken.id]
    assert f"taken by {taken.worker}" in headgate("ingest", "jobs", "--taken").out


def test_a_job_shows_what_is_possible_and_those_commands_work(headgate: Headgate, gate: Gate) -> None:
    fill(gate)
    fail_all(gate)
    shown = headgate("ingest", "job", "1").out
    assert "no route to host" in shown
    possible, _, kept = shown.partition("possible from here:\n")[2].partition("\n\n")
    commands = [line.split()[1:] for line in possible.splitlines()]
    assert kept.startswith(f"{JOB} keeps the profile from the start of its batch")
    assert [words[1] for words in commands] == ["resume", "delete"]
    assert good(headgate(*commands[0])).out == f"{JOB}  downloading\n"
    assert gate.queue.job(JOB).retry_count == 1
    refused = headgate(*commands[1])
    assert (refused.code, refused.out) == (75, "")
    assert "delete is not possible" in refused.err
    fail_all(gate)
    assert good(headgate(*commands[1])).out == f"{JOB}  deleted\n"
    gone = headgate("ingest", "job", "1")
    assert gone.code == 2
    assert f"headgate history --item {JOB}" in gone.err
    assert "delete" in good(headgate("history", "--item", JOB)).out


def test_wait_ends_with_the_outcome_and_resume_says_what_is_kept(headgate: Headgate, gate: Gate) -> None:
    fill(gate)
    waited = headgate("ingest", "wait", "bid1", "--timeout", "0")
    assert (waited.code, waited.out.partition(":")[0]) == (75, "bid0000000001  processing")
    fail_all(gate)
    gate.queue.report_finished()
    batch = gate.queue.acquire_batch("reporting")
    assert batch
    gate.queue.fire(batch, "finish", "none of the jobs completed")
    assert f"headgate ingest batch {BATCH}" not in headgate("status").out, "its failed job explains it"
    ended = headgate("ingest", "wait", "bid1")
    assert (ended.code, ended.out, ended.err) == (1, f"{BATCH}  failed: none of the jobs completed\n", "")
    failed = headgate("ingest", "wait", "jid1", "--timeout", "1m")
    assert (failed.code, failed.out) == (1, f"{JOB}  failed: no route to host\n")
    assert headgate("ingest", "wait", "jid9").code == 2
    said = headgate("ingest", "resume", "jid1").err
    assert f"{JOB} keeps the profile from the start of its batch" in said
    assert "resume --refresh uses the current profile" in said
    fail_all(gate)
    refused = headgate("ingest", "resume", "jid1", "--refresh")
    assert (refused.code, gate.queue.job(JOB).state) == (2, "failed"), "there is no profile to use"
    assert "there is no profile demo" in refused.err


def test_hold_unhold_and_release_collections(headgate: Headgate, gate: Gate) -> None:
    fill(gate, jobs=2)
    good(headgate("ingest", "hold", "demo", "--reason", "it is moved"))
    while (job := gate.queue.acquire_job("pending")) is not None:
        gate.queue.fire(job, "hold", "held")
    shown = headgate("ingest", "job", JOB).out.partition("possible from here:\n")[2].splitlines()
    assert [line.split()[2:] for line in shown] == [
        ["unhold", "demo,", "and", "then:"], ["release", JOB], ["delete", JOB, "--reason", "why"]
    ]  # fmt: skip
    refused = headgate("ingest", "release", JOB)
    assert refused.code == 75
    assert "it is moved. Clear the hold first" in refused.err
    assert "demo is on hold" in headgate("status").out
    assert headgate("ingest", "unhold", "demo", "--release-all").code == 2
    assert gate.queue.hold_of("demo"), "nothing is changed before --yes, or an answer"
    assert "2 items are still held; to release them: " in good(headgate("ingest", "unhold", "demo")).err
    seen = good(headgate("ingest", "release", "--profile", "demo", "--dry-run", "--json")).json
    assert (seen["dry_run"], seen["count"]) == (True, 2)
    assert set(states(gate).values()) == {"held"}
    assert good(headgate("ingest", "unhold", "demo", "--release-all", "--yes")).out == "release: 2 done\n"
    assert set(states(gate).values()) == {"pending"}
    assert headgate("ingest", "release", "--profile", "demo", "--reason", "x").code == 3


def test_pause_priority_and_update_report_are_recorded(headgate: Headgate, gate: Gate) -> None:
    fill(gate)
    good(headgate("ingest", "pause", "--reason", "maintenance"))
    assert gate.queue.acquire_job("pending") is None
    assert "queue is paused" in headgate("status").out
    assert good(headgate("ingest", "unpause")).out == "goes on\n"
    assert good(headgate("ingest", "unpause")).out == "it was not paused\n"
    assert good(headgate("ingest", "priority", "1", "0", "--reason", "urgent")).out == f"{JOB}  pending, priority 0\n"
    refused = headgate("ingest", "update-report", "1")
    assert refused.code == 75
    assert "Possible from here" in refused.err
    fail_all(gate)
    gate.queue.report_finished()
    batch = gate.queue.acquire_batch("reporting")
    assert batch is not None
    gate.queue.fire(batch, "finish")
    assert good(headgate("ingest", "update-report", "1")).out == f"{BATCH}  update-reporting\n"


def test_changes_of_many_items_need_a_reason_and_a_confirmation(headgate: Headgate, gate: Gate) -> None:
    fill(gate, jobs=3)
    fail_all(gate)
    words = ("ingest", "resume", "--batch", "1")
    assert "give a reason with --reason" in headgate(*words, "--yes").err
    refused = headgate(*words, "--reason", "disk is back")
    assert (refused.code, set(states(gate).values())) == (2, {"failed"})
    assert "3 would be changed: add --yes" in refused.err
    assert good(headgate(*words, "--reason", "disk is back", "--yes")).out == "resume: 3 done\n"
    assert set(states(gate).values()) == {"downloading"}
    reasons = {each.reason for each in gate.history(item=BATCH, event="resume")}
    assert reasons == {"disk is back"}
    fail_all(gate)
    assert "delete would change 3" in headgate(
        "ingest", "delete", "--failed", "--batch", "1", "--reason", "x", "--dry-run"
    ).out  # fmt: skip
    assert good(headgate("ingest", "delete", "--failed", "--batch", "1", "--reason", "x", "--yes")).code == 0
    assert states(gate) == {}


def test_refused_items_are_reported_and_the_others_are_changed(headgate: Headgate, gate: Gate) -> None:
    fill(gate, jobs=2)
    job = gate.queue.acquire_job("pending")
    assert job is not None
    gate.queue.fire(job, "fail", "bad digest")  # It cannot be resumed, because no step succeeded.
    bring_to(gate, "downloading")
    other = gate.queue.acquire_job("downloading")
    assert other is not None
    gate.queue.fire(other, "fail", "no route")
    done = headgate("ingest", "resume", "--all-failed", "--reason", "x", "--yes", "--json")
    assert (done.code, done.json["count"], [each["id"] for each in done.json["refused"]]) == (75, 1, [job.id])
    assert "submit it again" in done.json["refused"][0]["why"]


@pytest.mark.parametrize(("answer", "after"), [(b"n\n", "failed"), (b"y\n", "")])
def test_on_a_terminal_a_change_is_confirmed(headgate: Headgate, gate: Gate, answer: bytes, after: str) -> None:
    fill(gate)
    fail_all(gate)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "ingest", "delete", JOB, "--reason", "x"],
        env=headgate.environment(TERM="xterm", COLUMNS="80"), cwd=headgate.folder, stdin=theirs, stdout=theirs,
        stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = read_until(ours, b"[y/N]")
    assert b"will not be in any later report" in seen
    os.write(ours, answer)
    assert process.wait(30) == 0
    os.close(ours)
    assert states(gate).get(JOB, "") == after


def test_watch_writes_a_line_for_each_change(headgate: Headgate, gate: Gate) -> None:
    fill(gate)
    process = headgate.start("ingest", "job", "1", "--watch", "--every", "0.05", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["state"] == "pending"
    fail_all(gate, "pending")
    assert any(json.loads(line)["state"] == "failed" for line in process.stdout)
    assert process.wait(30) == 1, "it ends with the job, and its exit code is the outcome"


def test_watch_redraws_on_a_terminal(headgate: Headgate, gate: Gate) -> None:
    fill(gate)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "ingest", "jobs", "--watch", "--every", "0.05"],
        env=headgate.environment(TERM="xterm", COLUMNS="80"), cwd=headgate.folder, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    read_until(ours, b"pending")
    fail_all(gate, "pending")
    seen = read_until(ours, b"failed")
    assert b"\x1b[2J" in seen
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    os.close(ours)


def read_until(terminal: int, word: bytes) -> bytes:
    seen = b""
    while word not in seen:
        assert select.select([terminal], [], [], 30)[0], seen
        seen += os.read(terminal, 4096)
    return seen


def test_status_and_history_report_the_queue(headgate: Headgate, gate: Gate) -> None:
    fill(gate)
    job = gate.queue.acquire_job("pending")
    assert job is not None
    status = headgate("status", "--json", "--rich").json
    assert status["queue"]["counts"]["ingest job"] == {"pending": 1}
    (running,) = status["opsQueue"]
    assert (running["request"], running["data"]) == ("PENDING", f"{BATCH}/{JOB} (demo)")
    shown = headgate("status").out
    assert re.search(r"^ingest jobs pending +1$", shown, re.MULTILINE)
    assert re.search(r"^ingest jobs by state +1 pending$", shown, re.MULTILINE)
    gate.queue.fire(job, "accept")
    gate.queue.submit("demo", "me", "https://example.org/empty")
    batch = gate.queue.acquire_batch("pending")
    assert batch
    gate.queue.fire(batch, "start")
    assert gate.queue.report_finished() == [batch.id]
    batch = gate.queue.acquire_batch("reporting")
    assert batch
    gate.queue.fire(batch, "finish", "the payload lists no object")
    shown = headgate("status").out
    assert f"failed (1), newest first:\n  {batch.id} (demo)  " in shown
    assert f"ago: the payload lists no object\n      headgate ingest batch {batch.id}\n" in shown
    told = headgate("history", "--item", "jid1").out
    assert "pending → estimating" in told
    assert "accept" in told


def test_help_names_every_documented_command() -> None:
    shown = subprocess.run([PROGRAM, "ingest", "--help"], capture_output=True, check=True).stdout.decode()
    for word in ("submit", "batches", "batch", "jobs", "job", "hold", "unhold", "release", "pause", "unpause", "resume",
                 "priority", "delete", "update-report"):  # fmt: skip
        assert f"\n  {word} " in shown


def test_reading_the_queue_does_not_create_the_work_folder(headgate: Headgate, gate: Gate, tmp_path: Path) -> None:
    fill(gate)
    until(lambda: headgate("ingest", "job", "1").code == 0, "an answer")
    assert not (tmp_path / "headgate-work").exists()

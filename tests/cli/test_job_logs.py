"""Output of commands: passed on unchanged, its end stored with the attempt, and shown by `job logs`."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROGRAM, Headgate
from tests.cli.terminal import typed
from tests.waiting import until

PIPELINE = """
[dataset.raw]
[dataset.tidy]
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
"""
SECRET = 'tr0ub4dor"&3 pass\\word'


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", "1..3").code == 0
    return headgate


def run(command: Headgate, *words: str, script: str, **more: str) -> Any:
    return command("job", "run", "clean", *words, "--", "sh", "-c", script, **more)


def logs(command: Headgate, *words: str) -> dict[str, str]:
    """The newest log by stream."""
    found = command("job", "logs", "clean", "1", "--json", *words).json
    return {each["stream"]: each["text"] for each in found["items"]}


def chunk(command: Headgate) -> Any:
    (row,) = command("data", "list", "--dataset", "tidy", "--kind", "OUT", "--json").json["items"]
    return row


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-u", "-c", code]


def test_each_attempt_has_its_log(pipeline: Headgate) -> None:
    run(pipeline, script="echo out; echo no such rate >&2; exit 4")
    run(pipeline, script="echo better")
    shown = pipeline("job", "logs", "clean", "1")
    assert shown.out == "==> stdout of attempt 2 <==\nbetter\n"
    assert shown.err == "attempts with a log: 1 (--attempt N)\n"
    assert pipeline("job", "logs", "clean", "1", "--attempt", "1", "--stream", "stderr").out == "no such rate\n"
    both = "==> stdout of attempt 1 <==\nout\n==> stderr of attempt 1 <==\nno such rate\n"
    assert pipeline("job", "logs", "clean", "1", "--attempt", "1").out == both
    nothing = pipeline("job", "logs", "clean", "2")
    assert (nothing.code, nothing.out) == (0, "")
    assert "clean has not run 2; see: headgate job explain clean 2" in nothing.err
    assert "clean has not run 2" in pipeline("job", "logs", "clean", "2", "--follow").err
    third = pipeline("job", "logs", "clean", "1", "--attempt", "3")
    assert "there is no attempt 3 of clean 1, which was tried 2 times" in third.err
    silent = pipeline("job", "logs", "clean", "1", "--attempt", "2", "--stream", "stderr")
    assert "no log of attempt 2 of clean 1: it wrote nothing, or none is kept" in silent.err
    assert pipeline("job", "logs", "no-such-job", "1").code == 2


def test_the_last_line_is_in_explain_status_and_lists(pipeline: Headgate) -> None:
    run(pipeline, script="echo no such rate: EUR >&2; exit 4")
    for words in (("job", "explain", "clean", "1"), ("status",), ("data", "list", "--status", "ERROR")):
        shown = pipeline(*words, "--wide") if words[0] == "data" else pipeline(*words)
        assert "exit code 4: no such rate: EUR" in shown.out, words


def test_bytes_are_passed_on_as_they_are_and_kept_as_text(pipeline: Headgate) -> None:
    data = bytes(range(256)) * 2000
    (pipeline.folder / "data").write_bytes(data)
    words = [str(PROGRAM), "job", "run", "clean", "--", "cat", "data"]
    done = subprocess.run(words, cwd=pipeline.folder, env=pipeline.environment(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (data, b"")
    text = logs(pipeline)["stdout"]
    assert 50_000 < len(text.encode()) <= 65536
    assert all(each.isprintable() or each in "\n\t" or each.isspace() for each in text)
    assert pipeline("job", "logs", "clean", "1").out.startswith(
        "==> stdout of attempt 1, the end of 500.0 KiB <==\n"
    )  # fmt: skip


def test_no_secret_of_the_claim_is_kept(pipeline: Headgate) -> None:
    """Regardless of how it is split into writes, where it is printed, and when the command ends in the middle of it."""
    master = {"HEADGATE_MASTER_KEY_FILE": str(pipeline.folder / "ring"), "RAW_PASSWORD": SECRET}
    assert pipeline("keys", "rotate", **master).code == 0
    (pipeline.folder / "pipeline.toml").write_text(PIPELINE + '[dataset.raw.secrets]\npassword = "env:RAW_PASSWORD"\n')
    key = pipeline("keys", "new", "clean", **master).out.split()[-1]
    done = pipeline("define", "pipeline.toml", "--yes", **master)
    assert done.code == 0, done.err
    code = (
        "import json, os, sys, time\n"
        "claim = open(os.environ['HEADGATE_CLAIM_FILE']).read()\n"
        "secret = json.loads(claim)['inputs']['raw']['secrets']['password']\n"
        "for part in ['pass: ', secret[:3], secret[3:9], secret[9:], ' end', chr(10), claim, chr(10)]:\n"
        "    os.write(1, part.encode()); time.sleep(0.02)\n"
        "os.write(2, b'cut ' + secret[:7].encode())\n"
        "sys.exit(3)\n"
    )
    done = pipeline("job", "run", "clean", *python(code), HEADGATE_JOB_KEY=key)
    assert (done.code, SECRET in done.out) == (3, True), done.err
    kept = logs(pipeline)
    assert kept["stdout"].startswith("pass: *** end\n{")
    assert kept["stderr"] == "cut ***"
    for text in (*kept.values(), chunk(pipeline)["message"]):
        assert "ub4dor" not in text
        assert "pass\\" not in text


def test_a_terminal_stays_a_terminal(pipeline: Headgate) -> None:
    code = "import os, sys; print(*map(os.isatty, (0, 1, 2)), *os.get_terminal_size(1)); sys.exit(4)"
    ended, shown = typed(pipeline, "job", "run", "clean", *python(code), width=97)
    assert ended == 4
    assert shown == "True True True 97 40\n"
    assert logs(pipeline) == {"stdout": "True True True 97 40\n"}


def test_lines_end_as_on_any_terminal(pipeline: Headgate) -> None:
    words = ("job", "run", "clean", "--", "sh", "-c", r"printf 'a\nb\n10%%\r20%%\r\n'")
    kept, direct = typed(pipeline, *words), typed(pipeline, *words, HEADGATE_LOG_KEEP="0")
    assert kept == direct == (0, "a\nb\n10%\r20%\r\n")
    assert logs(pipeline) == {"stdout": "a\nb\n10%\n20%\n"}


def test_output_that_cannot_be_written_is_a_failure(pipeline: Headgate) -> None:
    """As without Headgate, if the command itself would be refused."""
    words = [str(PROGRAM), "job", "run", "clean", "--", "sh", "-c", "echo important"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, cwd=pipeline.folder, env=pipeline.environment(), stdout=full, check=False)
    assert done.returncode == 74
    row = chunk(pipeline)
    assert (row["status"], row["message"]) == ("ERROR", "its output could not be written: No space left on device")


def test_a_closed_output_ends_the_command(pipeline: Headgate) -> None:
    script = f"{PROGRAM} job run clean -- yes | head -n 1"
    done = subprocess.run(
        ["sh", "-c", script], cwd=pipeline.folder, env=pipeline.environment(), capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.stdout == b"y\n"
    assert chunk(pipeline)["message"] == "ended by signal 13: y"


def test_a_process_that_left_the_group_with_the_output_open_is_not_waited_for(pipeline: Headgate) -> None:
    code = (
        "import os, subprocess, sys\n"
        "left = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "open('left', 'w').write(str(left.pid)); print('started'); os._exit(0)\n"
    )
    words = [str(PROGRAM), "job", "run", "clean", *python(code)]
    try:
        with (pipeline.folder / "out").open("wb") as out:
            subprocess.run(words, cwd=pipeline.folder, env=pipeline.environment(), stdout=out, timeout=60, check=True)
        assert chunk(pipeline)["status"] == "READY"
        assert logs(pipeline) == {"stdout": "started\n"}
    finally:
        os.kill(int((pipeline.folder / "left").read_text()), signal.SIGKILL)


def test_output_waits_for_a_slow_reader_and_is_complete(pipeline: Headgate) -> None:
    """The command ended long before its reader took the rest: nothing is lost."""
    process = pipeline.start("job", "run", "clean", "--", "sh", "-c", "seq 1 20000; touch ended")
    until((pipeline.folder / "ended").exists, "the command to end")
    out, _ = process.communicate(timeout=60)
    assert out == b"".join(b"%d\n" % number for number in range(1, 20_001))
    assert chunk(pipeline)["status"] == "READY"


MEASURE = """
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(ended, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_large_output_needs_little_memory(pipeline: Headgate) -> None:
    words = [sys.executable, "-c", MEASURE, str(PROGRAM), "job", "run", "clean", "--", "head", "-c", "300000000"]
    done = subprocess.run(
        [*words, "/dev/zero"], cwd=pipeline.folder, env=pipeline.environment(), capture_output=True, check=True
    )
    ended, kilobytes = map(int, done.stdout.split())
    assert ended == 0
    assert kilobytes < 150_000
    (log,) = pipeline("job", "logs", "clean", "1", "--json").json["items"]
    assert (log["size"], log["cut"]) == (300_000_000, True)


def test_output_that_a_killed_worker_had_sent_is_kept(pipeline: Headgate) -> None:
    process = pipeline.start("job", "run", "clean", "--lease", "2s", "--", "sh", "-c", "echo last words; sleep 600")
    until(lambda: logs(pipeline) == {"stdout": "last words\n"}, "the log to arrive")
    assert chunk(pipeline)["message"] == "last words"
    process.kill()
    process.wait()
    until(lambda: pipeline("job", "reap", "--json").json["reaped"] == 1, "the lease to expire")
    assert re.fullmatch(r"lease expired: .* died; its last line: last words", chunk(pipeline)["message"])
    shown = pipeline("job", "logs", "clean", "1").out
    assert re.fullmatch(r"==> stdout of attempt 1, last sent .* ago <==\nlast words\n", shown)


def test_follow_prints_what_is_added_until_the_attempt_ends(pipeline: Headgate) -> None:
    gate = pipeline.folder / "go"
    script = "echo one; while [ ! -e go ]; do sleep 0.1; done; echo two; echo three >&2; exit 4"
    worker = pipeline.start("job", "run", "clean", "--", "sh", "-c", script)
    until(lambda: logs(pipeline) == {"stdout": "one\n"}, "the log to arrive")
    follower = pipeline.start("job", "logs", "clean", "1", "--follow", "--stream", "stdout")
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    gate.touch()
    out, _ = follower.communicate(timeout=60)
    assert (out, follower.returncode) == (b"two\n", 0)
    assert worker.wait(60) == 4
    assert pipeline("job", "logs", "clean", "1", "-f").out == (
        "==> stdout of attempt 1 <==\none\ntwo\n==> stderr of attempt 1 <==\nthree\n"
    )

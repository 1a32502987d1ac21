"""`job run` as a real process: claims, heartbeats, signals, exit codes, and remaining processes."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.cli.ledger.job_loop import JobLoop, LoopJob
from headgate.cli.ledger.loop_progress import LoopProgress
from headgate.cli.processes.pair import check_command
from headgate.cli.terminal.console import Console
from tests.cli.commands import PROGRAM, Headgate, gone, read_number
from tests.waiting import until

PIPELINE = """
[dataset.raw]
uri = "file:///raw"
[dataset."tidy-up"]
uri = "file:///tidy"
[job.clean]
inputs = ["raw"]
outputs = ["tidy-up"]
max_attempts = 2
[job.clean.environment]
PARAM_REGION = "eu"
"""
CONSOLE = cast("Console", SimpleNamespace(quiet=True, claimed=False, interrupted=False))


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", "1..3").code == 0
    return headgate


def rows(command: Headgate) -> dict[str, str]:
    """The status of each chunk that was made."""
    found: list[dict[str, Any]] = command("data", "list", "--dataset", "tidy-up", "--kind", "OUT", "--json").json[
        "items"
    ]
    return {row["dataid"]: row["status"] for row in found}


def run(command: Headgate, *words: str, script: str = "true", **more: str) -> Any:
    return command("job", "run", "clean", *words, "--", "sh", "-c", script, **more)


@pytest.mark.parametrize(
    ("script", "code", "status"),
    [("exit 0", 0, "READY"), ("exit 42", 42, "ERROR"), ("kill -9 $$", 137, "ERROR"), ("exit 3", 3, "ERROR")],
)
def test_the_exit_code_is_the_commands_own_and_is_reported(
    pipeline: Headgate, script: str, code: int, status: str
) -> None:
    done = run(pipeline, script=script)
    assert (done.code, done.out) == (code, "")
    assert rows(pipeline) == {"1": status}


def message(command: Headgate) -> str:
    (row,) = command("data", "list", "--dataset", "tidy-up", "--kind", "OUT", "--json").json["items"]
    return str(row["message"])


def test_the_last_line_is_recorded_with_a_failure(pipeline: Headgate) -> None:
    script = r"echo out; echo one >&2; printf 'bad \033[31mrate\n\n' >&2; exit 4"
    done = run(pipeline, script=script)
    assert (done.code, done.out, done.err) == (4, "out\n", "one\nbad \x1b[31mrate\n\n")
    assert message(pipeline) == "exit code 4: bad rate"


def test_without_errors_the_last_line_of_stdout_is_recorded(pipeline: Headgate) -> None:
    run(pipeline, script="echo no such rate; exit 4")
    assert message(pipeline) == "exit code 4: no such rate"


def test_the_recorded_line_is_short_and_contains_no_secret(pipeline: Headgate) -> None:
    script = 'printf "%s %s %s" "open sesame" second-line "$(seq -s . 400)" >&2; exit 1'
    secrets = {"HEADGATE_MAIL_PASSWORD": "open sesame", "HEADGATE_MINTER_KEY": "first-line\nsecond-line"}
    run(pipeline, script=script, **secrets)
    kept = message(pipeline)
    assert kept.startswith("exit code 1: *** *** 1.2.3.")
    assert len(kept) == len("exit code 1: ") + 500


def test_where_no_log_is_kept_the_outputs_are_the_callers_own(pipeline: Headgate) -> None:
    """Not pipes of ours, because remaining processes may write there after we have ended."""
    script = f"exec {sys.executable} -c 'import os, sys; s = os.fstat(2); print(s.st_dev, s.st_ino); sys.exit(5)'"
    with (pipeline.folder / "log").open("w") as log:
        words = [str(PROGRAM), "job", "run", "clean", "--", "sh", "-c", script]
        environment = pipeline.environment(HEADGATE_LOG_KEEP="0")
        done = subprocess.run(
            words, cwd=pipeline.folder, env=environment, stdout=subprocess.PIPE, stderr=log, check=False
        )
        there = os.fstat(log.fileno())
    assert (done.returncode, done.stdout.split()) == (5, [b"%d" % there.st_dev, b"%d" % there.st_ino])
    assert message(pipeline) == "exit code 5"
    assert pipeline("job", "logs", "clean", "1").out == ""


def test_nothing_to_do_is_3_and_nothing_is_run(pipeline: Headgate) -> None:
    pipeline("job", "pause", "clean", "--reason", "holidays")
    done = run(pipeline, script="touch ran")
    assert done.code == 3
    assert not (pipeline.folder / "ran").exists()


def test_a_missing_command_claims_nothing(pipeline: Headgate) -> None:
    assert pipeline("job", "run", "clean", "--", "no-such-command").code == 127
    assert rows(pipeline) == {}


def test_the_command_gets_its_chunk_in_variables(pipeline: Headgate) -> None:
    script = 'env | grep -E "^(HEADGATE_|PARAM_)" | sort; stat -c %a "$HEADGATE_CLAIM_FILE"; cat "$HEADGATE_CLAIM_FILE"'
    done = run(pipeline, "--dataid", "2", script=script)
    assert done.code == 0, done.err
    *variables, mode, document = done.out.splitlines()
    told = dict(line.split("=", 1) for line in variables)
    claim = json.loads(document)
    assert (told["HEADGATE_JOB"], told["HEADGATE_DATAID"], told["HEADGATE_ATTEMPT"]) == ("clean", "2", "1")
    assert told["HEADGATE_TOKEN"] == str(claim["token"])
    assert told["HEADGATE_INPUT_RAW_URI"] == "file:///raw"
    assert told["HEADGATE_OUTPUT_TIDY_UP_URI"] == "file:///tidy"
    assert told["PARAM_REGION"] == "eu"
    assert mode == "600"
    assert (claim["dataid"], claim["inputs"]["raw"]["uri"]) == ("2", "file:///raw")
    assert not Path(told["HEADGATE_CLAIM_FILE"]).exists()


def test_a_chunk_that_may_not_run_is_refused(pipeline: Headgate) -> None:
    assert run(pipeline, "--dataid", "99").code == 75


def test_a_data_id_is_not_interpreted_by_a_shell(pipeline: Headgate) -> None:
    pipeline("data", "publish", "raw", "; touch oops")
    done = pipeline("job", "run", "clean", "--dataid", "; touch oops", "--", "printenv", "HEADGATE_DATAID")
    assert done.out == "; touch oops\n"
    assert not (pipeline.folder / "oops").exists()


def test_the_loop_claims_all_chunks_and_retries(pipeline: Headgate) -> None:
    script = 'echo "$HEADGATE_DATAID $HEADGATE_ATTEMPT" >> log; [ "$HEADGATE_DATAID" != 2 ]'
    done = run(pipeline, "--loop", script=script)
    assert done.code == 1
    log = (pipeline.folder / "log").read_text().splitlines()
    assert sorted(log) == ["1 1", "2 1", "2 2", "3 1"]
    assert rows(pipeline) == {"1": "READY", "2": "ERROR", "3": "READY"}
    told = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    figures = [(each["done"], each["failed"], each["left"]) for each in told]
    assert {each["interrupted"] for each in told} == {0}
    assert figures == [(1, 0, 2), (1, 1, 2), (1, 2, 1), (2, 2, 0)]
    done = run(pipeline, "--loop")
    assert (done.code, done.err) == (0, "nothing to do for clean; see: headgate job plan clean\n")


def test_workers_run_in_parallel(pipeline: Headgate) -> None:
    """Each waits until all three have started: one after another would wait forever."""
    script = 'touch "here-$HEADGATE_DATAID"; until [ -e here-1 -a -e here-2 -a -e here-3 ]; do sleep 0.01; done'
    assert run(pipeline, "--loop", "--workers", "3", script=script).code == 0
    assert rows(pipeline) == {"1": "READY", "2": "READY", "3": "READY"}


def test_a_signal_ends_the_loop(pipeline: Headgate) -> None:
    process = pipeline.start("job", "run", "clean", "--loop", "--", "sh", "-c", "echo $$ >pid; exec sleep 60")
    child = read_number(pipeline.folder / "pid")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert gone(child)
    assert rows(pipeline) == {"1": "RESUBMIT"}


def test_heartbeats_keep_a_long_run_alive(pipeline: Headgate) -> None:
    assert run(pipeline, "--lease", "1", script="sleep 2.5").code == 0
    assert rows(pipeline) == {"1": "READY"}


def test_a_stolen_claim_ends_the_command(pipeline: Headgate) -> None:
    """Even one that ignores the request to end."""
    script = "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done"
    process = pipeline.start("job", "run", "clean", "--lease", "2", "--grace", "0.3", "--", "sh", "-c", script)
    child = read_number(pipeline.folder / "pid")
    assert pipeline("job", "resubmit", "clean", "1", "--steal", "--reason", "wrong input").code == 0
    assert process.wait(30) == 76
    assert gone(child)
    assert rows(pipeline) == {"1": "RESUBMIT"}


def test_killing_the_runner_ends_its_command(pipeline: Headgate) -> None:
    process = pipeline.start("job", "run", "clean", "--lease", "1", "--", "sh", "-c", "echo $$ >pid; exec sleep 60")
    child = read_number(pipeline.folder / "pid")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)
    until(lambda: gone(child), "the command to end")
    until(lambda: run(pipeline).code == 0 and rows(pipeline).get("1") == "READY", "the chunk to run again")


def test_a_full_disk_for_the_claim_file_fails_the_chunk(pipeline: Headgate) -> None:
    """It is reported at once, and nothing is run. The disk has a single page, and the claim is longer."""
    long = PIPELINE.replace('PARAM_REGION = "eu"', f'PARAM_REGION = "{"e" * 5000}"')
    (pipeline.folder / "pipeline.toml").write_text(long)
    assert pipeline("define", "pipeline.toml").code == 0
    disk = pipeline.folder / "disk"
    disk.mkdir()
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = f"mount -t tmpfs -o size=4k tmpfs {disk} && exec {PROGRAM} job run clean -- touch ran"
    done = subprocess.run(
        ["unshare", "--mount", *user, "sh", "-c", script], env=pipeline.environment(TMPDIR=str(disk)),
        cwd=pipeline.folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 74, done.stderr
    assert "the claim file cannot be written: No space left on device" in done.stderr
    assert rows(pipeline) == {"1": "ERROR"}
    assert not (pipeline.folder / "ran").exists()


@pytest.mark.parametrize("name", ["INT", "HUP", "USR1"])
def test_every_signal_reaches_the_command(pipeline: Headgate, name: str) -> None:
    script = f"trap 'echo {name}; exit 7' {name}; echo $$ >pid; while :; do sleep 0.02; done"
    process = pipeline.start("job", "run", "clean", "--", "sh", "-c", script)
    read_number(pipeline.folder / "pid")
    process.send_signal(getattr(signal, f"SIG{name}"))
    out, _ = process.communicate(timeout=30)
    number = getattr(signal, f"SIG{name}")
    # A signal that does not request a stop is left to the command.
    code, status = (7, "ERROR") if name == "USR1" else (128 + number, "RESUBMIT")
    assert (process.returncode, out) == (code, f"{name}\n".encode())
    assert rows(pipeline) == {"1": status}


#: Reports that it was asked to end, continues, and succeeds when the test wants it to.
IGNORES = "trap 'echo >asked' TERM; echo $$ >pid; until [ -e enough ]; do sleep 0.02; done"


@pytest.mark.parametrize(
    ("loop", "trust", "code", "status"), [([], True, 0, "READY"), (["--loop"], False, 143, "RESUBMIT")]
)
def test_a_command_that_ignores_sigterm_continues_and_its_exit_code_counts_if_trusted(
    pipeline: Headgate, loop: list[str], code: int, status: str, *, trust: bool
) -> None:
    """It is asked to end, not killed, while the claim is renewed; the loop takes no other chunk."""
    if trust:
        (pipeline.folder / "pipeline.toml").write_text(
            PIPELINE.replace("[job.clean]", '[job.clean]\nstop_exit = "trust"')
        )
        assert pipeline("define", "pipeline.toml").code == 0
    process = pipeline.start("job", "run", "clean", *loop, "--lease", "1", "--", "sh", "-c", IGNORES)
    child = read_number(pipeline.folder / "pid")
    process.send_signal(signal.SIGTERM)
    until((pipeline.folder / "asked").exists, "the command to be asked")
    assert not gone(child)
    (pipeline.folder / "enough").touch()
    assert process.wait(30) == code
    assert rows(pipeline) == {"1": status}


def test_killing_a_worker_of_the_loop_ends_no_other(pipeline: Headgate) -> None:
    """Its command ends with it, its chunk runs again when its lease has expired, and the loop goes on."""
    script = "[ $HEADGATE_DATAID$HEADGATE_ATTEMPT != 11 ] || { echo $$ >pid; exec sleep 60; }"
    process = pipeline.start(
        "job", "run", "clean", "--loop", "--workers", "2", "--lease", "1", "--", "sh", "-c", script
    )
    child = read_number(pipeline.folder / "pid")
    worker = worker_of(process.pid, child)
    until(lambda: rows(pipeline) == {"1": "RUNNING", "2": "READY", "3": "READY"}, "the others to be done")
    os.kill(worker, signal.SIGKILL)
    until(lambda: gone(child), "its command to end")
    assert process.wait(30) == 1
    # The loop itself may have taken it, if the lease had expired by then.
    until(lambda: run(pipeline).code in (0, 3) and rows(pipeline)["1"] == "READY", "the chunk to run again")


def worker_of(runner: int, command: int) -> int:
    """The fork of the runner that a command belongs to: its ancestor that is a child of the runner."""
    pid = command
    while (parent := int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) != runner:
        assert parent > 1, "the command does not descend from the runner"
        pid = parent
    return pid


def test_wrong_usage(pipeline: Headgate) -> None:
    assert pipeline("job", "run", "clean").code == 2
    assert run(pipeline, "--workers", "2").code == 2
    assert run(pipeline, "--loop", "--dataid", "1").code == 2
    assert run(pipeline, "--lease", "0").code == 2
    assert pipeline("job", "run", "claen", "--loop", "--", "true").code == 2
    assert rows(pipeline) == {}


def test_a_worker_that_breaks_before_it_claims_ends_the_loop(capfd: pytest.CaptureFixture[str]) -> None:
    """Otherwise the loop would restart it repeatedly, without reporting why."""

    def break_down(_stops: object, _tell: object) -> int:
        raise RuntimeError("out of order")

    assert JobLoop(CONSOLE, [LoopJob("clean", 1, break_down)], LoopProgress(CONSOLE)).work() == 1
    assert capfd.readouterr().err.count("RuntimeError: out of order") == 1


def test_an_unreadable_folder_in_the_path_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    # Root can read every folder, but no folder with too long a name.
    monkeypatch.setenv("PATH", f"/{'x' * 300}:{os.environ['PATH']}")
    check_command("sh")


def test_a_missing_command_ends_the_loop_with_one_line(pipeline: Headgate) -> None:
    done = pipeline("job", "run", "clean", "--loop", "--", "no-such-command")
    assert (done.code, done.err.count("command not found"), "Traceback" in done.err) == (127, 1, False)
    assert rows(pipeline) == {}


def test_a_chunk_without_a_limit_is_retried_with_pauses(pipeline: Headgate) -> None:
    text = PIPELINE.replace("max_attempts = 2", "max_attempts = 0")
    (pipeline.folder / "pipeline.toml").write_text(text)
    assert pipeline("define", "pipeline.toml").code == 0
    script = 'date +%s.%N >>tries; [ "$(wc -l <tries)" -ge 6 ]'
    assert run(pipeline, "--loop", "-q", script=script).code == 0  # In the end every chunk is done.
    tries = [float(line) for line in (pipeline.folder / "tries").read_text().splitlines()]
    # After the fourth and the fifth failure of the first chunk.
    assert tries[4] - tries[3] >= 0.5
    assert tries[5] - tries[4] >= 1.0


def test_workers_that_are_killed_again_and_again_are_started_after_growing_pauses() -> None:
    started: list[float] = []

    class Watched(JobLoop):
        def _start(self, job: LoopJob) -> None:
            started.append(time.monotonic())
            if len(started) == 4:
                self._stop(signal.SIGTERM, None)
            super()._start(job)

    def die(_stops: object, _tell: object) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    crew = Watched(CONSOLE, [LoopJob("clean", 1, die)], LoopProgress(CONSOLE))
    assert crew.work() == 128 + signal.SIGTERM
    pauses = [after - before for before, after in pairwise(started)]
    assert [pause >= wanted for pause, wanted in zip(pauses, (0.2, 0.4, 0.8), strict=True)] == [True] * 3

"""`lock run`: the user's own command, with a lock around it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.locks.run import parse_wants
from headgate.cli.processes.running import StopLimits
from headgate.core.errors import BadValue
from tests.cli.commands import PROGRAM, Headgate, gone, process_state, read_number
from tests.waiting import until

DB = "mysql://db1/core"
BYTES = bytes(range(256)) * 300
#: Prints its process id, then waits to be ended.
SLEEPER = "echo $$ >pid; sleep 60 & echo $! >grandchild; wait"


@pytest.mark.parametrize(
    ("words", "wants"),
    [
        (["a"], {"a": "exclusive"}),
        (
            ["a=shared", "b=WRITE", "c=Read", "d=exclusive"],
            {"a": "shared", "b": "exclusive", "c": "shared", "d": "exclusive"},
        ),
        (["x?mode=ro=exclusive"], {"x?mode=ro": "exclusive"}),
        (["x?mode=read"], {"x?mode": "shared"}),
        (["a=b=shared"], {"a=b": "shared"}),
        (["shared"], {"shared": "exclusive"}),
    ],
)
def test_the_mode_follows_the_last_equals_sign(words: list[str], wants: dict[str, str]) -> None:
    assert parse_wants(words) == wants


@pytest.mark.parametrize(
    ("word", "hint"), [("db=shraed", "did you mean 'shared'"), ("x?mode=ro", "'x?mode=ro=exclusive'"), ("a=", "'a=='")]
)
def test_an_unknown_mode_is_an_error_and_says_how_to_write_such_a_resource(word: str, hint: str) -> None:
    with pytest.raises(BadValue, match="is not one of shared, read, exclusive, write") as refused:
        parse_wants([word])
    assert hint.replace("'a=='", "'a==exclusive'") in str(refused.value)


def test_a_resource_that_is_named_twice_is_refused() -> None:
    with pytest.raises(BadValue, match="named twice"):
        parse_wants(["a=shared", "a"])


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 76", 76)]
)
def test_the_exit_code_is_the_commands_own(headgate: Headgate, script: str, code: int) -> None:
    done = headgate("lock", "run", DB, "--", "sh", "-c", script)
    assert (done.code, done.out, done.err) == (code, "", "")
    assert headgate.locks(DB)["items"] == []


def test_a_command_that_cannot_run_exits_with_127_or_126_without_a_lock(headgate: Headgate, tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("no program")
    for command, code in (("no-such-command", 127), ("./no/such", 127), ("", 127), (str(plain), 126), ("/tmp", 126)):  # noqa: S108
        done = headgate("lock", "run", DB, "--", command)
        assert (done.code, done.out) == (code, "")
        assert done.err.startswith("headgate: ")
    assert headgate("lock", "run", "--json", DB, "--", "no-such-command").error["error"] == "cannot-run"
    plain.chmod(0o755)
    assert headgate("lock", "run", DB, "--", str(plain)).code == 126
    grants = headgate("history", "--event", "grant", "--json").json["items"]
    assert len(grants) == 1


def test_input_and_output_are_passed_unchanged(headgate: Headgate) -> None:
    script = (
        "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.buffer.write(data[::-1])"
    )
    done = subprocess.run(
        [PROGRAM, "lock", "run", DB, "--json", "--", sys.executable, "-c", script],
        input=BYTES,
        capture_output=True,
        env=headgate.environment(),
        cwd=headgate.folder,
        check=True,
    )
    assert done.stdout == BYTES
    assert done.stderr == BYTES[::-1]


def test_the_arguments_of_the_command_are_passed_unchanged(headgate: Headgate) -> None:
    words = ["--json", "--", "-h", "; rm -rf /", "$HOME", "", "--wait=3"]
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert headgate("lock", "run", DB, "--", sys.executable, "-c", script, *words).json == words


ENVIRONMENT = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]


#: Prints its environment, and what the list says meanwhile.
WITH_LIST = f"""
import json, os, subprocess
listed = subprocess.check_output(["{PROGRAM}", "lock", "list", "--json"])
print(json.dumps([dict(os.environ), json.loads(listed)]))
"""


def test_the_command_gets_its_lock_in_variables(headgate: Headgate) -> None:
    command = ["--client", "copy", "--", sys.executable, "-c", WITH_LIST]
    done = headgate("lock", "run", f"{DB}=shared", *command, MINE="kept")
    variables, listed = done.json
    (lock,) = listed["items"]
    assert (lock["client"], lock["mode"], lock["lease"]) == ("copy", "shared", 60)
    assert variables["HEADGATE_LOCK_ID"] == lock["id"]
    assert variables["HEADGATE_TOKEN"] == str(lock["token"])
    assert variables["HEADGATE_CLIENT"] == "copy"
    told = {"resource": DB, "mode": "shared", "id": lock["id"], "token": lock["token"]}
    assert json.loads(variables["HEADGATE_LOCKS"]) == [told]
    assert (variables["MINE"], variables["HEADGATE_URL"]) == ("kept", headgate.url)


def test_a_store_that_a_flag_named_is_passed_too(headgate: Headgate) -> None:
    url = f"sqlite:///{headgate.folder / 'other.sqlite'}"
    done = headgate("--url", url, "lock", "run", DB, "--", *ENVIRONMENT)
    assert done.json["HEADGATE_URL"] == url


@pytest.mark.parametrize(
    ("lease", "grace", "limits"),
    [
        (60, None, StopLimits(60, 10, 1)),
        (2, None, StopLimits(2, 0.5, 0.2)),
        (60, 30, StopLimits(60, 30, 1)),
        (60, 0, StopLimits(60, 0, 1)),
    ],
)
def test_the_times_at_which_a_command_is_ended_before_its_lease(
    lease: float, grace: float | None, limits: StopLimits
) -> None:
    assert StopLimits.of(lease, grace) == limits


def test_a_shorter_lease_from_the_store_shortens_the_limits() -> None:
    assert StopLimits.of(60, None).within(10) == StopLimits(10, 5, 1)
    assert StopLimits.of(60, 30).within(40) == StopLimits(40, 20, 1)


def test_several_locks_are_passed_as_a_list(headgate: Headgate) -> None:
    done = headgate("lock", "run", "b=read", "a", "--", *ENVIRONMENT, HEADGATE_LOCK_ID="an outer lock's")
    variables = done.json
    locks = json.loads(variables["HEADGATE_LOCKS"])
    assert [(lock["resource"], lock["mode"]) for lock in locks] == [("a", "exclusive"), ("b", "shared")]
    assert (variables["HEADGATE_LOCK_ID"], variables["HEADGATE_TOKEN"]) == ("", "")


def test_all_or_none(headgate: Headgate) -> None:
    headgate.acquire("b")
    done = headgate("lock", "run", "a", "b", "--", "touch", "ran")
    assert done.code == 75
    assert not (headgate.folder / "ran").exists()
    assert headgate.locks("a")["items"] == []


def test_the_exit_code_of_a_refusal_can_be_chosen(headgate: Headgate) -> None:
    headgate.acquire(DB)
    assert headgate("lock", "run", DB, "--", "true").code == 75
    assert headgate("lock", "run", "--conflict-exit-code", "9", DB, "--", "true").code == 9
    assert headgate("lock", "run", "--conflict-exit-code", "0", DB, "--", "true").code == 0


def test_the_command_waits_for_its_lock(headgate: Headgate) -> None:
    lock = headgate.acquire(DB)
    runner = headgate.start("lock", "run", "--wait", "60", DB, "--", "echo", "done")
    until(lambda: headgate.locks(DB)["waiting"], "the run to wait")
    headgate("lock", "release", lock["id"], "--token", str(lock["token"]))
    assert runner.communicate(timeout=20) == (b"done\n", b"")
    assert runner.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ending_a_waiting_command_leaves_no_waiter(headgate: Headgate, number: signal.Signals) -> None:
    headgate.acquire(DB)
    runner = headgate.start("lock", "run", "--wait", "60", DB, "--", "touch", "ran")
    until(lambda: headgate.locks(DB)["waiting"], "the run to wait")
    children = [int(pid) for pid in Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()]
    assert len(children) == 2
    runner.send_signal(number)
    assert runner.wait(10) == 128 + number
    assert all(gone(pid) for pid in children)
    assert headgate.locks(DB)["waiting"] == []
    assert not (headgate.folder / "ran").exists()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_are_passed_on(headgate: Headgate, name: str) -> None:
    script = f"trap 'echo {name}; exit 5' {name}; echo $$ >pid; while :; do sleep 0.02; done"
    runner = headgate.start("lock", "run", DB, "--", "sh", "-c", script)
    read_number(headgate.folder / "pid")
    runner.send_signal(getattr(signal, f"SIG{name}"))
    out, _ = runner.communicate(timeout=20)  # On stderr the shell reports how its sleep ended: it got the signal too.
    assert (runner.returncode, out) == (5, f"{name}\n".encode())
    assert headgate.locks(DB)["items"] == []


def test_the_whole_group_gets_the_signal(headgate: Headgate) -> None:
    runner = headgate.start("lock", "run", DB, "--", "sh", "-c", SLEEPER)
    grandchild = read_number(headgate.folder / "grandchild")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(20) == 143
    until(lambda: gone(grandchild), "the grandchild to end")


def test_ignored_signals_stay_ignored(headgate: Headgate) -> None:
    """Like nohup: neither headgate nor the command ends by SIGHUP."""
    command = ["nohup", str(PROGRAM), "lock", "run", DB, "--", "sh", "-c", "echo $$ >pid; read line; exit 6"]
    runner = subprocess.Popen(
        command, env=headgate.environment(), cwd=headgate.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pid = read_number(headgate.folder / "pid")
    runner.send_signal(signal.SIGHUP)
    os.kill(pid, signal.SIGHUP)
    runner.communicate(b"go on\n", timeout=20)
    assert runner.returncode == 6


def test_the_command_is_the_leader_of_its_own_session(headgate: Headgate) -> None:
    done = headgate(
        "lock", "run", DB, "--", sys.executable, "-c", "import os; print(os.getpid(), os.getsid(0), os.getpgrp())"
    )
    assert len(set(done.out.split())) == 1


def test_the_signal_handling_of_python_is_not_inherited(headgate: Headgate) -> None:
    """Python ignores SIGPIPE; a command that inherited this would run forever after `| head`."""
    done = headgate("lock", "run", DB, "--", "grep", "SigIgn", "/proc/self/status")
    assert int(done.out.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_processes_that_the_command_leaves_running_are_stopped_and_reported(headgate: Headgate) -> None:
    done = headgate(
        "lock", "run", "--lease", "2", DB, "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $! >left; exit 3"
    )
    assert (done.code, done.err) == (3, "headgate: stopped processes that the command had left running\n")
    assert gone(read_number(headgate.folder / "left"))


def test_a_daemon_of_its_own_session_is_left_alone(headgate: Headgate) -> None:
    script = "setsid sh -c 'echo $$ >daemon; exec sleep 60' >/dev/null 2>&1 & until test -s daemon; do sleep 0.01; done"
    assert headgate("lock", "run", DB, "--", "sh", "-c", script).code == 0
    daemon = read_number(headgate.folder / "daemon")
    assert process_state(daemon) == "S"
    os.kill(daemon, signal.SIGKILL)


def test_ctrl_z_stops_the_command_and_fg_continues_it(headgate: Headgate) -> None:
    runner = headgate.start("lock", "run", DB, "--", "sh", "-c", SLEEPER)
    pids = [read_number(headgate.folder / name) for name in ("pid", "grandchild")]
    runner.send_signal(signal.SIGTSTP)
    until(lambda: {process_state(pid) for pid in (runner.pid, *pids)} == {"T"}, "everything to stop")
    runner.send_signal(signal.SIGCONT)
    until(lambda: {process_state(pid) for pid in (runner.pid, *pids)} == {"S"}, "everything to go on")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(20) == 143


def test_a_lock_is_renewed_for_as_long_as_the_command_runs(headgate: Headgate) -> None:
    script = f"sleep 3; {PROGRAM} lock check $HEADGATE_LOCK_ID --token $HEADGATE_TOKEN"
    done = headgate("lock", "run", "--lease", "2", DB, "--", "sh", "-c", script)
    assert done.code == 0, done.err
    assert done.out.startswith("held")

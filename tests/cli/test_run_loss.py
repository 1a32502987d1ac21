"""`lock run` ends the command before its lock can be lost, even if the store fails or it is stopped itself."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Headgate, gone, process_state, read_number
from tests.cli.stubborn import Stubborn, blocked
from tests.servers import PrivateServer
from tests.waiting import until

DB = "mysql://db1/core"
LEASE = 2.0
#: Ends cleanly when asked to, and reports it.
POLITE = "trap 'echo asked; exit 0' TERM; echo $$ >child.pid; while :; do sleep 0.02; done"


def stubborn(headgate: Headgate, *words: str) -> Stubborn:
    return Stubborn(headgate, "lock", "run", "--lease", str(LEASE), *words, DB)


def test_a_store_that_is_blocked_ends_the_command_before_the_lease(headgate: Headgate) -> None:
    command = stubborn(headgate)
    with blocked(headgate) as since:
        code, err = command.finish()
    assert code == 76
    assert "could not be renewed in time; the command was stopped" in err
    # The last renewal was sent before the block, so the lease expired before this.
    assert max(command.last_alive()) < since + LEASE


def test_a_command_gets_sigterm_before_sigkill(headgate: Headgate) -> None:
    runner = headgate.start("lock", "run", "--lease", str(LEASE), "--grace", "0.8", DB, "--", "sh", "-c", POLITE)
    read_number(headgate.folder / "child.pid")
    with blocked(headgate) as since:
        out, err = runner.communicate(timeout=30)
        assert time.monotonic() < since + LEASE + 1
    assert (runner.returncode, out) == (76, b"asked\n")
    assert b"the command was stopped" in err


def test_a_broken_lock_ends_the_command(headgate: Headgate) -> None:
    command = stubborn(headgate)
    (lock,) = headgate.locks(DB)["items"]
    assert headgate("lock", "break", lock["id"], "--reason", "we need it").code == 0
    code, err = command.finish()
    assert code == 76
    assert "we need it" in err
    assert "the command was stopped" in err


def test_of_several_locks_one_that_is_lost_is_enough_and_the_rest_is_released(headgate: Headgate) -> None:
    command = stubborn(headgate, "another")
    (lock,) = headgate.locks(DB)["items"]
    headgate("lock", "break", lock["id"], "--reason", "we need it")
    assert command.finish()[0] == 76
    assert headgate.locks("another")["items"] == []


def test_a_loss_in_json(headgate: Headgate) -> None:
    command = stubborn(headgate, "--json")
    (lock,) = headgate.locks(DB)["items"]
    headgate("lock", "break", lock["id"], "--reason", "we need it")
    _, err = command.runner.communicate(timeout=30)
    assert command.runner.returncode == 76
    assert b'"error": "lock-lost"' in err


def test_a_loss_noticed_after_the_command_warns_of_overlapping_work(headgate: Headgate) -> None:
    script = f'{sys.executable} -m headgate lock break "$HEADGATE_LOCK_ID" --reason mine >/dev/null'
    done = headgate("lock", "run", DB, "--", "sh", "-c", script)
    assert done.code == 76
    assert "finished (exit code 0), but its work may have overlapped" in done.err


def test_sigkill_of_the_runner_ends_the_command(headgate: Headgate) -> None:
    command = stubborn(headgate)
    command.runner.kill()
    killed = time.monotonic()
    until(command.ended, "child and grandchild to end")
    assert max(command.last_alive()) < killed + LEASE / 2
    until(lambda: not headgate.locks(DB)["items"], "the lease to end", LEASE + 5)


def test_sigkill_of_runner_and_guardian_lets_the_kernel_end_the_command(headgate: Headgate) -> None:
    command = stubborn(headgate)
    children = Path(f"/proc/{command.runner.pid}/task/{command.runner.pid}/children").read_text().split()
    (guardian,) = {int(pid) for pid in children} - set(command.pids)
    os.kill(guardian, signal.SIGSTOP)
    until(lambda: process_state(guardian) == "T", "the guardian to stop")
    command.runner.kill()
    os.kill(guardian, signal.SIGKILL)
    until(lambda: gone(command.pids[0]), "the command to end")
    os.kill(command.pids[1], signal.SIGKILL)  # Out of the kernel's reach, which signals only the direct child.


def test_stopped_for_longer_than_the_lease_the_command_does_not_run_on(headgate: Headgate) -> None:
    command = stubborn(headgate)
    command.runner.send_signal(signal.SIGSTOP)
    until(lambda: process_state(command.runner.pid) == "T", "headgate to stop")
    stopped = time.monotonic()
    until(command.ended, "child and grandchild to end")
    assert max(command.last_alive()) < stopped + LEASE
    command.runner.send_signal(signal.SIGCONT)
    code, err = command.finish()
    assert code == 76
    assert "not yours" in err


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "zookeeper"])
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_an_outage_of_the_server_ends_the_command_before_the_lease(
    kind: str, fault: str, module_private_server: Callable[[str], PrivateServer], tmp_path: Path
) -> None:
    server = shared_server(kind, module_private_server)
    headgate = Headgate(server.fresh(), tmp_path)
    try:
        command = stubborn(headgate)
        getattr(server, fault)()
        away = time.monotonic()
        code, err = command.finish()
    finally:
        headgate.end_all()
        server.resume() if server.running else server.start()
    assert code == 76, err
    assert "the command was stopped" in err
    assert max(command.last_alive()) < away + LEASE


SERVERS: dict[str, PrivateServer] = {}


def shared_server(kind: str, start: Callable[[str], PrivateServer]) -> PrivateServer:
    if kind not in SERVERS or not SERVERS[kind].running:
        SERVERS[kind] = start(kind)
    return SERVERS[kind]


def test_a_short_outage_is_not_noticed(headgate: Headgate) -> None:
    os.mkfifo(headgate.folder / "go")
    runner = headgate.start("lock", "run", "--lease", "4", DB, "--", "sh", "-c", "echo $$ >pid; read line <go; exit 5")
    read_number(headgate.folder / "pid")
    with blocked(headgate) as since:
        until(lambda: time.monotonic() > since + 1.2, "a renewal to be due")
    (headgate.folder / "go").write_text("go\n")
    assert runner.wait(20) == 5


def test_an_unavailable_store_at_the_end_does_not_block_the_exit(headgate: Headgate) -> None:
    """The work is done and was protected: its exit code counts; the lease expires."""
    os.mkfifo(headgate.folder / "go")
    runner = headgate.start("lock", "run", "--lease", "60", DB, "--", "sh", "-c", "echo $$ >pid; read line <go; exit 5")
    read_number(headgate.folder / "pid")
    with blocked(headgate):
        (headgate.folder / "go").write_text("go\n")
        began = time.monotonic()
        assert runner.wait(20) == 5
        assert time.monotonic() < began + 10


def test_the_command_may_not_outlive_a_terminal_that_is_closed(headgate: Headgate) -> None:
    """SIGHUP reaches the command, and a second signal after it still does.

    The lease is long: on a very busy machine a short one would be lost, and the command ended.
    """
    command = Stubborn(headgate, "lock", "run", "--lease", "60", "--grace", str(LEASE / 4), DB)
    command.runner.send_signal(signal.SIGHUP)
    command.runner.send_signal(signal.SIGTERM)
    assert command.runner.poll() is None
    os.kill(command.pids[0], signal.SIGKILL)
    code, err = command.finish()
    assert code == 137
    assert err == "headgate: stopped processes that the command had left running\n"

"""The process that commands are forked from behaves like `subprocess.run`, and like a shell."""

import signal
import subprocess

import pytest

from tests.cli.commands import PROGRAM, Headgate, forge_for, gone, read_number
from tests.cli.forked import Forge, read_at_start
from tests.waiting import until


def test_a_command_that_does_not_end_in_time_is_killed(headgate: Headgate) -> None:
    environment = headgate.environment()
    forge = Forge(dict(read_at_start(environment)), patience=1.0)
    with pytest.raises(TimeoutError):
        # It returns when no process can write to the command's streams any more: when the command has ended.
        forge.run([str(PROGRAM), "daemon", "--interval", "1h"], b"", environment, headgate.folder)
    forge.close()


def start_forked(headgate: Headgate, *words: str, **more: str) -> "subprocess.Popen[bytes]":
    """Like a shell that finds the forge's command first."""
    environment = headgate.environment()
    program = forge_for(environment).path / "headgate"
    return subprocess.Popen(
        [program, *words],
        env={**environment, **more},
        cwd=headgate.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("language", ["C.UTF-8", "C"])  # With a different one it is started instead of forked.
def test_a_forked_command_prints_and_exits_like_one_started_by_a_shell(language: str, headgate: Headgate) -> None:
    with start_forked(headgate, "lock", "show", "nobody's", LANG=language) as process:
        out, err = process.communicate()
    told = headgate("lock", "show", "nobody's")
    assert (process.returncode, out.decode(), err.decode()) == (told.code, told.out, told.err)
    assert told.code != 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_what_a_shell_finds_reaches_the_command(number: signal.Signals, headgate: Headgate) -> None:
    script = f"echo $PPID > {headgate.folder}/pid; exec sleep 600"
    with start_forked(headgate, "lock", "run", "x", "--", "sh", "-c", script) as process:
        command = read_number(headgate.folder / "pid")
        process.send_signal(number)
        until(lambda: gone(command), "the command to end")
        process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)

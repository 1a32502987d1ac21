"""On a terminal: tables that fit, colours that may be switched off. Elsewhere: plain text."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from datetime import UTC, datetime, timedelta

import pytest

from headgate.cli import output
from tests.cli.commands import PROGRAM, Headgate

LONG = "mysql://db1/" + "a-rather-long-name-of-a-database/" * 5


def on_terminal(headgate: Headgate, *words: str, width: int = 100, errors: bool = False, **environment: str) -> str:
    """What the command writes to a terminal of that width; its stderr too, if asked for."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = subprocess.Popen(
        [PROGRAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
        env=headgate.environment(TERM="xterm-256color", **environment),
        cwd=headgate.folder,
    )
    os.close(theirs)
    written = b""
    while part := read_terminal(ours):
        written += part
    os.close(ours)
    assert process.wait(20) == 0
    return written.decode().replace("\r\n", "\n")


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # The last one on the other side has gone.
        return b""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_the_terminal_and_loses_nothing(headgate: Headgate, width: int) -> None:
    lock = headgate.acquire(LONG)
    written = on_terminal(headgate, "lock", "list", width=width, NO_COLOR="1")
    assert max(len(line) for line in written.splitlines()) <= width
    assert "alice" in written
    assert (lock["id"] in written) == (width >= 120)
    assert sum(line.count("e") for line in written.splitlines()) >= LONG.count("e")


def test_colours_on_a_terminal_only_and_never_against_the_users_will(headgate: Headgate) -> None:
    headgate.acquire("db")
    for words in (["lock", "list"], ["lock", "acquire", "other", "--mode", "shared"]):
        assert "\x1b[" in on_terminal(headgate, *words)
        plain = on_terminal(headgate, *words, NO_COLOR="1")
        assert "\x1b" not in plain
        assert "exclusive" in plain or "shared" in plain


def test_json_is_spread_out_for_people_and_one_line_for_programs(headgate: Headgate) -> None:
    assert on_terminal(headgate, "status", "--json").startswith("{\n  ")
    assert headgate("status", "--json").out.count("\n") == 1


def test_a_clock_that_is_ahead_gives_no_negative_age() -> None:
    assert output.ago(datetime.now(UTC) + timedelta(seconds=30)) == "0 s ago"


def test_names_that_the_terminal_cannot_show_are_escaped(headgate: Headgate) -> None:
    headgate.acquire("größe-日本")
    done = headgate("lock", "list", LANG="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0
    assert "gr\\xf6\\xdfe" in done.out


HELPED = [
    [],
    ["lock"],
    *(["lock", verb] for verb in ("acquire", "release", "renew", "check", "upgrade", "downgrade", "list", "show")),
    ["lock", "break"],
    ["lock", "run"],
    ["status"],
    ["history"],
    ["settings"],
    ["migrate"],
]


@pytest.mark.parametrize("words", HELPED, ids=" ".join)
def test_help_begins_with_a_sentence_and_teaches_by_example(headgate: Headgate, words: list[str]) -> None:
    done = headgate(*words, "-h")
    assert done.code == 0
    assert done.out == headgate(*words, "--help").out
    usage, _, body = done.out.partition("\n\n")
    assert usage.startswith("Usage: headgate")
    assert body.lstrip()[0].isupper()
    assert "  headgate " in body or "HEADGATE_URL=" in body
    if words not in ([], ["lock"]):
        assert "--json" in body

"""A closed terminal, and readers that disappear: the text is lost, but never a report."""

import os
import pty
import signal
import subprocess
from collections.abc import Iterator

import pytest

import headgate as library
from headgate.core.ledger.model import Row
from headgate.service.ledger.use_cases import Ledger
from tests.cli.commands import PROGRAM, Headgate, gone, read_number
from tests.waiting import until

PIPELINE = """
dataset = {{ raw = {{}}, tidy = {{}} }}
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
workers = {count}
command = "{command}"
"""
#: Prints its process id, and takes long.
LONG = "echo $$ >$HEADGATE_DATAID.pid; exec sleep 60"
RUNS = (("work",), ("job", "run", "clean", "--loop", "--"), ("job", "run", "clean", "--"))


@pytest.fixture
def ledger(headgate: Headgate) -> Iterator[Ledger]:
    with library.connect(headgate.url) as gate:
        yield gate.ledger


def prepare(headgate: Headgate, command: str, count: int = 1) -> None:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE.format(command=command, count=count))
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", f"1..{count}").code == 0


def row_of(ledger: Ledger, dataid: str) -> Row:
    (row,) = ledger.status("tidy", "clean", dataid, kind="OUTPUT")
    return row


def words_of(run: tuple[str, ...], command: str) -> list[str]:
    return [*run, "sh", "-c", command] if "--" in run else [*run]


def closed_pipe() -> int:
    """A pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_closing_the_terminal_interrupts_running_work(headgate: Headgate, ledger: Ledger, run: tuple[str, ...]) -> None:
    """The last lines cannot be written: chunks are still reported, and nothing is left behind."""
    prepare(headgate, LONG)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", PROGRAM, *words_of(run, LONG)], stdin=theirs, stdout=theirs, stderr=theirs,
        cwd=headgate.folder, env=headgate.environment(TERM="xterm"),
    )  # fmt: skip
    os.close(theirs)
    command = read_number(headgate.folder / "1.pid")
    os.close(ours)
    assert process.wait(30) == 128 + signal.SIGHUP
    until(lambda: gone(command), "the command to end")
    row = row_of(ledger, "1")
    assert (row.status, row.failures, row.crashes, row.interruptions) == ("RESUBMIT", 0, 0, 1)


@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_work_continues_when_its_output_is_not_read(headgate: Headgate, ledger: Ledger, run: tuple[str, ...]) -> None:
    """The command leaves a process behind, so that there is a message before the report."""
    command = "sleep 60 >/dev/null 2>&1 & exit 0"
    prepare(headgate, command)
    deaf = closed_pipe()
    process = subprocess.Popen(
        [PROGRAM, *words_of(run, command)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=deaf,
        cwd=headgate.folder, env=headgate.environment(),
    )  # fmt: skip
    os.close(deaf)
    assert process.wait(30) == 0
    assert row_of(ledger, "1").status == "READY"


def test_a_reader_of_events_that_exits_interrupts_the_work(headgate: Headgate, ledger: Ledger) -> None:
    """Like programs whose output nobody reads; the other chunk is interrupted, and not abandoned."""
    prepare(headgate, "[ $HEADGATE_DATAID = 1 ] || { echo $$ >2.pid; exec sleep 60; }; "
                      "until [ -s 2.pid ]; do sleep 0.01; done", count=2)  # fmt: skip
    deaf = closed_pipe()
    process = subprocess.Popen(
        [PROGRAM, "work", "--json"], stdin=subprocess.DEVNULL, stdout=deaf, stderr=subprocess.DEVNULL,
        cwd=headgate.folder, env=headgate.environment(),
    )  # fmt: skip
    os.close(deaf)
    command = read_number(headgate.folder / "2.pid")
    assert process.wait(30) == 141
    assert gone(command)
    assert [row_of(ledger, each).status for each in "12"] == ["READY", "RESUBMIT"]

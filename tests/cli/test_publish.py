"""`data publish` of many: progress for users at a terminal, and an interruption without loss."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from headgate import connect
from headgate.cli.terminal import progress
from headgate.cli.terminal.console import Console
from tests.cli.commands import PROGRAM, Headgate
from tests.waiting import until

PIPELINE = """
[dataset.raw]
[dataset.tidy]
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
"""
MANY = 20_000
BATCH = 5000


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    return headgate


def test_publishing_is_repeated_after_a_kill_without_duplicates(pipeline: Headgate) -> None:
    """Each batch is complete or absent; the second run completes the rest."""
    with connect(pipeline.url) as gate:
        process = pipeline.start("data", "publish", "raw", f"1..{MANY}", "--yes")
        until(lambda: gate.ledger.left("clean"), "the first batch")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        there = gate.ledger.left("clean")
        assert there < MANY, "it was over before it was killed"
        assert there % BATCH == 0
        again = pipeline("data", "publish", "raw", f"1..{MANY}", "--json", "--yes")
        assert again.json == {"dataset": "raw", "published": MANY - there, "given": MANY}
        assert gate.ledger.left("clean") == MANY
        assert again.err == ""


def test_a_line_shows_progress_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "TOLD_SECONDS", 0.0)
    with progress.progress(Console(), lambda: 20_000, BATCH, "chunks") as tell:
        tell(5000)
    line = r"5,000 of 20,000 chunks \(25%\), [0-9,]+/s, [0-9.]+ s left\n"
    assert re.fullmatch(line, capsys.readouterr().err)
    with progress.progress(Console(quiet=True), lambda: 20_000, BATCH) as tell:
        tell(5000)
    assert capsys.readouterr().err == ""


def test_short_work_prints_no_progress(pipeline: Headgate) -> None:
    few = pipeline("data", "publish", "raw", "1..5000")
    assert (few.code, few.err) == (0, "")
    assert pipeline("data", "publish", "raw", "1..5001").err == "", "it takes less than a few seconds"
    assert pipeline("data", "publish", "raw", "1..5001", "--quiet").err == ""


@pytest.mark.parametrize(("last", "bar"), [(5001, True), (5000, False)])
def test_progress_on_a_terminal_is_a_bar(pipeline: Headgate, last: int, bar: bool) -> None:
    shown = on_terminal(pipeline, "data", "publish", "raw", f"1..{last}")
    assert (f"{last:,} of {last:,} chunks (100%)" in shown) is bar
    assert shown.endswith("\r\x1b[K") is bar


def on_terminal(command: Headgate, *words: str) -> str:
    """What it writes to stderr, which is a terminal; its answer goes elsewhere."""
    ours, theirs = pty.openpty()
    environment = command.environment(TERM="xterm", COLUMNS="100")
    with Path(os.devnull).open("wb") as out:
        process = subprocess.Popen([PROGRAM, *words], env=environment, cwd=command.folder, stdout=out, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # Linux reports in this way that nobody has the terminal open any more.
        pass
    os.close(ours)
    assert process.wait(30) == 0
    return shown.decode()

"""The examples do what they say."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import PROGRAM

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("noun", "shown"),
    [
        ("locks", ["waits", "expire"]),
        ("ledger", ["NO   1 failures of 1 are used up", "the raw data was mended", "2026-11-02 9"]),
        ("ingest", ["Moby Dick, the first chapter", "READY"]),
        ("queue", ["no route to example.org", "failed → downloading", "nothing is wrong"]),
    ],
)
def test_an_example_ends_well(noun: str, shown: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "HEADGATE": str(PROGRAM), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    command = ["sh", str(EXAMPLES / noun / "run.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nall well\n")
    for text in shown:
        assert text in done.stdout
    assert not list(tmp_path.glob("tmp.*"))

"""The examples work as described."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Headgate, forge_for

EXAMPLES = Path(__file__).parents[2] / "examples"


def beside_python(program: Path, folder: Path) -> Path:
    """The program as installed: in a folder with an interpreter."""
    (folder / "python").symlink_to(sys.executable)
    (folder / "headgate").write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    (folder / "headgate").chmod(0o755)
    return folder / "headgate"


@pytest.mark.parametrize(
    ("noun", "shown"),
    [
        ("locks", ["waits", "expire"]),
        ("ledger", ["NO   it used up its attempts (1 of 1 failed)", "the raw data was corrected", "2026-11-02 9"]),
        ("ingest", ["Moby Dick, the first chapter", "READY"]),
        ("queue", ["no route to example.org", "failed → downloading", "nothing is wrong"]),
    ],
)
def test_an_example_succeeds(noun: str, shown: list[str], tmp_path: Path) -> None:
    environment = Headgate("", tmp_path).environment(TMPDIR=str(tmp_path))
    environment["HEADGATE"] = str(beside_python(forge_for(environment).path / "headgate", tmp_path))
    command = ["sh", str(EXAMPLES / noun / "run.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nall well\n")
    for text in shown:
        assert text in done.stdout
    assert not list(tmp_path.glob("tmp.*"))

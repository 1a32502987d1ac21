"""The example that `make run` shows does what it says."""

import os
import subprocess
from pathlib import Path

from tests.cli.commands import PROGRAM

EXAMPLE = Path(__file__).parents[2] / "examples" / "locks" / "run.sh"


def test_the_locks_example_ends_well(tmp_path: Path) -> None:
    environment = {**os.environ, "HEADGATE": str(PROGRAM), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(["sh", EXAMPLE], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nall well\n")
    assert "waits" in done.stdout
    assert "expire" in done.stdout
    assert not list(tmp_path.glob("tmp.*"))


def test_the_ingest_example_ends_well(tmp_path: Path) -> None:
    environment = {**os.environ, "HEADGATE": str(PROGRAM), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    script = EXAMPLE.parents[1] / "ingest" / "run.sh"
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nall well\n")
    assert "Moby Dick, the first chapter" in done.stdout
    assert done.stdout.count("READY") == 2
    assert not list(tmp_path.glob("tmp.*"))

"""Files with claims and items: removed with the command, however it ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.processes.run_folder import PREFIX, run_folder
from tests.waiting import until

#: A daemon that is killed while a command processes an item.
KILLED = """
import os, signal
from headgate.cli.service.daemon_plan import DaemonPlan
plan = DaemonPlan([], {}, {"downloading": ["true"]})
with plan.guarded():
    (plan._folder / "item-1.json").write_text("secret")
    print(plan._folder, plan._folder.stat().st_mode & 0o777, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_a_folder_is_removed_at_the_end_even_after_a_failure(place: Path) -> None:
    def fail() -> None:
        with run_folder() as folder:
            assert folder.parent == place
            (folder / "claim").write_text("secret")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(place.iterdir()) == []


def test_unused_folders_are_removed_at_the_next_start(place: Path) -> None:
    left, used, other = place / f"{PREFIX}left", place / f"{PREFIX}used", place / "headgate-other"
    for each in (left, used, other):
        each.mkdir(0o700)
        (each / "item-1.json").write_text("secret")
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    elsewhere = place / f"{PREFIX}link"
    elsewhere.symlink_to(other)
    try:
        with run_folder() as folder:
            assert set(place.iterdir()) == {used, other, elsewhere, folder}
    finally:
        os.close(lock)
    assert (used / "item-1.json").exists()
    assert (other / "item-1.json").exists()


def test_a_daemon_that_is_killed_leaves_no_item_file(place: Path) -> None:
    child = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    folder, mode = child.stdout.split()
    assert (Path(folder).parent, int(mode)) == (place, 0o700)
    until(lambda: not Path(folder).exists(), "the guardian to remove the folder")

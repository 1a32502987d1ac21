"""Killed in the middle: the source is unchanged, a partial target cannot be used, and the same command completes it."""

import os
import shutil
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import HalfMoved
from headgate.cli.main import main
from headgate.stores.archive.file import ArchiveTarget
from headgate.stores.sql.moving.whole import SqlTarget

#: Every step that writes, or compares written rows.
STEPS: list[tuple[type, str]] = [
    *((SqlTarget, name) for name in ("_take_over", "_clear", "add", "digests", "_finish")),
    *((ArchiveTarget, name) for name in ("begin", "add", "digests", "finish")),
]


def run(point: int, folder: Path, *words: str) -> int:
    """The command in a separate process, killed before that step (0: never).

    Returns the number of steps; -9: killed.
    """
    steps = folder / "steps"
    with warnings.catch_warnings():  # Newer Pythons warn of forks beside threads; this child uses none of them.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        code = 1
        try:
            seen = _count_down(point)
            code = main([*words])
            steps.write_text(str(len(seen)))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code or int(steps.read_text())


def _count_down(point: int) -> list[str]:
    seen: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            if len(seen) == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for owner, name in STEPS:
        setattr(owner, name, counted(name, getattr(owner, name)))
    return seen


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A store without any event."""
    headgate.connect(f"sqlite:///{tmp_path / 'empty.db'}").close()
    return tmp_path / "empty.db"


@pytest.fixture
def source(empty: Path, tmp_path: Path) -> str:
    url = f"sqlite:///{shutil.copy(empty, tmp_path / 'old.db')}"
    with headgate.connect(url) as gate:
        for number in range(5):
            gate.locks.acquire("ann", f"r{number}", "exclusive")
        gate.queue.submit("demo", "ann", "https://example.org/x")
    return url


def contents(url: str) -> list[object]:
    with headgate.connect(url) as gate:
        locks = sorted((lock.id, lock.token) for lock in gate.locks.list())
        return [*locks, *gate.queue.batches(), *gate.history(limit=100)]


@pytest.mark.parametrize("way", ["copy", "restore"])
def test_a_killed_move_leaves_an_unusable_target_and_can_be_repeated(
    way: str, source: str, empty: Path, tmp_path: Path
) -> None:
    archive = str(tmp_path / "b.gz")
    run(0, tmp_path, "backup", archive, "--url", source)
    before = contents(source)

    def command(target: Path) -> tuple[str, ...]:
        url = f"sqlite:///{target}"
        return ("copy", source, url) if way == "copy" else ("restore", archive, "--url", url)

    steps = run(0, tmp_path, *command(Path(shutil.copy(empty, tmp_path / "whole.db"))))
    for point in (2, steps // 2, steps):
        target = Path(shutil.copy(empty, tmp_path / f"new{point}.db"))
        assert run(point, tmp_path, *command(target)) == -signal.SIGKILL
        with pytest.raises(HalfMoved, match="epeat the command"):
            headgate.connect(f"sqlite:///{target}")
        assert run(0, tmp_path, *command(target)) > 0
        assert contents(f"sqlite:///{target}") == before
    assert contents(source) == before


def test_a_killed_backup_leaves_no_file_of_that_name(source: str, empty: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "b.gz", contents(source)
    steps = run(0, tmp_path, "backup", str(tmp_path / "whole.gz"), "--url", source)
    for point in (1, steps // 2, steps):
        assert run(point, tmp_path, "backup", str(file), "--url", source) == -signal.SIGKILL
        assert not file.exists()
    run(0, tmp_path, "backup", str(file), "--url", source)
    assert not file.with_name("b.gz.unfinished").exists()
    run(0, tmp_path, "restore", str(file), "--url", f"sqlite:///{empty}")
    assert contents(f"sqlite:///{empty}") == before

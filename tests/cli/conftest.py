"""The command on a fresh SQLite store, and on a fresh store of each kind."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Headgate


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store in which nothing has happened: making one takes longer than most tests."""
    folder = tmp_path_factory.mktemp("empty")
    path = folder / "headgate.sqlite"
    assert Headgate(f"sqlite:///{path}", folder)("lock", "list").code == 0
    return path


@pytest.fixture
def headgate(empty_store: Path, tmp_path: Path) -> Iterator[Headgate]:
    path = Path(shutil.copy(empty_store, tmp_path))
    command = Headgate(f"sqlite:///{path}", tmp_path)
    yield command
    command.end_all()


@pytest.fixture
def on_store(store_url: str, tmp_path: Path) -> Iterator[Headgate]:
    command = Headgate(store_url, tmp_path)
    yield command
    command.end_all()

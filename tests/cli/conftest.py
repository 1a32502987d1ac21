"""The command on a fresh SQLite store, and on a fresh store of each kind."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Headgate


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

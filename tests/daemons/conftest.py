"""A command on its own store, and building blocks of consumers in tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Headgate
from tests.conftest import fresh_store
from tests.shared_servers import Servers


@pytest.fixture(params=["sqlite", "postgresql"])
def headgate(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Headgate]:
    """On SQLite, where workers poll, and on PostgreSQL, where they are woken."""
    for url in fresh_store(request.param, servers, tmp_path):
        command = Headgate(url, tmp_path)
        yield command
        command.end_all()


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Headgate]:
    command = Headgate(f"sqlite:///{tmp_path / 'headgate.sqlite'}", tmp_path)
    yield command
    command.end_all()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a shell script that a daemon can run; returns its path."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write

"""Private servers and files for one run, started on first use."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.servers import MariaDB, PostgreSQL, ZooKeeper


class Places:
    """The stores of a benchmark."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._servers: dict[type[Any], Any] = {}

    def file(self) -> Path:
        """A new file name."""
        return self._folder / f"{secrets.token_hex(4)}.db"

    def sqlite(self, mode: str) -> str:
        """A new SQLite store."""
        return f"sqlite:///{self.file()}?journal_mode={mode}"

    def postgresql(self) -> str:
        """A new PostgreSQL database."""
        return self._fresh(PostgreSQL)

    def mariadb(self) -> str:
        """A new MariaDB database."""
        return self._fresh(MariaDB)

    def zookeeper(self) -> str:
        """A new root on ZooKeeper."""
        return self._fresh(ZooKeeper)

    def _fresh(self, kind: type[Any]) -> str:
        if kind not in self._servers:
            server = self._servers[kind] = kind()
            self._stack.callback(server.discard)
            server.start()
        url: str = self._servers[kind].fresh()
        return url


@contextmanager
def places() -> Iterator[Places]:
    """Servers that are removed afterwards."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        yield Places(Path(folder), stack)

"""News on SQLite: a datagram to every process of this machine that listens."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from headgate.stores.sql.dialects.sqlite.place import WAKE_SUFFIX


class SqliteNews:
    """The sockets of one database. Their modules are imported when a process listens."""

    works = hasattr(os, "O_PATH")

    def __init__(self, database: Path) -> None:
        self._database = database
        self._folder = f"{database}{WAKE_SUFFIX}"

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        """Bind a socket of this process."""
        from headgate.stores.sql.dialects.sqlite.wake import NEWS, WakeFolder

        del channel  # The folder belongs to the store.
        try:
            WakeFolder(self._database).listen(f"{NEWS}{os.urandom(8).hex()}", heard, stop)
        except OSError as error:
            raise sqlite3.OperationalError(f"no wake-ups: {error}") from error

    def send(self, runner: Any, channel: str, numbers: Sequence[int]) -> None:
        """Send to all."""
        del runner, channel
        if os.path.isdir(self._folder):  # noqa: PTH112 - after every report, mostly in vain
            from headgate.stores.sql.dialects.sqlite.wake import WakeFolder

            WakeFolder(self._database).send_to_all(numbers)

"""A command that refuses to end, and a store that cannot be written to."""

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.cli.commands import Headgate, gone, read_number
from tests.waiting import until

#: Ignores every termination signal, starts a child that does too, and records when each was last alive.
STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
name = "grandchild" if os.fork() == 0 else "child"
with open(name + ".pid", "w") as file:
    file.write(f"{os.getpid()}\\n")
with open(name + ".alive", "wb", buffering=0) as file:
    while True:
        os.pwrite(file.fileno(), b"%20.6f" % time.monotonic(), 0)
        time.sleep(0.002)
"""


class Stubborn:
    """The stubborn command under a runner: `lock run` or `job run`, by its words."""

    def __init__(self, headgate: Headgate, *words: str) -> None:
        self.folder = headgate.folder
        self.runner = headgate.start(*words, "--", sys.executable, "-c", STUBBORN)
        self.pids = [read_number(self.folder / f"{name}.pid") for name in ("child", "grandchild")]
        until(lambda: all(self.last_alive()), "both to be alive")

    def last_alive(self) -> list[float]:
        """The last sign of life of child and grandchild; 0 before the first one."""
        paths = [self.folder / f"{name}.alive" for name in ("child", "grandchild")]
        return [float(path.read_text() or 0) if path.exists() else 0.0 for path in paths]

    def ended(self) -> bool:
        return all(gone(pid) for pid in self.pids)

    def finish(self) -> tuple[int, str]:
        """The exit code and the output, once everything has ended."""
        _, err = self.runner.communicate(timeout=30)
        until(self.ended, "child and grandchild to end")
        return self.runner.returncode, err.decode()


@contextmanager
def blocked(headgate: Headgate) -> Iterator[float]:
    """The SQLite store cannot be written to during the block. Returns the time from which on that is certain."""
    with closing(sqlite3.connect(headgate.folder / "headgate.sqlite", timeout=30, isolation_level=None)) as store:
        store.execute("begin exclusive")
        yield time.monotonic()
        store.execute("rollback")

"""Commands as processes that cost a fork: each comes from one process that has imported what commands import.

A fresh interpreter with all of that takes up to half a second. Otherwise a forked command is a complete process, with
its own arguments, environment, folder, streams and exit code. What a fresh interpreter imports, and that it starts, is
tested in tests/cli/test_start.py. A shell with the forge's folder first in its `path` finds a `headgate` there that is
forked too.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.cli import messenger

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
PRELOADED = (
    "alembic.command",
    "headgate.stores.sql.dialects.mysql.dialect",
    "headgate.stores.sql.dialects.postgresql.dialect",
    "headgate.stores.sql.dialects.sqlite.dialect",
    "headgate.stores.sql.ledger.questions",
    "headgate.stores.sql.store",
    "headgate.stores.sql.migrations.upgrade",
    "headgate.stores.sql.queue.questions",
    "headgate.stores.zookeeper.store",
    "headgate.gate",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
)


Start = tuple[tuple[str, str], ...]


class Forge:
    """The process from which commands are forked, as the tests see it."""

    def __init__(self, environment: Mapping[str, str], patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._desk, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = tempfile.TemporaryDirectory(prefix="headgate-forge-")
        #: A folder with a `headgate`.
        self.path = Path(self._folder.name)
        program = self.path / "headgate"
        program.write_text(f"#!{sys.executable} -IS\n{Path(messenger.__file__).read_text()}")
        program.chmod(0o755)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(str(self.path / "desk"))
            door.listen()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forked", str(theirs.fileno()), str(door.fileno())],
                cwd=ROOT,
                env=environment,
                pass_fds=[theirs.fileno(), door.fileno()],
                # Pipes that nobody uses: Python creates its streams according to what it finds at its start.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._desk.close()
        self._process.communicate(timeout=PATIENCE_SECONDS)
        self._folder.cleanup()

    def run(
        self, words: Sequence[str], stdin: bytes, environment: Mapping[str, str], folder: Path
    ) -> tuple[int, bytes, bytes]:
        """Run a command until it has ended and its streams are closed: its exit code, stdout and stderr."""
        order = json.dumps({"words": words, "environment": environment, "folder": str(folder)}).encode()
        pairs = [os.pipe() for _ in range(3)]
        result, theirs = socket.socketpair()
        socket.send_fds(self._desk, [order], [pairs[0][0], pairs[1][1], pairs[2][1], theirs.fileno()])
        theirs.close()
        for descriptor in (pairs[0][0], pairs[1][1], pairs[2][1]):
            os.close(descriptor)
        with ThreadPoolExecutor() as beside, result:
            beside.submit(write_all, pairs[0][1], stdin)
            out, err = (beside.submit(read_all, pair[0]) for pair in pairs[1:])
            result.settimeout(self._patience)
            code = int(result.recv(100))
            return code, out.result(self._patience), err.result(self._patience)


def write_all(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb", buffering=0) as stream:
        stream.write(content)


def read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


@dataclass(frozen=True)
class Command:
    """A running command, and the channel of its exit code; data from there is a signal for it."""

    pid: int
    result: int

    def hear(self) -> None:
        signals = os.read(self.result, 100)
        # If nobody waits for it any more, there is nothing to read.
        os.kill(self.pid, int(signals) if signals else signal.SIGKILL)


def main() -> None:
    """Fork a command for each order, and report how it ended."""
    desk, door = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    known = read_at_start(os.environ)
    preload()
    running: dict[int, Command] = {}
    ordered = True
    while ordered:
        heard = [desk.fileno(), door.fileno(), *running, *(command.result for command in running.values())]
        ready = set(select.select(heard, [], [])[0])
        for exited in ready & running.keys():
            tell_end(exited, running.pop(exited))
        for command in running.values():
            if command.result in ready:
                command.hear()
        if door.fileno() in ready:
            let_in(door, known, running)
        ordered = desk.fileno() not in ready or take_order(desk, running)


def take_order(desk: socket.socket, running: dict[int, Command]) -> bool:
    """Start the ordered command; False when there is nobody to order anything."""
    order, descriptors, _, _ = socket.recv_fds(desk, 1 << 20, 4)
    if not order:
        return False
    *streams, result = descriptors
    start(json.loads(order), streams, result, running)
    return True


def let_in(door: socket.socket, known: Start, running: dict[int, Command]) -> None:
    """Start a command that a shell typed, unless it needs an interpreter with a different start."""
    caller, _ = door.accept()
    message, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
    if not message:  # It was killed on the way.
        caller.close()
        return
    order = json.loads(message)
    if read_at_start(order["environment"]) == known:
        start(order, streams, caller.detach(), running)
        return
    with caller, suppress(BrokenPipeError):
        caller.send(messenger.NOT_HERE)
    for descriptor in streams:
        os.close(descriptor)


def start(order: dict[str, Any], streams: Sequence[int], result: int, running: dict[int, Command]) -> None:
    pid = os.fork()
    if pid == 0:
        run_command(order, streams)
    for descriptor in streams:
        os.close(descriptor)
    running[os.pidfd_open(pid)] = Command(pid, result)


def read_at_start(environment: Mapping[str, str]) -> Start:
    """Settings that an interpreter reads only at its start."""
    return tuple(sorted(each for each in environment.items() if each[0].startswith(("PYTHON", "LANG", "LC_"))))


def preload() -> None:
    for name in PRELOADED:
        import_module(name)
    for module, _, _ in import_module("headgate.cli.tree").COMMANDS.values():
        import_module(f"headgate.cli.{module}")
    gc.freeze()


def tell_end(exited: int, command: Command) -> None:
    status = os.waitpid(command.pid, 0)[1]
    with suppress(BrokenPipeError):
        os.write(command.result, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(command.result)
    os.close(exited)


def run_command(order: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = order["words"]
    from headgate.cli.main import main as headgate

    code = headgate()
    # End like an interpreter, without freeing every preloaded object. Errors are handled above.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

"""What every private server has in common: how it starts, dies, hangs and comes back.

Durability is left as the servers ship it (fsync on): fault tests are worth nothing without. Each server runs
under tests/supervise.py, which takes it down even when the test run itself is killed.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self

from tests import fresh, supervise

START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02
#: Below the range from which systems pick ports for outgoing connections: no client can take a server's port
#: while that server is down.
PORTS = range(15_000, 32_000)


class Unavailable(Exception):
    """This kind of server cannot be had here; the text says what is missing and how to get it."""


class ServerFailed(Exception):
    """The server ended or did not answer; the text ends with its log."""


class PrivateServer(ABC):
    """A server of our own, which a test may kill, suspend and restart."""

    kind: ClassVar[str]
    #: Whom the server runs as when we are root; it may refuse to run as root.
    account: ClassVar[str] = ""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self) -> None:
        self.require_programs()
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"headgate-{self.kind}-"))
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self._user = self.account if os.geteuid() == 0 else ""
        self._prepared = False
        self._pid = 0
        self._supervisor: subprocess.Popen[str] | None = None
        if self._user:
            shutil.chown(self.folder, self._user, self._user)

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the server is, as Headgate spells it."""

    @classmethod
    @abstractmethod
    def require_programs(cls) -> None:
        """Raise Unavailable when something that the server needs is not installed."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves requests now."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the data folder, once, before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What to run; it stays in the foreground."""

    def _first_started(self) -> None:  # noqa: B027 - most servers need nothing
        """What has to be set up once, on the running server."""

    @property
    def pid(self) -> int:
        """The main process of the running server."""
        if not self.running:
            raise ServerFailed(f"{self.kind} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None

    def start(self) -> Self:
        """Start, and return when it answers."""
        self.launch()
        self.wait_until_answering()
        if not self._prepared:
            self._first_started()
            self._prepared = True
        return self

    def launch(self) -> None:
        """Start without waiting for an answer."""
        if self.running:
            raise ServerFailed(f"{self.kind} is running already")
        if not self._prepared:
            self._prepare()
        self._supervise(self._command())

    def wait_until_answering(self) -> None:
        wait_until(self._answers_or_fails, f"{self.kind} to answer", START_SECONDS)

    def stop(self) -> None:
        """Shut down in an orderly way, and return when it is gone."""
        if self.running:
            self.resume()
            os.kill(self.pid, self.stop_signal)
            self._await_exit()

    def kill(self) -> None:
        """SIGKILL the main process, as a crash would; return when it and its children are gone."""
        if not self.running:
            return
        children = supervise.descendants(self.pid)
        supervise.send(self.pid, signal.SIGKILL)
        for child in children:
            supervise.send(child, signal.SIGCONT)
        self._await_exit()

    def restart(self) -> Self:
        """Stop it if it runs, and start it on the same port with the same data."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Suspend every process of it: connections stay open, nothing answers."""
        # The main process first, so that it starts no child behind our back.
        os.kill(self.pid, signal.SIGSTOP)
        for pid in supervise.descendants(self.pid):
            supervise.send(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in (*supervise.descendants(self.pid), self.pid):
            supervise.send(pid, signal.SIGCONT)

    def discard(self) -> None:
        """Kill it and remove its folder."""
        if self._supervisor is not None and self.running:
            # The supervisor does both, and finishes even when this process is killed meanwhile.
            self._supervisor.terminate()
            self._await_exit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self) -> str:
        """The URL of a brand-new empty database on this server."""
        return fresh.fresh(self.url)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _run(self, command: list[str]) -> None:
        """Run a command to its end as the server's user."""
        self._supervise(command)
        if self._await_exit() != 0:
            raise ServerFailed(f"{command[0]} failed\n{self._log_tail()}")

    def _supervise(self, command: list[str]) -> None:
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", supervise.__file__, *self._supervisor_arguments(), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            # Out of reach of the terminal's interrupt key, which is for the test run to handle.
            start_new_session=True,
        )
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as answer:
            line = answer.readline()
        if not line:
            raise ServerFailed(f"{command[0]} could not be started")
        self._pid = int(line)

    def _supervisor_arguments(self) -> list[str]:
        return [str(os.getpid()), str(self.folder), str(self.log), self._user]

    def _await_exit(self) -> int:
        assert self._supervisor is not None
        return self._supervisor.wait(STOP_SECONDS)

    def _answers_or_fails(self) -> bool:
        if not self.running:
            raise ServerFailed(f"{self.kind} ended while starting\n{self._log_tail()}")
        return self.answers()

    def _log_tail(self) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def wait_until(condition: Callable[[], bool], what: str, seconds: float = STOP_SECONDS) -> None:
    """Poll until the condition holds; fail when it does not within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"waited {seconds:g} s for {what}")
        time.sleep(POLL_SECONDS)


def is_alive(pid: int) -> bool:
    return supervise.parent_of(Path("/proc") / str(pid)) is not None


def free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def find_program(name: str, package: str, path: str | None = None) -> str:
    program = shutil.which(name, path=path)
    if program is None:
        raise Unavailable(f"the program {name} is missing: install the Debian package {package}")
    return program

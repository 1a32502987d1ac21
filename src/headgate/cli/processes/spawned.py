"""A command started from a thread: in its own session, watched by the guardian, with its output kept."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from headgate.cli.processes.drain import Drain
from headgate.cli.processes.guardian import Guardian, is_alive, send_to
from headgate.core.logs import LogStream
from headgate.service.queue.step_logs import listener

#: Becomes the command when the guardian watches it, and exits if we die before that. The command's words are passed
#: literally; no shell parses them.
LAUNCHER = ("/bin/sh", "-c", 'read -r word && exec "$@" </dev/null', "headgate")


class Spawned:
    """One command, from its start. Like Processes, but can be started from any thread."""

    def __init__(self, command: Sequence[str], guardian: Guardian) -> None:
        self._command = list(command)
        self._guardian = guardian
        self._popen: subprocess.Popen[bytes] | None = None
        self._told = False
        self._drains: dict[str, Drain] = {}
        self._waiter = threading.Thread(target=self._await_end, name="headgate-command", daemon=True)
        #: Called when the command has ended.
        self.on_end: Callable[[], None] = lambda: None

    def start(self, environment: Mapping[str, str | None], kill_at: float) -> None:
        """Run it, with only these variables; without those that are None."""
        # Popen, because forking a Python process with threads is not safe.
        self._popen = subprocess.Popen(  # noqa: S603 - the operator's own command
            [*LAUNCHER, *self._command],
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._guardian.kill_at(self._popen.pid, kill_at)
        self._drains = {
            "out": Drain(_pipe(self._popen.stdout), listener(LogStream.STDOUT), echo=False),
            "err": Drain(_pipe(self._popen.stderr), listener(LogStream.STDERR), echo=True),
        }
        with suppress(BrokenPipeError), _pipe(self._popen.stdin) as start:
            start.write(b"go\n")
        self._waiter.start()

    def send(self, number: int) -> None:
        """Send a signal to the command and everything that it started in its group."""
        send_to(self._process.pid, number)

    def kill_at(self, moment: float) -> None:
        """The guardian kills the group at this time of steady(), unless a later one is set."""
        self._guardian.kill_at(self._process.pid, moment)

    def reap(self) -> int | None:
        """The command's own exit code, once, when it has ended (-n: by signal n)."""
        code = None if self._told else self._process.poll()
        self._told = self._told or code is not None
        return code

    def alive(self) -> bool:
        """Whether any process of the group is still running."""
        return is_alive(self._process.pid)

    def drained(self) -> bool:
        """Its output goes only here."""
        return True

    def kill(self) -> None:
        """End all of it at once, from another thread than the one that follows it."""
        if self._popen is not None:
            self.send(signal.SIGKILL)
            self._popen.wait()

    def end(self) -> None:
        """Kill what is left of it, and stop watching it."""
        if self._popen is None:
            return
        if self._popen.poll() is None or self.alive():
            self.send(signal.SIGKILL)
        self._popen.wait()
        self._waiter.join()
        self._guardian.forget(self._popen.pid)

    def said(self, name: str) -> str:
        """The end of its output: `out` or `err`."""
        return self._drains[name].text()

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise RuntimeError("the command was not started")
        return self._popen

    def _await_end(self) -> None:
        self._process.wait()
        self.on_end()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("the command was started without pipes")
    return stream

"""The two processes of `lock run` and `job run`: the command, and a guardian that kills it when we cannot.

Both are forked before there are threads and connections, so that no partial state is inherited. The command waits for
the start message in its own session and process group. The guardian kills the group at its deadline (this process was
stopped) or when the pipe to this process closes (it was killed). On Linux the kernel also kills the command when this
process dies, in case the guardian is gone. Neither reaches processes that left the group, or set-user-id programs,
which the kernel leaves alone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Self

from headgate.cli.processes.channels import Listener, open_channels
from headgate.cli.processes.guardian import Guardian, is_alive, send_to
from headgate.cli.processes.stopping import STOP_SIGNALS, fork

NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: Seconds to wait until the last output is passed on.
DRAIN_SECONDS = 0.05
#: Of Linux's prctl.
SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36


class CannotRun(Exception):
    """There is no such command, or it cannot be executed."""

    def __init__(self, command: str, why: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(f"{command}: {why}")


class Processes:
    """The command, waiting for its start, and its guardian."""

    def __init__(
        self, command: Sequence[str], folder: Path | None = None, *, listen: bool = False, silent: bool = False,
        runs_in: Path | None = None,
    ) -> None:  # fmt: skip
        """`folder`: its content is removed with the command, even if this process is killed. `runs_in`: its working
        folder.

        `listen`: its outputs are read here and passed on, unless `silent`, and copied to `listeners`.
        """
        check_command(command[0], runs_in)
        parent = os.getpid()
        self._ended = False
        start, self._start = os.pipe()
        self._channels = open_channels(silent=silent) if listen else {}
        #: Receivers of the command's output, by descriptor. Set before the start.
        self.listeners: Mapping[int, Listener] = {}
        #: The command's process; also the number of its session and group.
        self.group = fork()
        if self.group == 0:
            os.close(self._start)
            for channel in self._channels.values():
                channel.become()
            _become(command, start, parent, runs_in)
        os.close(start)
        for channel in self._channels.values():
            channel.close_theirs()
        self._guardian = Guardian(folder)
        self._guardian.kill_at(self.group)

    def start(self, environment: Mapping[str, str | None], kill_at: float) -> None:
        """Let the command run, with these variables in addition to our own; without those that are None."""
        adopt_orphans()
        self.kill_at(kill_at)
        for number, channel in self._channels.items():
            channel.start(self.listeners.get(number, _ignore))
        with suppress(BrokenPipeError), os.fdopen(self._start, "wb") as pipe:  # It may have been killed already.
            pipe.write(json.dumps(environment).encode())
        self._start = -1

    def send(self, number: int) -> None:
        """Send a signal to the command and everything that it started in its group."""
        send_to(self.group, number)

    def kill_at(self, moment: float) -> None:
        """The guardian kills the group at this time of steady(), unless a later one is set."""
        self._guardian.kill_at(self.group, moment)

    def reap(self) -> int | None:
        """Reap ended processes of the group. Returns the command's exit code once (-n: signal n), else None."""
        if not self._ended:
            ended, status = os.waitpid(self.group, os.WNOHANG)
            if not ended:
                return None
            self._ended = True
            return os.waitstatus_to_exitcode(status)
        with suppress(ChildProcessError):  # The command's orphans became our children, see adopt_orphans.
            while os.waitpid(-self.group, os.WNOHANG)[0]:
                pass
        return None

    def alive(self) -> bool:
        """Whether any process of the group is still running."""
        return is_alive(self.group)

    def drained(self) -> bool:
        """Whether all its output was passed on, as far as can be known within a moment."""
        return all(channel.drained(DRAIN_SECONDS) for channel in self._channels.values())

    def output_error(self) -> OSError | None:
        """Why part of its output is lost. If the reader of the output has gone away, that is not an error."""
        errors = [channel.error for channel in self._channels.values() if channel.error is not None]
        return next((each for each in errors if not isinstance(each, BrokenPipeError)), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the command if it still runs or was never started, and end the guardian."""
        if self._start < 0 and not self._ended:
            self.send(signal.SIGKILL)
        self._guardian.end()
        if self._start >= 0:
            os.close(self._start)
        for channel in self._channels.values():
            channel.close()
        if not self._ended:
            os.waitpid(self.group, 0)


def _ignore(_data: bytes) -> None:
    """Ignore it."""


def check_command(name: str, runs_in: Path | None = None) -> None:
    """Raise CannotRun at once, before waiting for a lock. `runs_in`: the folder that it is run in."""
    places = [""] if "/" in name else os.get_exec_path()
    # A folder that cannot be read has no commands for us; Path.exists would raise.
    found = [
        path
        for place in places
        if name and os.path.exists(path := Path(runs_in or "", place, name))  # noqa: PTH110
    ]
    if not found:
        raise CannotRun(name, "command not found", NOT_FOUND)
    if not any(path.is_file() and os.access(path, os.X_OK) for path in found):
        raise CannotRun(name, "it is not executable", NOT_EXECUTABLE)


def adopt_orphans() -> None:
    """Adopt processes that the command leaves behind, to notice their end. Linux only."""
    _prctl(SET_CHILD_SUBREAPER, 1)


def _become(command: Sequence[str], start: int, parent: int, runs_in: Path | None) -> NoReturn:
    """Wait for the start message, then become the command."""
    try:
        os.setsid()
        _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        for number in STOP_SIGNALS:  # A handler of ours would swallow signals for the command.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        with os.fdopen(start, "rb") as pipe:
            word = pipe.read()
        if not word or os.getppid() != parent:
            os._exit(0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; the command should not.
            signal.signal(number, signal.SIG_DFL)
        told = {**os.environ, **json.loads(word)}
        variables = {name: value for name, value in told.items() if value is not None}
        if runs_in is not None:
            os.chdir(runs_in)
        os.execvpe(command[0], list(command), variables)  # noqa: S606 - no shell, on purpose
    except FileNotFoundError:
        _complain(f"{command[0]}: command not found", NOT_FOUND)
    except OSError as error:
        _complain(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE)
    finally:
        os._exit(NOT_EXECUTABLE)


def _complain(text: str, code: int) -> NoReturn:
    os.write(2, f"headgate: {text}\n".encode(errors="backslashreplace"))
    os._exit(code)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # A second line of defence: without it the first one remains.
        return

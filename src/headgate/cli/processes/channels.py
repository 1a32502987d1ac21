"""The outputs of a command: passed on byte by byte without change, and copied to listeners.

A terminal stays a terminal: the command writes to a pseudo-terminal of the same size, so colours, progress bars and
line buffering work as usual. Anything else is a pipe.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

from headgate.cli.processes.readiness import ready

#: Number of bytes that are passed on at a time.
PORTION = 65536
#: Pause before a write to a blocked output of ours is retried (seconds).
FULL_SECONDS = 0.05

Listener = Callable[[bytes], None]


class Channel:
    """One output of a command. Created before the fork; our end of it is read by a separate thread."""

    def __init__(self, number: int, *, silent: bool = False) -> None:
        """`number`: the descriptor of the output, 1 or 2, here and in the command. `silent`: it is not passed on."""
        self._number = number
        self._silent = silent
        self._is_terminal = not silent and os.isatty(number)
        self._ours, self._theirs = os.openpty() if self._is_terminal else os.pipe()
        self._wakes, self._wake = os.pipe()
        self._size: tuple[int, int] | None = None
        self._busy = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        #: Why it could not be passed on to our own output; None: it was.
        self.error: OSError | None = None
        if self._is_terminal:
            _pass_through(self._number, self._theirs)
            self._copy_size()

    def become(self) -> None:
        """In the command's process: redirect its output here."""
        os.dup2(self._theirs, self._number)

    def close_theirs(self) -> None:
        """In our process, after the fork: from now on only the command can write to it."""
        os.close(self._theirs)

    def start(self, listener: Listener) -> None:
        """Pass on new output, and copy it to listeners."""
        self._thread = threading.Thread(target=self._run, args=(listener,), name="headgate-output", daemon=True)
        self._thread.start()

    def drained(self, patience: float) -> bool:
        """Whether everything written so far was passed on; waits this long for that. A process that left the command's
        group may keep it open: its end is not waited for.
        """
        if self._ended.wait(patience):
            return True
        empty = not ready([self._ours], 0)
        return empty and not self._busy  # In this order: it becomes busy before it reads.

    def close(self) -> None:
        """Stop, even if a process could still write to it."""
        with suppress(OSError):
            os.write(self._wake, b"!")
        if self._thread is not None:
            self._thread.join(FULL_SECONDS)
            if self._thread.is_alive():  # Our own output is blocked. The thread ends with the process.
                return
        for each in (self._ours, self._wakes, self._wake):
            os.close(each)

    def _run(self, listener: Listener) -> None:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        try:
            while not any(woken == self._wakes for woken, _ in poll.poll()):
                self._busy = True
                data = self._read()
                if not data:
                    return
                listener(data)
                if not self._pass_on(data):
                    return
                self._busy = False
        finally:
            if self.error is not None:  # As without us: the command cannot write any more.
                with suppress(OSError):
                    os.dup2(self._wakes, self._ours)
            self._ended.set()

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, PORTION)
        except OSError:  # A pseudo-terminal that no process has open any more.
            return b""

    def _pass_on(self, data: bytes) -> bool:
        if self._is_terminal:
            self._copy_size()
        rest = memoryview(b"" if self._silent else data)
        while rest:
            try:
                rest = rest[os.write(self._number, rest) :]
            except BlockingIOError:  # Another process has set it.
                ready([self._wakes], FULL_SECONDS, writable=[self._number])
            except OSError as error:
                self.error = error
                return False
        return True

    def _copy_size(self) -> None:
        """The window may have changed: the command asks for its size."""
        with suppress(OSError):
            size = os.get_terminal_size(self._number)
            if size != self._size:
                self._size = size
                _set_size(self._ours, size.lines, size.columns)


def open_channels(*, silent: bool = False) -> dict[int, Channel]:
    """A channel for stdout and for stderr, by descriptor; an output that is closed here stays closed.

    `silent`: the output is only copied to listeners, and not passed on.
    """
    return {number: Channel(number, silent=silent) for number in (1, 2) if silent or _is_open(number)}


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _pass_through(terminal: int, pseudo: int) -> None:
    """The pseudo-terminal has the terminal's properties, but changes no bytes: the terminal does that."""
    import termios  # Only if there is a terminal.

    with suppress(termios.error):
        attributes = termios.tcgetattr(terminal)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(pseudo, termios.TCSANOW, attributes)


def _set_size(terminal: int, lines: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

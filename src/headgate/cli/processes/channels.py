"""The outputs of a command on their way to ours: passed on byte by byte as they are, and listened to meanwhile.

What is a terminal stays one: the command writes to a pseudo-terminal of the same size, so colours, progress bars and
line buffering are as without us. Anything else is a pipe.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

#: Bytes that are passed on at a time.
PORTION = 65536
#: Pause before an output of ours that takes nothing at the moment is written to again (seconds).
FULL_SECONDS = 0.05

Listener = Callable[[bytes], None]


class Channel:
    """One output of a command. Made before the fork; our end of it is read by a thread of its own."""

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
        """In the command's process: from now on its output goes here."""
        os.dup2(self._theirs, self._number)

    def close_theirs(self) -> None:
        """In our process, after the fork: only the command can write to it."""
        os.close(self._theirs)

    def start(self, listener: Listener) -> None:
        """Pass on what comes, and have it listened to."""
        self._thread = threading.Thread(target=self._run, args=(listener,), name="headgate-output", daemon=True)
        self._thread.start()

    def drained(self, patience: float) -> bool:
        """Whether all that was written so far was passed on; waits this long for that. A process that left the
        command's group may keep it open: nobody waits for that one's end.
        """
        if self._ended.wait(patience):
            return True
        empty = not select.select([self._ours], [], [], 0)[0]
        return empty and not self._busy  # In this order: it becomes busy before it reads.

    def close(self) -> None:
        """Stop, even if somebody could still write to it."""
        with suppress(OSError):
            os.write(self._wake, b"!")
        if self._thread is not None:
            self._thread.join(FULL_SECONDS)
            if self._thread.is_alive():  # Our own output takes nothing. The thread ends with the process.
                return
        for each in (self._ours, self._wakes, self._wake):
            os.close(each)

    def _run(self, listener: Listener) -> None:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        try:
            while not any(ready == self._wakes for ready, _ in poll.poll()):
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
        except OSError:  # A pseudo-terminal that nobody has open any longer.
            return b""

    def _pass_on(self, data: bytes) -> bool:
        if self._is_terminal:
            self._copy_size()
        rest = memoryview(b"" if self._silent else data)
        while rest:
            try:
                rest = rest[os.write(self._number, rest) :]
            except BlockingIOError:  # Somebody else has set it so.
                select.select([self._wakes], [self._number], [], FULL_SECONDS)
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

    `silent`: what the command writes is listened to, and not passed on.
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
    import termios  # Only where there is a terminal.

    with suppress(termios.error):
        attributes = termios.tcgetattr(terminal)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(pseudo, termios.TCSANOW, attributes)


def _set_size(terminal: int, lines: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

"""The command in a real terminal: its output, and typed input."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from tests.cli.commands import PROGRAM, Headgate

#: Number of rows of the terminal.
HEIGHT = 40


def typed(
    headgate: Headgate, *words: str, answer: str = "", width: int = 80, errors: bool = True, **environment: str
) -> tuple[int, str]:
    """The exit code, and everything that a terminal of that width shows; answers are typed ahead."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))
    process = subprocess.Popen(
        [PROGRAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
        env=headgate.environment(TERM="xterm-256color", **environment),
        cwd=headgate.folder,
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    shown = b""
    while part := _read(ours):
        shown += part
    os.close(ours)
    return process.wait(20), shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # The last process on the other side has ended.
        return b""

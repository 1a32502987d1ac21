"""Text for people on stderr. When nobody can read it any more it is dropped: that changes no outcome."""

from __future__ import annotations

import errno
import os
import sys

#: Errors of a write when a pipe has no reader, or the terminal was closed.
GONE = (errno.EPIPE, errno.EIO)


def talk(text: str) -> None:
    """Write text to stderr at once. A terminal that was closed, or a pipe without a reader, gets nothing from then on.

    A command that failed for that would leave its chunk without a report, and what it started without a parent.
    """
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr.fileno())


def discard(descriptor: int) -> None:
    """Drop what is written to a descriptor, and what is buffered for it, which would fail once more at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)

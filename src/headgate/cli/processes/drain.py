"""The output of a command: read to its end, with the last part kept."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO

#: Number of bytes of the output that are kept, from its end.
KEPT_BYTES = 1_000_000
#: Longest wait for the end of a pipe, which a process outside the group may keep open.
DRAIN_SECONDS = 2.0


class Drain:
    """Reads a pipe to its end, keeps the end of it, and copies it to a listener, and to our own stderr on request."""

    def __init__(self, stream: IO[bytes], listener: Callable[[bytes], None] | None = None, *, echo: bool) -> None:
        self._stream = stream
        self._listener = listener
        self._echo = echo
        self._kept = b""
        self._cut = False
        self._thread = threading.Thread(target=self._read, name="headgate-drain", daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return the kept output. Only whole lines: half of a secret could not be recognised."""
        self._thread.join(DRAIN_SECONDS)
        kept = self._kept.partition(b"\n")[2] if self._cut else self._kept
        return kept.decode(errors="replace")

    def _read(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 65536):
                self._cut = self._cut or len(self._kept) + len(chunk) > KEPT_BYTES
                self._kept = (self._kept + chunk)[-KEPT_BYTES:]
                if self._listener is not None:
                    self._listener(chunk)
                if self._echo:
                    with suppress(OSError, ValueError, AttributeError):  # It may be closed, or never have existed.
                        sys.stderr.buffer.write(chunk)
                        sys.stderr.buffer.flush()


def last_line(text: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""

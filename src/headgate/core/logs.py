"""Logs: the last output of an attempt on a chunk or of a step of an ingest job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

#: Largest size of a stream that can be kept, whatever the setting says: it has to fit into a request and a row.
MOST_KEPT = 1 << 20
#: Number of attempts of a chunk, and of steps of an ingest job, whose logs are kept; a new one replaces the oldest.
MOST_LOGGED = 20
#: Longest text of one stream in a request, in characters.
LONGEST_TEXT = MOST_KEPT


class LogStream(StrEnum):
    """The stream that the text was written to."""

    #: Standard output of a command.
    STDOUT = "stdout"
    #: Standard error of a command; the traceback of a Python worker.
    STDERR = "stderr"
    #: The log of one of Headgate's own steps.
    LOG = "log"


@dataclass(frozen=True, slots=True)
class LogText:
    """The end of one stream, as its worker sends it repeatedly while it grows."""

    #: The stream that it was written to.
    stream: LogStream
    #: Readable text, without secrets.
    text: str
    #: Total number of bytes written; a text older than the stored one is ignored.
    size: int
    #: Whether its beginning was cut off.
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """One stream of the stored log of an attempt on a chunk, or of a step of an ingest job."""

    #: The number of the attempt; an interrupted attempt is not counted, and has the number of the next one.
    attempt: int
    #: Token of the claim, unique to the attempt.
    token: int
    #: The state of the ingest job; empty for a chunk.
    step: str
    #: The stream that it was written to.
    stream: LogStream
    #: Readable text, without secrets.
    text: str
    #: Total number of bytes written.
    size: int
    #: Whether its beginning was cut off.
    cut: bool
    #: Whether it is complete; otherwise it is still being written, or its writer died.
    ended: bool
    #: When it was last written, by the store's clock.
    at: datetime

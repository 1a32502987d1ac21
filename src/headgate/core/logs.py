"""Logs: the end of what was written while somebody worked on a chunk or an ingest job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

#: Most bytes of a stream that can be kept, whatever the setting says: a request and a row have to take them.
MOST_KEPT = 1 << 20
#: Attempts of a chunk, and steps of an ingest job, whose logs are kept; older ones go with the first log of a new one.
MOST_LOGGED = 20
#: Longest text of one stream in a request, in characters.
LONGEST_TEXT = MOST_KEPT


class LogStream(StrEnum):
    """Where the text was written."""

    #: Standard output of a command.
    STDOUT = "stdout"
    #: Standard error of a command; the traceback of a Python worker.
    STDERR = "stderr"
    #: What a step of Headgate's own did.
    LOG = "log"


@dataclass(frozen=True, slots=True)
class LogText:
    """The end of one stream, as its worker sends it: again and again, each time as it is then."""

    #: Where it was written.
    stream: LogStream
    #: Readable text, without secrets.
    text: str
    #: Bytes that were written in all; what is older than a text that is known is ignored.
    size: int
    #: Whether something before it was left out.
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """The kept log of one attempt on a chunk, or of one step of an ingest job: one stream of it."""

    #: The number of the attempt; an interrupted attempt is not counted, and has the number of the next one.
    attempt: int
    #: Token of the claim, which is an attempt's own.
    token: int
    #: The state of the ingest job; empty for a chunk.
    step: str
    #: Where it was written.
    stream: LogStream
    #: Readable text, without secrets.
    text: str
    #: Bytes that were written in all.
    size: int
    #: Whether something before it was left out.
    cut: bool
    #: Whether it is complete; otherwise its writer still writes, or died.
    ended: bool
    #: When it was last written, by the store's clock.
    at: datetime

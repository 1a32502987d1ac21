"""Logs on their way to the store: the end of an output is kept in memory, and uploaded periodically."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headgate.core.errors import BadValue, Lost, Unavailable
from headgate.core.logs import LONGEST_TEXT, LogStream, LogText
from headgate.core.values.log_text import KeptEnd, keep_end, last_bytes, last_line, margin, secret_forms
from headgate.service.leases.clock import steady
from headgate.service.leases.later import later
from headgate.telemetry import event

#: Pauses between two uploads: at first, and at most. They double.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 5.0
#: A log that is too long for the service is halved, down to this length.
SHORTEST_KEEP = 1024


class Tail:
    """The end of one output. It may be read by another thread than the writing one."""

    def __init__(self, stream: LogStream, limit: int, secrets: Iterable[str] = ()) -> None:
        """`limit`: number of bytes to keep; `secrets`: the values to mask."""
        self.stream = stream
        #: Number of bytes that are kept.
        self.limit = limit
        self._forms = secret_forms(secrets)
        self._most = limit + margin(self._forms)
        self._data = bytearray()
        self._size = 0
        self._guard = threading.Lock()
        #: The number of bytes at the last check, and whether all of them were shown then.
        self._seen = 0
        self._shown_whole = True

    def write(self, data: bytes) -> None:
        """Add to it. Text that is no longer near the end is dropped."""
        with self._guard:
            self._size += len(data)
            self._data += data
            if len(self._data) > 2 * self._most:
                del self._data[: -self._most]

    def text(self, *, ended: bool) -> LogText | None:
        """Return its end; None: there is nothing new. A line that has not ended is shown once it stops growing."""
        with self._guard:
            raw, size = bytes(self._data), self._size
        stands_still = size == self._seen
        if stands_still and (not size or (self._shown_whole and not ended)):
            return None
        kept = self._kept(raw, size, ended=ended or stands_still)
        self._seen, self._shown_whole = size, ended or stands_still or raw.endswith(b"\n")
        return LogText(self.stream, kept.text, size, kept.cut)

    def unsent(self) -> None:
        """The text that was returned last did not arrive: return it again."""
        self._seen = -1

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        with self._guard:
            raw, size = bytes(self._data), self._size
        return last_line(self._kept(raw, size, ended=True).text)

    def _kept(self, raw: bytes, size: int, *, ended: bool) -> KeptEnd:
        return keep_end(raw, self.limit, self._forms, whole=len(raw) == size, ended=ended)


class LogUploads:
    """Uploads the ends of some outputs while they are written, and once more when they have ended.

    An unavailable store is retried later; failures here do not affect the work.
    """

    def __init__(self, send: Callable[[Sequence[LogText], bool], None], tails: Sequence[Tail], name: str) -> None:
        """`send`: stores texts; its second argument says whether these are the last; `name`: for events."""
        self.tails = tails
        self._send = send
        self._name = name
        self._done = threading.Event()
        self._busy = threading.Lock()

    def start(self) -> None:
        """Start to send. Most work ends before the first upload."""
        if self.tails:
            later(steady() + FIRST_PAUSE_SECONDS, self._begin)

    def end(self) -> None:
        """Upload the rest, and stop."""
        self._done.set()
        with self._busy:
            self._upload(ended=True)

    def stop(self) -> None:
        """Stop without uploading more."""
        self._done.set()

    def last_line(self) -> str:
        """The last line of the last output with one: stderr before stdout."""
        return next((line for tail in reversed(self.tails) if (line := tail.last_line)), "")

    def _begin(self) -> None:
        if not self._done.is_set():
            threading.Thread(target=self._run, name="headgate-log", daemon=True).start()

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._done.is_set():
            with self._busy:
                if not self._done.is_set():
                    self._upload(ended=False)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            self._done.wait(pause)

    def _upload(self, *, ended: bool) -> None:
        texts = [text for tail in self.tails if (text := tail.text(ended=ended))]
        if not texts:
            return
        try:
            self._send_fitting(texts, ended=ended)
        except Unavailable as error:
            for tail in self.tails:
                tail.unsent()
            event("log.not_kept", of=self._name, why=str(error))
        except Lost:
            self._done.set()  # Another worker has it: its own log is kept from now on.
        except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on and its outcome is reported
            self._done.set()
            event("log.refused", of=self._name, why=repr(error))

    def _send_fitting(self, texts: Sequence[LogText], *, ended: bool) -> None:
        """Upload them, with less text if the service finds the request too large."""
        while True:
            try:
                self._send(texts, ended)
            except BadValue:
                longest = max(len(each.text) for each in texts)
                if longest <= SHORTEST_KEEP:
                    raise
                for tail in self.tails:
                    tail.limit = min(tail.limit, longest // 2)
                texts = fit_texts(texts, longest // 2)
            else:
                return


def traceback_log(secrets: Iterable[str], error: BaseException, limit: int) -> LogText:
    """The traceback of an error as the log of its attempt, without secrets."""
    import traceback

    lines = "".join(traceback.format_exception(error))
    tail = Tail(LogStream.STDERR, limit, secrets)
    tail.write(lines.encode(errors="replace"))
    return tail.text(ended=True) or LogText(LogStream.STDERR, "", 0)


def fit_texts(texts: Sequence[LogText], limit: int) -> list[LogText]:
    """The end of each text, of at most `limit` bytes. BadValue for a text longer than the limit."""
    found = []
    for each in texts if limit else ():
        if len(each.text) > LONGEST_TEXT:
            raise BadValue("text", f"{len(each.text):,} characters", f"is longer than {LONGEST_TEXT:,} characters")
        text = last_bytes(each.text, limit)
        found.append(each if text == each.text else replace(each, text=text, cut=True))
    return found

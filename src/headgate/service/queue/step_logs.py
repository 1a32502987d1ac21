"""The log of a step: the actions of an ingest job's handler, or the output of its command."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from headgate.core.logs import LogStream, LogText
from headgate.core.queue.model import IngestJob, Item
from headgate.service.leases.renewal import ItemHold
from headgate.service.logs import LogUploads, Tail
from headgate.service.queue.outcomes import CanAbandon, CanFinish, Done, Failed, Handler, Held, NotNow, Outcome

Listener = Callable[[bytes], None]
#: The outputs of this thread's current step.
_outputs: ContextVar[dict[LogStream, Tail] | None] = ContextVar("headgate_step_log", default=None)


class KeepsLogs(Protocol):
    """The storage of logs of ingest jobs."""

    def keep_log(
        self, job: str, token: int, attempt: int, step: str, texts: Sequence[LogText], *, ended: bool = False
    ) -> None: ...


def note(line: str) -> None:
    """Write a line to the log of this thread's current step, if it has one."""
    outputs = _outputs.get()
    if outputs is not None:
        outputs[LogStream.LOG].write(f"{line}\n".encode(errors="replace"))


def listener(stream: LogStream) -> Listener | None:
    """The buffer for an output of a command in the current step; None: nothing does."""
    outputs = _outputs.get()
    return None if outputs is None else outputs[stream].write


class LoggedHandler:
    """A handler whose log is stored with each ingest job that it processes."""

    def __init__(self, handler: Handler, keeper: KeepsLogs, limit: int, secrets: Sequence[str]) -> None:
        """`limit`: number of bytes to keep of each output; `secrets`: the values to mask, besides recognisable ones."""
        self._handler = handler
        self._keeper = keeper
        self._limit = limit
        self._secrets = secrets

    def __call__(self, item: Item, hold: ItemHold) -> Outcome:
        """Run the handler on it. Its log is uploaded meanwhile, and before the outcome is reported."""
        if not isinstance(item, IngestJob):
            return self._handler(item, hold)
        with self._written(item) as uploads:
            try:
                outcome = self._handler(item, hold)
            except (Exception, SystemExit):
                note(traceback.format_exc())
                uploads.end()
                raise
            # Deferred items are processed repeatedly: their log is stored only if something was written.
            if not isinstance(outcome, NotNow) or any(tail.last_line for tail in uploads.tails):
                note(_in_words(outcome))
                uploads.end()
            return outcome

    def finished(self, item: Item) -> None:
        """Pass it on to the handler."""
        handler: object = self._handler
        if isinstance(handler, CanFinish):
            handler.finished(item)

    def abandon(self, item: Item) -> None:
        """Pass it on to the handler."""
        handler: object = self._handler
        if isinstance(handler, CanAbandon):
            handler.abandon(item)

    @contextmanager
    def _written(self, job: IngestJob) -> Iterator[LogUploads]:
        """The outputs of one step. An attempt ends when the job is resumed, or its worker died."""
        outputs = {stream: Tail(stream, self._limit, self._secrets) for stream in LogStream}
        attempt = job.retry_count + job.crashes + 1

        def send(texts: Sequence[LogText], ended: bool) -> None:  # noqa: FBT001 - as it is called
            self._keeper.keep_log(job.id, job.token, attempt, job.state, texts, ended=ended)

        uploads = LogUploads(send, list(outputs.values()), f"{job.id} {job.state}")
        uploads.start()
        before = _outputs.set(outputs)
        try:
            yield uploads
        finally:
            _outputs.reset(before)
            uploads.stop()


def _in_words(outcome: object) -> str:
    """How the handler ended; an invalid outcome is shown as it is."""
    if not isinstance(outcome, Done | Failed | Held | NotNow):
        return repr(outcome)
    word = "not now" if isinstance(outcome, NotNow) else type(outcome).__name__.lower()
    return f"{word}: {outcome.message}" if outcome.message else word

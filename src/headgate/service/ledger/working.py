"""Processing chunk after chunk in a loop of the caller: each is claimed, renewed and reported."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Protocol, Self

from headgate.core.errors import BadValue, ClaimRefused, HeadgateError, Lost
from headgate.core.ledger.model import Claim, StopExit
from headgate.core.logs import LogText
from headgate.service.leases.clock import steady
from headgate.service.leases.renewal import ClaimHold
from headgate.service.logs import traceback_log

#: Why a chunk was not finished.
LEFT = "the loop over the chunks ended before this chunk was done"
#: A plain `for` closes its iterator without the error that ended it.
UNKNOWN = f"{LEFT}; to record the reason, use: with ledger.work(…) as chunks"
STOPPED = "interrupted: the stop event was set"


class ClaimReports(Protocol):
    """The methods of the ledger that a loop needs."""

    def heartbeat(self, claim: Claim) -> float: ...

    def success(self, claim: Claim, *, outputs: Mapping[str, Iterable[str]] | None = None) -> None: ...

    def fail(self, claim: Claim, message: str) -> None: ...

    def interrupt(self, claim: Claim, message: str) -> None: ...

    def keep_log(self, claim: Claim, texts: Sequence[LogText], *, ended: bool) -> None: ...

    @property
    def log_keep(self) -> int: ...


class Work:
    """Claims of a job, one after another, each renewed while its body runs and reported at its end.

    An error in the body of a `with` block is reported as a failure with its text, and its traceback is kept as the
    log of the attempt; KeyboardInterrupt, SystemExit,
    `break` and `return` are reported as interruptions. A plain `for` cannot know why its body ended: it reports a
    failure, or an interruption if the stop event is set. It installs no signal handlers.
    """

    def __init__(self, ledger: ClaimReports, claim_next: Callable[[], Claim | None], stop: Event | None = None) -> None:
        # The loop must not refer to this object: when a plain `for` drops it, both have to end at once.
        self._task = _Task(ledger, claim_next, stop)
        self._chunks = _chunks(self._task)

    def __iter__(self) -> Iterator[Claim]:
        return self

    def __next__(self) -> Claim:
        return next(self._chunks)

    def __enter__(self) -> Self:
        self._task.learns_errors = True
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        self._task.error = error
        self._chunks.close()

    def made(self, dataset: str, dataids: Iterable[str]) -> None:
        """List the data ids that the current chunk made in a fan-out dataset of the job.

        They are part of the report when the chunk is done (default: none).

        :param dataset: The dataset.
        :param dataids: Its data ids; a later call replaces them.
        """
        self._task.outputs[dataset] = list(dataids)

    def close(self) -> None:
        """End the loop. The current chunk is reported as a plain `for` would report it."""
        self._chunks.close()


class _Task:
    """The state of a loop, and how it reports."""

    def __init__(self, ledger: ClaimReports, claim_next: Callable[[], Claim | None], stop: Event | None) -> None:
        self.ledger = ledger
        self.claim_next = claim_next
        self._stop = stop
        #: Whether the error that ended the body is known when the loop is left.
        self.learns_errors = False
        self.error: BaseException | None = None
        #: The fan-out of the current chunk.
        self.outputs: dict[str, list[str]] = {}

    @property
    def stopped(self) -> bool:
        """Whether the caller asked the loop to stop."""
        return self._stop is not None and self._stop.is_set()

    def end(self, claim: Claim) -> None:
        """The body has ended: the chunk is done, unless the loop was asked to stop meanwhile."""
        if self.stopped and claim.stop_exit is not StopExit.TRUST:
            with suppress(Lost):  # The body may have reported it as done itself.
                self.ledger.interrupt(claim, STOPPED)
            return
        listed = {name: self.outputs.get(name, []) for name, port in claim.outputs.items() if port.dataids is not None}
        outputs = {**listed, **self.outputs} or None
        try:
            self.ledger.success(claim, outputs=outputs)
        except (KeyboardInterrupt, SystemExit):
            self.ledger.success(claim, outputs=outputs)  # It is done: a stop during the report must not lose that.
            raise
        except (BadValue, ClaimRefused) as error:  # Its listed ids belong to others.
            self.ledger.fail(claim, str(error))
            raise

    def leave(self, claim: Claim, error: BaseException) -> None:
        """The loop was left. No effect if the body reported the chunk itself."""
        cause = self.error if isinstance(error, GeneratorExit) else error
        with suppress(HeadgateError):
            if self.stopped:
                self.ledger.interrupt(claim, STOPPED)
            elif isinstance(cause, KeyboardInterrupt | SystemExit):
                self.ledger.interrupt(claim, f"interrupted by {type(cause).__name__}")
            elif cause is not None:
                self._keep_traceback(claim, cause)
                self.ledger.fail(claim, f"{type(cause).__name__}: {cause}")
            elif self.learns_errors:
                self.ledger.interrupt(claim, f"interrupted: {LEFT}")
            else:
                self.ledger.fail(claim, UNKNOWN)

    def _keep_traceback(self, claim: Claim, error: BaseException) -> None:
        """The traceback becomes the attempt's log, without the frames of the loop itself."""
        if self.ledger.log_keep:
            with suppress(HeadgateError):  # The outcome is reported nevertheless.
                self.ledger.keep_log(claim, [traceback_log(claim.secrets(), error, self.ledger.log_keep)], ended=True)


def _chunks(task: _Task) -> Generator[Claim, None, None]:
    while not task.stopped:
        sent = steady()
        claim = task.claim_next()
        if claim is None:
            return
        task.outputs = {}
        hold = ClaimHold(task.ledger.heartbeat, claim, sent)
        hold.start()
        try:
            yield claim
        except BaseException as error:
            hold.stop()
            task.leave(claim, error)
            raise
        hold.stop()
        if hold.lost:
            raise hold.lost
        task.end(claim)

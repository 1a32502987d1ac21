"""`job run --loop`: chunk after chunk, several at a time. The parent has no connection and no thread: each chunk runs
in a forked child, so that no open transaction is inherited, and a child that crashes affects no other.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import click

from headgate.cli.processes.stopping import HEARING_SECONDS, STOP_SIGNALS, Stops
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import FAILED, NOTHING_TO_DO, report
from headgate.cli.terminal.progress import per_second
from headgate.core.errors import HeadgateError, Invalid, Unavailable
from headgate.core.values.durations import in_words
from headgate.service.ledger.questions import LEFT_MOST

#: Why a chunk's child ended, beside the exit code of its command.
WORKED, IDLE, BROKEN, INTERRUPTED = b"w", b"i", b"b", b"s"
#: What is left is counted again after this long.
COUNT_SECONDS = 2.0
#: The longest pause after children that were killed (seconds).
LONGEST_PAUSE = 10.0
#: Progress is printed no more often than this, but for failures and the end.
TOLD_SECONDS = 1.0
#: Longest message of a child: a letter, and a number or a sentence.
MOST_SAID = 4000


class Tell:
    """The message of a child, beside its exit code."""

    def __init__(self, *, count_left: bool) -> None:
        #: Whether to count the chunks that are left.
        self.count_left = count_left
        self.said = b""

    def left(self, count: int) -> None:
        """Report the number of chunks that are left."""
        self.said = b"%d" % count

    def idle(self, sentence: str) -> None:
        """Report why there is nothing to do."""
        self.said = sentence.encode()[: MOST_SAID - 1]


#: Runs on one chunk.
RunOne = Callable[[Stops, Tell], int]


class LoopProgress:
    """Progress: a line every second on a terminal, one JSON object per chunk elsewhere."""

    def __init__(self) -> None:
        self.done = self.failed = self.interrupted = 0
        #: Chunks that were left at the last count, and those that were done by then.
        self._left: int | None = None
        self._done_then = 0
        self._begun = time.monotonic()
        self._counted = -math.inf
        self._told = -math.inf

    @property
    def count_is_due(self) -> bool:
        """Whether what is left should be counted again."""
        return time.monotonic() >= self._counted + COUNT_SECONDS

    def ended(self, code: int, left: int | None, *, interrupted: bool = False) -> None:
        """A chunk is done, failed or interrupted."""
        self.done += code == 0
        self.failed += code != 0 and not interrupted
        self.interrupted += interrupted
        if left is not None:
            self._left, self._done_then, self._counted = left, self.done, time.monotonic()
        if code:  # It may be tried again, or not.
            self._counted = -math.inf

    def tell(self, code: int) -> None:
        """Write it."""
        rate = (self.done + self.failed) / max(time.monotonic() - self._begun, 0.001)
        left = None if self._left is None else max(self._left - (self.done - self._done_then), 0)
        if sys.stderr.isatty():
            # A line of its own: what the command writes to the same terminal stays readable.
            if code or not left or time.monotonic() >= self._told + TOLD_SECONDS:
                self._told = time.monotonic()
                sys.stderr.write(self._line(rate, left) + "\n")
        else:
            line = {"done": self.done, "failed": self.failed, "interrupted": self.interrupted, "left": left}
            line |= {"exit_code": code}
            sys.stderr.write(json.dumps({**line, "per_second": round(rate, 2)}) + "\n")
        sys.stderr.flush()

    def _line(self, rate: float, left: int | None) -> str:
        stopped = f", {self.interrupted} interrupted" if self.interrupted else ""
        more = "+" if self._left == LEFT_MOST else ""
        waiting = "" if left is None else f", {left:,}{more} left"
        time_left = f", {in_words(left / rate)} to go" if left and not more else ""
        return f"{self.done:,} done, {self.failed:,} failed{stopped}{waiting}, {per_second(rate)}{time_left}"


class JobLoop:
    """Several workers, each on its own chunk, until there is nothing to do."""

    def __init__(self, console: Console, size: int, run_one: RunOne) -> None:
        self._session = console
        self._size = size
        self._run_one = run_one
        #: The read end of each running child's pipe.
        self._children: dict[int, int] = {}
        self._before: dict[signal.Signals, Any] = {}
        self._stopped_by = 0
        self._progress = LoopProgress()
        #: Why there was nothing more to do.
        self._idle = ""
        #: Children in a row that were killed.
        self._killed = 0

    def work(self) -> int:
        """Work until nothing is left. Returns 0 if all chunks succeeded or there were none, 1 if one failed."""
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        self._before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in self._before:
            signal.signal(number, self._stop)
        try:
            code = self._until_idle()
        finally:
            self._hear_signals_as_before()
        if self._stopped_by:
            return 128 + self._stopped_by
        if code is not None:
            return code
        self._session.say(self._idle)
        return FAILED if self._progress.failed else 0

    def _until_idle(self) -> int | None:
        """Start children while there is work. Returns an exit code when there is no point in continuing."""
        idle, broken = False, None
        while True:
            while not idle and broken is None and not self._stopped_by and len(self._children) < self._size:
                self._start()
            if not self._children:
                return broken
            word, code = self._next_end()
            self._rest()
            if word == BROKEN:
                broken = code
            # When one finds nothing, another may still make something that can be worked on.
            idle = word == IDLE or (idle and word not in (WORKED, INTERRUPTED))

    def _rest(self) -> None:
        until = time.monotonic() + (min(0.1 * 2.0 ** min(self._killed, 10), LONGEST_PAUSE) if self._killed else 0)
        while not self._stopped_by and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, HEARING_SECONDS))

    def _start(self) -> None:
        reading, writing = os.pipe()
        # Blocked until both sides can hear them: the parent passes them on, and the child has handlers of its own.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(writing, mask)
        os.close(writing)
        self._children[child] = reading
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _be_child(self, writing: int, mask: set[int | signal.Signals]) -> None:
        code, word = 1, WORKED
        tell = Tell(count_left=not self._session.quiet and self._progress.count_is_due)
        try:
            self._hear_signals_as_before()
            with Stops() as stops:  # To the very end: a signal must not keep the parent from learning what happened.
                try:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                    code, word = self._outcome(stops, tell)
                except SystemExit as stopped:
                    code, word = int(stopped.code or 0), INTERRUPTED
                stops.hold()
                os.write(writing, word + tell.said)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        finally:
            os._exit(code)

    def _outcome(self, stops: Stops, tell: Tell) -> tuple[int, bytes]:
        """Work on one chunk. Returns the exit code, and why it ended."""
        try:
            code = self._run_one(stops, tell)
        except HeadgateError as error:
            stops.hold()
            going_on = self._session.claimed and not isinstance(error, Invalid | Unavailable)
            return report(error, self._session), WORKED if going_on else BROKEN
        except click.exceptions.Exit as end:  # The command cannot be run, and the reason was printed.
            stops.hold()
            return end.exit_code, WORKED if self._session.claimed else BROKEN
        except Exception:  # noqa: BLE001 - the child ends here, and its parent must not start it over and over
            stops.hold()
            traceback.print_exc()
            return FAILED, WORKED if self._session.claimed else BROKEN
        if self._session.interrupted:
            return code, INTERRUPTED
        # A command may itself end with this code: only a child that claimed nothing is idle.
        return code, IDLE if code == NOTHING_TO_DO and not self._session.claimed else WORKED

    def _next_end(self) -> tuple[bytes, int]:
        while True:
            child, status = os.waitpid(-1, 0)
            if child in self._children:
                break
        reading = self._children.pop(child)
        said = os.read(reading, MOST_SAID)
        os.close(reading)
        # A child that was killed says nothing. If it is killed again and again, the pauses between grow.
        self._killed = 0 if said else self._killed + 1
        word, rest = said[:1] or WORKED, said[1:]
        code = os.waitstatus_to_exitcode(status)
        if word == IDLE:
            self._idle = rest.decode(errors="replace")
        if word in (WORKED, INTERRUPTED):
            self._progress.ended(code, int(rest) if rest else None, interrupted=word == INTERRUPTED)
            if not self._session.quiet:
                self._progress.tell(code)
        return word, code

    def _hear_signals_as_before(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Start no more children, and pass the signal on."""
        self._stopped_by = self._stopped_by or number
        for child in list(self._children):
            with suppress(ProcessLookupError):  # It was reaped a moment ago.
                os.kill(child, number)

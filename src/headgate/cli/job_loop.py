"""Running on chunk after chunk, several at a time. The parent keeps no connection and no thread: each chunk is
worked on by a forked child, so that nothing half-done is inherited, and a child that dies takes nobody with it.
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
from types import FrameType
from typing import Any

from headgate.cli.failures import NOTHING_TO_DO, report
from headgate.cli.session import Session
from headgate.core.errors import HeadgateError, Invalid, Unavailable
from headgate.service.ledger import LEFT_MOST

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Why a chunk's child ended, beside the exit code of its command.
WORKED, IDLE, BROKEN = b"w", b"i", b"b"
#: What is left is counted again after so long.
COUNT_SECONDS = 2.0
#: As much as a child says: a letter and a number.
MOST_SAID = 32
#: Runs on one chunk; tells how many are left, if it is to.
RunOne = Callable[[Callable[[int], None] | None], int]


class Progress:
    """How far it is: one line that is written over on a terminal, one JSON object a chunk where nobody looks."""

    def __init__(self) -> None:
        self.done = self.failed = 0
        #: Chunks that were left when they were last counted, and what was done by then.
        self._left: int | None = None
        self._done_then = 0
        self._begun = time.monotonic()
        self._counted = -math.inf

    @property
    def count_is_due(self) -> bool:
        """Whether what is left should be counted again."""
        return time.monotonic() >= self._counted + COUNT_SECONDS

    def ended(self, code: int, left: int | None) -> None:
        """A chunk is done, or failed."""
        self.done += code == 0
        self.failed += code != 0
        if left is not None:
            self._left, self._done_then, self._counted = left, self.done, time.monotonic()
        if code:  # It may be tried again, or not.
            self._counted = -math.inf

    def tell(self, code: int) -> None:
        """Write it."""
        rate = (self.done + self.failed) / max(time.monotonic() - self._begun, 0.001)
        left = None if self._left is None else max(self._left - (self.done - self._done_then), 0)
        if sys.stderr.isatty():
            more = "+" if self._left == LEFT_MOST else ""
            waiting = "" if left is None else f"{left}{more} left, "
            # The blanks wipe out what a longer line left.
            sys.stderr.write(f"\r{self.done} done, {self.failed} failed, {waiting}{rate:.1f}/s    ")
        else:
            line = {"done": self.done, "failed": self.failed, "left": left, "exit_code": code}
            sys.stderr.write(json.dumps({**line, "per_second": round(rate, 2)}) + "\n")
        sys.stderr.flush()


class Crew:
    """Some workers, each on a chunk of its own, until there is nothing to do."""

    def __init__(self, session: Session, size: int, run_one: RunOne) -> None:
        self._session = session
        self._size = size
        self._run_one = run_one
        #: The read end of each running child's pipe.
        self._children: dict[int, int] = {}
        self._before: dict[signal.Signals, Any] = {}
        self._stopped_by = 0
        self._progress = Progress()

    def work(self) -> int:
        """Until nothing is left. 0: all went well; 1: a chunk failed; 3: there was nothing at all."""
        self._before = {number: signal.signal(number, self._stop) for number in FORWARDED}
        try:
            code = self._until_idle()
        finally:
            self._hear_signals_as_before()
        if self._stopped_by:
            return 128 + self._stopped_by
        if code is not None:
            return code
        if not self._progress.done and not self._progress.failed:
            return NOTHING_TO_DO
        return 1 if self._progress.failed else 0

    def _until_idle(self) -> int | None:
        """Start children while there is work. Gives an exit code when going on makes no sense."""
        idle, broken = False, None
        while True:
            while not idle and broken is None and not self._stopped_by and len(self._children) < self._size:
                self._start()
            if not self._children:
                return broken
            word, code = self._next_end()
            if word == BROKEN:
                broken = code
            # When one finds nothing, another may still make something that can be worked on.
            idle = word == IDLE or (idle and word != WORKED)

    def _start(self) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(writing)
        os.close(writing)
        self._children[child] = reading

    def _be_child(self, writing: int) -> None:
        code, word = 1, WORKED
        left: list[int] = []
        wanted = not self._session.quiet and self._progress.count_is_due
        try:
            self._hear_signals_as_before()
            try:
                code = self._run_one(left.append if wanted else None)
                # A command may itself end with this code: only a child that claimed nothing is idle.
                word = IDLE if code == NOTHING_TO_DO and not self._session.claimed else WORKED
            except HeadgateError as error:
                code = report(error, self._session)
                word = BROKEN if isinstance(error, Invalid | Unavailable) else WORKED
            except Exception:  # noqa: BLE001 - the child ends here, and its parent must not start it over and over
                traceback.print_exc()
                word = WORKED if self._session.claimed else BROKEN
            os.write(writing, word + b"".join(b"%d" % number for number in left))
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def _next_end(self) -> tuple[bytes, int]:
        while True:
            child, status = os.waitpid(-1, 0)
            if child in self._children:
                break
        reading = self._children.pop(child)
        said = os.read(reading, MOST_SAID)
        os.close(reading)
        word, left = said[:1] or WORKED, said[1:]
        code = os.waitstatus_to_exitcode(status)
        if word == WORKED:
            self._progress.ended(code, int(left) if left else None)
            if not self._session.quiet:
                self._progress.tell(code)
        return word, code

    def _hear_signals_as_before(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Start nothing more, and pass it on."""
        self._stopped_by = number
        for child in list(self._children):
            os.kill(child, number)

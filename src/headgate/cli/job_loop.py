"""Running on chunk after chunk, several at a time. The parent keeps no connection and no thread: each chunk is
worked on by a forked child, so that nothing half-done is inherited, and a child that dies takes nobody with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from headgate.cli.failures import report
from headgate.cli.job_run import NOTHING_TO_DO
from headgate.cli.session import Session
from headgate.core.errors import HeadgateError, Invalid, Unavailable

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Why a chunk's child ended, beside the exit code of its command.
WORKED, IDLE, BROKEN = b"w", b"i", b"b"


class Crew:
    """Some workers, each on a chunk of its own, until there is nothing to do."""

    def __init__(self, session: Session, size: int, run_one: Callable[[], int]) -> None:
        self._session = session
        self._size = size
        self._run_one = run_one
        #: The read end of each running child's pipe.
        self._children: dict[int, int] = {}
        self._before: dict[signal.Signals, Any] = {}
        self._stopped_by = 0
        self._done = 0
        self._failed = 0
        self._begun = time.monotonic()

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
        if not self._done and not self._failed:
            return NOTHING_TO_DO
        return 1 if self._failed else 0

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
        try:
            self._hear_signals_as_before()
            try:
                code = self._run_one()
                # A command may itself end with this code: only a child that claimed nothing is idle.
                word = IDLE if code == NOTHING_TO_DO and not self._session.claimed else WORKED
            except HeadgateError as error:
                code = report(error, self._session)
                word = BROKEN if isinstance(error, Invalid | Unavailable) else WORKED
            os.write(writing, word)
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
        word = os.read(reading, 1) or WORKED
        os.close(reading)
        code = os.waitstatus_to_exitcode(status)
        if word == WORKED:
            self._done += code == 0
            self._failed += code != 0
            self._tell(code)
        return word, code

    def _tell(self, code: int) -> None:
        """A line that is written over on a terminal; one JSON object a chunk where nobody looks."""
        if self._session.quiet:
            return
        seconds = max(time.monotonic() - self._begun, 0.001)
        rate = (self._done + self._failed) / seconds
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{self._done} done, {self._failed} failed, {rate:.1f}/s ")
        else:
            line = {"done": self._done, "failed": self._failed, "exit_code": code, "per_second": round(rate, 2)}
            sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()

    def _hear_signals_as_before(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Start nothing more, and pass it on."""
        self._stopped_by = number
        for child in list(self._children):
            os.kill(child, number)

"""The progress of `job run --loop`: a line every second on a terminal, one JSON object per chunk elsewhere."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.cli.ledger.job_loop import INTERRUPTED, ChunkEnd
from headgate.cli.terminal.progress import shown_rate
from headgate.cli.terminal.talk import talk
from headgate.core.values.durations import in_words
from headgate.service.ledger.questions import LEFT_MOST

if TYPE_CHECKING:
    from headgate.cli.ledger.lookout import JobState
    from headgate.cli.terminal.console import Console

#: The remaining chunks are counted again after this time.
COUNT_SECONDS = 2.0
#: Progress is printed no more often than this, except failures and the end.
TOLD_SECONDS = 1.0


class LoopProgress:
    """Progress of one job."""

    #: Children print their failures themselves.
    prints_errors = False

    def __init__(self, console: Console) -> None:
        self._console = console
        self.done = self.failed = self.interrupted = 0
        #: The number of remaining chunks when they were last counted, and of finished ones at that time.
        self._left: int | None = None
        self._done_then = 0
        self._begun = time.monotonic()
        self._counted = -math.inf
        self._told = -math.inf

    @property
    def count_is_due(self) -> bool:
        """Whether the remaining chunks should be counted again."""
        return not self._console.quiet and time.monotonic() >= self._counted + COUNT_SECONDS

    def claimed(self, job: str) -> None:
        """A chunk is running: nothing is printed before its end."""

    def ended(self, end: ChunkEnd) -> None:
        """A chunk is done, failed or interrupted."""
        interrupted = end.word == INTERRUPTED
        self.done += end.code == 0
        self.failed += end.code != 0 and not interrupted
        self.interrupted += interrupted
        if end.left is not None:
            self._left, self._done_then, self._counted = end.left, self.done, time.monotonic()
        if end.code:  # It may be retried or not.
            self._counted = -math.inf
        if not self._console.quiet:
            self._print(end.code)

    def states(self, states: Sequence[JobState]) -> None:
        """Others process chunks too: the remaining ones were counted."""
        for state in states:
            self._left, self._done_then, self._counted = state.left, self.done, time.monotonic()

    def stopping(self, running: int) -> None:
        """Each child prints its own interruption."""

    def note(self, text: str) -> None:
        """A message for the user."""
        talk(text + "\n")

    def draw(self) -> None:
        """Everything was printed immediately."""

    def close(self) -> None:
        """Nothing is left to print."""

    def _print(self, code: int) -> None:
        rate = (self.done + self.failed) / max(time.monotonic() - self._begun, 0.001)
        left = None if self._left is None else max(self._left - (self.done - self._done_then), 0)
        if sys.stderr.isatty():
            # On a separate line, so that the command's output on the same terminal stays readable.
            if code or not left or time.monotonic() >= self._told + TOLD_SECONDS:
                self._told = time.monotonic()
                talk(self._line(rate, left) + "\n")
        else:
            line = {"done": self.done, "failed": self.failed, "interrupted": self.interrupted, "left": left}
            line |= {"exit_code": code}
            talk(json.dumps({**line, "per_second": round(rate, 2)}) + "\n")

    def _line(self, rate: float, left: int | None) -> str:
        stopped = f", {self.interrupted} interrupted" if self.interrupted else ""
        more = "+" if self._left == LEFT_MOST else ""
        waiting = "" if left is None else f", {left:,}{more} left"
        time_left = f", {in_words(left / rate)} to go" if left and not more else ""
        return f"{self.done:,} done, {self.failed:,} failed{stopped}{waiting}, {shown_rate(rate)}{time_left}"

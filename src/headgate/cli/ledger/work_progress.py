"""The progress of `headgate work`: a redrawn table of all jobs on a terminal, lines elsewhere, events as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headgate.cli.ledger.job_loop import AWAY, INTERRUPTED, WORKED, ChunkEnd
from headgate.cli.terminal.output import aligned, say, shown
from headgate.cli.terminal.progress import shown_rate
from headgate.cli.terminal.talk import talk
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural
from headgate.core.values.visible import visible_json
from headgate.service.ledger.questions import LEFT_MOST

if TYPE_CHECKING:
    from headgate.cli.ledger.lookout import JobState
    from headgate.cli.ledger.work_files import FileChange
    from headgate.cli.terminal.console import Console

#: The table is not drawn, and lines are not printed, more often than this.
DRAWN_SECONDS, TOLD_SECONDS = 0.2, 10.0
#: A rate is that of the last minute, or of the last chunks where they take longer.
RATE_SECONDS, RATE_CHUNKS = 60.0, 10
#: A job of which nothing ran for this long starts again.
IDLE_SECONDS = 5.0
#: Failed chunks that are named at the end, at most.
MOST_NAMED = 3
#: Erases the lines of the table, above the cursor.
UP, ERASE = "\x1b[{}A\r", "\x1b[J"
#: Rows of a terminal that the table leaves to its heading, the line below it, and the cursor.
ROWS_BESIDE = 3
#: Of a terminal that does not say its size.
USUAL_SCREEN = 80, 24
HEADINGS = ("JOB", "DONE", "FAILED", "RUNNING", "LEFT", "RATE", "TIME LEFT")
#: The event for each outcome.
OUTCOMES = {INTERRUPTED: "interrupted", AWAY: "unreported"}


@dataclass
class _JobFigures:
    """The finished and remaining chunks of one job."""

    #: When what the rate counts began.
    begun: float
    done: int = 0
    failed: int = 0
    interrupted: int = 0
    running: int = 0
    left: int | None = None
    #: Number of chunks finished since they were counted.
    done_since: int = 0
    paused: str = ""
    #: When chunks ended, as far as the rate needs it.
    ends: deque[float] = field(default_factory=deque)

    def begin(self) -> None:
        """A chunk begins: after a pause, what was before it says nothing of the rate."""
        now = time.monotonic()
        if not self.running and (not self.ends or now > self.ends[-1] + IDLE_SECONDS):
            self.begun = now
            self.ends.clear()
        self.running += 1

    @property
    def rate(self) -> float:
        """Chunks per second; 0: none has ended yet, or lately."""
        now = time.monotonic()
        while len(self.ends) > RATE_CHUNKS and self.ends[0] < now - RATE_SECONDS:
            self.begun = self.ends.popleft()
        if not self.ends or (not self.running and self.ends[-1] < now - RATE_SECONDS):
            return 0.0
        return len(self.ends) / max(now - self.begun, 0.001)

    @property
    def still_left(self) -> int | None:
        return None if self.left is None else max(self.left - self.done_since, 0)

    def time_left(self) -> str:
        """When it will be finished at this rate; empty: unknown."""
        left, rate = self.still_left, self.rate
        return in_words(left / rate) if left and rate and left < LEFT_MOST else ""


class WorkProgress:
    """Progress of several jobs."""

    #: Failures of children are printed here, so that the table stays intact.
    prints_errors = True
    #: The lookout counts for all jobs.
    count_is_due = False

    def __init__(self, console: Console, jobs: Sequence[str], change: FileChange | None = None) -> None:
        """`change`: whether the pipeline file is still what it was."""
        self._console = console
        self._change = change
        now = time.monotonic()
        self._jobs = {name: _JobFigures(now) for name in jobs}
        self._drawn_lines = 0
        self._written = now
        self._changed = False
        #: Chunks whose last attempt failed here.
        self._failed: dict[tuple[str, str], None] = {}
        self._has_table = sys.stderr.isatty() and not console.quiet and not console.as_json

    # ---------------------------------------------------------------- what happens

    def claimed(self, job: str) -> None:
        """A chunk of the job runs."""
        self._jobs[job].begin()

    def ended(self, end: ChunkEnd) -> None:
        """A chunk is done, failed or interrupted."""
        figures = self._jobs[end.job]
        good = end.word == WORKED and not end.code
        figures.running -= 1
        figures.done += good
        figures.done_since += good
        figures.interrupted += end.word == INTERRUPTED
        figures.failed += not good and end.word != INTERRUPTED
        if end.word not in (INTERRUPTED, AWAY):
            figures.ends.append(time.monotonic())
        self._changed = True
        self._failed.pop((end.job, end.dataid), None)
        if end.word == WORKED and end.code:
            self._failed[end.job, end.dataid] = None
        outcome = "done" if good else OUTCOMES.get(end.word, "failed")
        if self._console.as_json:
            self._event(
                event="chunk", job=end.job, dataid=end.dataid, outcome=outcome, exit_code=end.code, message=end.why
            )
        elif not good:
            said = outcome if not end.why else end.why if end.word == INTERRUPTED else f"{outcome}: {end.why}"
            self.note(f"{end.job} {end.dataid} {said}")

    def states(self, states: Sequence[JobState]) -> None:
        """The remaining chunks were counted."""
        for state in states:
            figures = self._jobs[state.job]
            self._changed = self._changed or figures.still_left != state.left
            figures.left, figures.done_since, figures.paused = state.left, 0, state.paused

    def stopping(self, running: int) -> None:
        """The loop was asked to stop while chunks are running."""
        if running and not self._console.quiet and not self._console.as_json:
            self.note(f"headgate: stopping {plural(running, 'command')}; a second signal kills what does not end")

    def note(self, text: str) -> None:
        """A message for the user: a line above the table."""
        if self._console.as_json:
            self._event(event="note", message=text)
            return
        self._erase()
        say(text)

    # ---------------------------------------------------------------- drawing

    def draw(self) -> None:
        """Draw the table, or print lines, when it is time."""
        now = time.monotonic()
        if self._change and (text := self._change.sentence()) and not self._console.quiet:
            self.note(f"headgate: {text}")
        if self._has_table:
            if now >= self._written + DRAWN_SECONDS:
                self._draw_table()
        elif self._changed and now >= self._written + TOLD_SECONDS:
            self._print()

    def close(self) -> None:
        """The last figures."""
        if self._has_table:
            self._draw_table(whole=True)
        else:
            self._print()
        if self._console.as_json:
            self._event(event="end", jobs={name: _figures(each) for name, each in self._jobs.items()})
        self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        """Suggestions for the user's next steps."""
        for name, each in self._jobs.items():
            if each.paused:
                self._console.say(f"{name} is paused: {each.paused}")
        counted = all(each.left is not None for each in self._jobs.values())
        if counted and not any(each.done or each.failed or each.interrupted for each in self._jobs.values()):
            self._console.say(f"nothing to do for {', '.join(self._jobs)}")
        for job, dataid in list(self._failed)[:MOST_NAMED]:
            self._console.say(f"see its output: {self._console.command('job', 'logs', job, dataid)}")

    def _draw_table(self, *, whole: bool = False) -> None:
        """Draw it as far as it fits: what has left the screen cannot be erased. The last one is `whole`."""
        self._written = time.monotonic()
        width, height = _screen()
        names = list(self._jobs) if whole else most_important(self._jobs, height - ROWS_BESIDE)
        lines = aligned([HEADINGS, *(_row(name, self._jobs[name]) for name in names)]).splitlines()
        if others := len(self._jobs) - len(names):
            lines.append(f"and {plural(others, 'other job')}")
        lines = [line[: width - 1] for line in lines]
        self._erase()
        talk(shown("\n".join(lines)) + "\n")
        self._drawn_lines = len(lines)

    def _erase(self) -> None:
        if self._drawn_lines:
            talk(UP.format(self._drawn_lines) + ERASE)
            self._drawn_lines = 0

    def _print(self) -> None:
        if not self._changed:
            return
        self._changed, self._written = False, time.monotonic()
        for name, each in self._jobs.items():
            if each.done or each.failed or each.interrupted:
                self._console.say(f"{name}: {_sentence(each)}")

    def _event(self, **content: Any) -> None:
        sys.stdout.write(visible_json(json.dumps(content, ensure_ascii=False)) + "\n")
        sys.stdout.flush()


def most_important(jobs: Mapping[str, _JobFigures], most: int) -> list[str]:
    """The names of at most so many jobs, in their order: those that run first, then those with something left."""
    ranks = {name: (not each.running, not each.still_left, not each.failed) for name, each in jobs.items()}
    chosen = set(sorted(jobs, key=lambda name: ranks[name])[: max(most, 1)])
    return [name for name in jobs if name in chosen]


def _screen() -> tuple[int, int]:
    """Columns and rows of the terminal that stderr is."""
    from shutil import get_terminal_size

    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        size = get_terminal_size()
    return size.columns or USUAL_SCREEN[0], size.lines or USUAL_SCREEN[1]


def _left(figures: _JobFigures) -> str:
    left = figures.still_left
    return "" if left is None else f"{left:,}{'+' if figures.left == LEFT_MOST else ''}"


def _row(name: str, figures: _JobFigures) -> tuple[str, ...]:
    rate = shown_rate(figures.rate) if figures.rate else ""
    counts = (f"{figures.done:,}", f"{figures.failed:,}", f"{figures.running:,}", _left(figures), rate)
    return (name, *counts, "paused" if figures.paused else figures.time_left())


def _sentence(figures: _JobFigures) -> str:
    parts = [f"{figures.done:,} done", f"{figures.failed:,} failed"]
    parts += [f"{figures.interrupted:,} interrupted"] if figures.interrupted else []
    parts += [f"{_left(figures)} left"] if figures.left is not None else []
    parts += [shown_rate(figures.rate)] if figures.rate else []
    time_left = figures.time_left()
    return ", ".join(parts) + (f", {time_left} to go" if time_left else "")


def _figures(figures: _JobFigures) -> dict[str, int | None]:
    return {
        "done": figures.done, "failed": figures.failed, "interrupted": figures.interrupted, "left": figures.still_left,
    }  # fmt: skip

"""Running chunk after chunk, of one or several jobs, many at a time: `job run --loop` and `headgate work`.

The parent has no connection and no thread: each chunk runs in a forked child, so that no open transaction is inherited,
and a child that crashes affects no other. Modules that children need are imported by the parent before. If the loop
waits for others, one more child looks out for work; see `lookout`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType
from typing import Any, Protocol

import click

from headgate.cli.ledger.lookout import Heard, JobState, Lookout
from headgate.cli.processes.stopping import STOP_SIGNALS, Stops
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import CANNOT_REACH, FAILED, NOTHING_TO_DO, report
from headgate.cli.terminal.talk import talk
from headgate.core.errors import HeadgateError, Invalid, Unavailable

#: Why a chunk's child ended, besides the exit code of its command.
WORKED, IDLE, BROKEN, AWAY, INTERRUPTED = "worked", "idle", "broken", "away", "interrupted"
#: The longest pause after children that were killed, and after those that could not run their command (seconds).
LONGEST_PAUSE, LONGEST_BROKEN_PAUSE = 10.0, 60.0
#: The longest sleep of the parent, and how often it asks for the progress of the jobs.
SLEEP_SECONDS, CHECK_SECONDS = 1.0, 2.0
#: The same while a resident loop is idle.
QUIET_CHECK_SECONDS = 30.0
#: Longest text that a child reports.
MOST_SAID = 3000


class Until(Enum):
    """How long a loop continues."""

    #: Until there is nothing to claim.
    IDLE = "idle"
    #: Until every chunk is done or has failed permanently, including those of other workers.
    DONE = "done"
    #: Until it is asked to stop.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ChunkEnd:
    """The outcome of a chunk's child."""

    job: str
    #: One of the words above.
    word: str
    #: Exit code of the command, or of an earlier failure.
    code: int
    #: The chunk; empty: none was claimed.
    dataid: str = ""
    #: Why it failed or was interrupted, or why there was nothing to do.
    why: str = ""
    #: Number of chunks that are left, if they were counted.
    left: int | None = None


class Tell:
    """A child's reports to its parent, line by line."""

    def __init__(self, pipe: int, *, count_left: bool) -> None:
        #: Whether to count the chunks that are left.
        self.count_left = count_left
        self._pipe = pipe
        self._said: dict[str, Any] = {}

    def claimed(self, dataid: str) -> None:
        """A chunk was claimed: the parent may start another child."""
        self._write({"claimed": dataid})

    def left(self, count: int) -> None:
        """The number of chunks that are left."""
        self._said["left"] = count

    def why(self, sentence: str) -> None:
        """Why it failed, or why there is nothing to do."""
        self._said["why"] = sentence[:MOST_SAID]

    def end(self, word: str) -> None:
        """Why the child ends: its last message."""
        self._write({"word": word, **self._said})

    def _write(self, content: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # The parent was killed: the chunk is reported nevertheless.
            os.write(self._pipe, json.dumps(content).encode() + b"\n")


#: Runs one chunk. Returns the exit code.
RunOne = Callable[[Stops, Tell], int]


class Display(Protocol):
    """Displays the progress of a loop."""

    #: Whether it prints the failures of children, which then print nothing.
    prints_errors: bool

    @property
    def count_is_due(self) -> bool:
        """Whether children have to count the remaining chunks."""
        ...

    def claimed(self, job: str) -> None:
        """A chunk of the job has started."""

    def ended(self, end: ChunkEnd) -> None:
        """A child that had claimed a chunk has ended."""

    def states(self, states: Sequence[JobState]) -> None:
        """The progress of the jobs, including other workers."""

    def stopping(self, running: int) -> None:
        """The loop was asked to stop while that many chunks are running."""

    def note(self, text: str) -> None:
        """A message for the user."""

    def draw(self) -> None:
        """Draw the changes, unless that was done just now."""

    def close(self) -> None:
        """The loop has ended."""


@dataclass
class LoopJob:
    """One job of a loop."""

    name: str
    #: Number of chunks at a time.
    workers: int
    run_one: RunOne
    #: Whether a child may find a chunk.
    looks: bool = True
    #: The running children, and those of them that have not claimed a chunk yet.
    children: int = 0
    searching: int = 0
    #: Until when no child is started.
    rests_until: float = 0.0
    #: Number of consecutive children that were killed.
    killed: int = 0
    #: The exit code of a condition that prevents the job from running, and how many consecutive children found it.
    broken: int = 0
    breaks: int = 0
    #: Why there was nothing more to do.
    idle: str = ""

    def rest(self, seconds: float) -> None:
        """Start no child for that time."""
        self.rests_until = time.monotonic() + seconds


@dataclass
class _Child:
    job: LoopJob
    pipe: int
    rest: bytes = b""
    dataid: str = ""
    said: dict[str, Any] = field(default_factory=dict)


class JobLoop:
    """Several workers, each on its own chunk, until there is nothing to do."""

    def __init__(
        self, console: Console, jobs: Sequence[LoopJob], display: Display, until: Until = Until.IDLE,
        lookout: Lookout | None = None, leash: int = -1,
    ) -> None:  # fmt: skip
        """`lookout`: needed unless the loop ends when there is nothing to claim. `leash`: a pipe whose end stops the
        loop.
        """
        self._console = console
        self._jobs = jobs
        self._display = display
        self._until = until
        self._lookout = lookout
        self._leash = leash
        self._children: dict[int, _Child] = {}
        self._before: dict[int, Any] = {}
        self._stopped_by = 0
        self._said_so = False
        #: Chunks whose last attempt failed here.
        self._failed: set[tuple[str, str]] = set()
        self._wakes, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._over: int | None = None
        self._check_at = 0.0
        self._was_quiet = False
        self._states: dict[str, JobState] = {}

    def work(self) -> int:
        """Work until it is over. Returns 0 if all chunks succeeded or there were none, 1 if one failed."""
        numbers = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.getsignal(number) for number in (*numbers, signal.SIGCHLD)}
        ring = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        try:
            self._until_over()
        except BaseException:
            self._abandon()
            raise
        finally:
            if self._lookout:
                self._lookout.close()
            self._hear_signals_as_before()
            signal.set_wakeup_fd(ring)
            self._display.close()
        return self._code()

    def _code(self) -> int:
        if self._stopped_by:
            return 128 + self._stopped_by
        broken = self._over or next((job.broken for job in self._jobs if job.broken), 0)
        if broken:
            return broken
        if not self._lookout:
            self._console.say(self._jobs[0].idle)
        return FAILED if self._failed else 0

    # ---------------------------------------------------------------- the loop

    def _until_over(self) -> None:
        if self._lookout:
            self._lookout.start()
        while not self._is_over():
            for job in self._jobs:
                while self._may_start(job):
                    self._start(job)
            if self._is_over():
                return
            self._sleep()
            if self._stopped_by and not self._said_so:
                self._said_so = True
                self._display.stopping(sum(bool(child.dataid) for child in self._children.values()))
            self._hear_children()
            self._bury()
            if self._lookout:
                self._hear_lookout(self._lookout)
            self._display.draw()

    def _is_over(self) -> bool:
        if self._children:
            return False
        if self._stopped_by or self._over is not None:
            return True
        if self._until is Until.IDLE and not self._lookout:
            return not any(job.looks and not job.broken for job in self._jobs)
        return False

    def _may_start(self, job: LoopJob) -> bool:
        if self._stopped_by or self._over is not None or not job.looks or job.children >= job.workers:
            return False
        if job.broken and self._until is not Until.STOPPED:
            return False
        if self._lookout and (not self._states or job.searching >= max(self._left(job), 1)):
            return False
        return time.monotonic() >= job.rests_until

    def _left(self, job: LoopJob) -> int:
        state = self._states.get(job.name)
        return state.left if state else 1

    def _sleep(self) -> None:
        now = time.monotonic()
        wakes = [job.rests_until - now for job in self._jobs if job.looks and job.rests_until > now]
        pipes = [self._wakes, *(child.pipe for child in self._children.values())]
        if self._lookout and self._lookout.answers >= 0:
            pipes.append(self._lookout.answers)
        pipes += [self._leash] if self._leash >= 0 else []
        poll = select.poll()  # `select` supports at most 1,024 descriptors.
        for pipe in pipes:
            poll.register(pipe, select.POLLIN)
        ready = {pipe for pipe, _ in poll.poll(1000 * max(min([SLEEP_SECONDS, *wakes]), 0))}
        if self._leash in ready and not os.read(self._leash, 4096):
            self._leash = -1
            self._stop(signal.SIGTERM, None)
        with suppress(BlockingIOError):
            os.read(self._wakes, 4096)

    # ---------------------------------------------------------------- messages

    def _hear_lookout(self, lookout: Lookout) -> None:
        heard = lookout.hear()
        for job in self._jobs:
            job.looks = job.looks or job.name in heard.work
        for note in heard.notes:
            self._display.note(note)
        if heard.away and self._until is not Until.STOPPED and not self._states:
            self._over = CANNOT_REACH  # It never answered.
        self._over = heard.refused or self._over
        if heard.states:
            self._take_states(heard)
        self._ask_states(lookout)

    def _take_states(self, heard: Heard) -> None:
        self._states = {state.job: state for state in heard.states}
        self._display.states(heard.states)
        broken = {job.name for job in self._jobs if job.broken}
        done = self._until is Until.IDLE or all(state.is_over or state.job in broken for state in heard.states)
        if done and self._until is not Until.STOPPED and heard.is_final and self._is_quiet():
            self._over = 0

    def _ask_states(self, lookout: Lookout) -> None:
        """Ask for the progress of the jobs occasionally, and when nothing is running here any more."""
        now, is_quiet = time.monotonic(), self._is_quiet()
        if not lookout.is_asked and (now >= self._check_at or (is_quiet and not self._was_quiet)):
            self._check_at = now + (QUIET_CHECK_SECONDS if is_quiet and self._until is Until.STOPPED else CHECK_SECONDS)
            lookout.ask_states(final=is_quiet)
        self._was_quiet = is_quiet

    def _is_quiet(self) -> bool:
        """Whether nothing is running here, and nothing can be started."""
        return not self._children and not any(job.looks and not job.broken for job in self._jobs)

    def _hear_children(self) -> None:
        for child in self._children.values():
            self._hear(child)

    def _hear(self, child: _Child) -> None:
        with suppress(BlockingIOError):
            while data := os.read(child.pipe, 65536):
                child.rest += data
        *lines, child.rest = child.rest.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "claimed" in said:
                child.dataid = str(said["claimed"])
                child.job.searching -= 1
                self._display.claimed(child.job.name)
            else:
                child.said = said

    def _bury(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                child = self._children.pop(pid)
                self._hear(child)
                os.close(child.pipe)
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        job, said = child.job, child.said
        job.children -= 1
        # A killed child reports nothing. The pauses grow if this happens repeatedly.
        job.killed = 0 if said else job.killed + 1
        if job.killed:
            job.rest(min(0.1 * 2.0 ** min(job.killed, 10), LONGEST_PAUSE))
        end = ChunkEnd(
            job.name, str(said.get("word", WORKED)), code, child.dataid, str(said.get("why", "")), said.get("left")
        )
        if child.dataid:
            self._display.ended(end)
            self._failed.discard((job.name, child.dataid))
            if end.word == WORKED and code:
                self._failed.add((job.name, child.dataid))
        else:
            job.searching -= 1
        self._turn(job, end)

    def _turn(self, job: LoopJob, end: ChunkEnd) -> None:
        """Decide what the job does next."""
        if end.word == BROKEN:
            job.broken, job.breaks = end.code, job.breaks + 1
            if self._display.prints_errors:
                self._display.note(f"headgate: {job.name}: {end.why or 'its command cannot be run'}")
            job.rest(min(2.0**job.breaks, LONGEST_BROKEN_PAUSE))
            return
        if end.word == AWAY and not self._lookout:
            job.broken = end.code
            return
        if end.dataid:
            job.broken = job.breaks = 0
        if end.word in (IDLE, AWAY):
            job.idle, job.looks = end.why, False
            if self._lookout:
                self._lookout.look(job.name)
        elif not self._lookout:
            job.looks = True  # When one finds nothing, another may still produce chunks to process.

    # ---------------------------------------------------------------- children

    def _start(self, job: LoopJob) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        # Blocked until both sides can handle them: the parent passes them on, and the child has its own handlers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(job, writing, mask)
        os.close(writing)
        self._children[child] = _Child(job, reading)
        job.children += 1
        job.searching += 1
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _be_child(self, job: LoopJob, writing: int, mask: set[int | signal.Signals]) -> None:
        code, word = FAILED, WORKED
        tell = Tell(writing, count_left=self._display.count_is_due)
        if self._display.prints_errors:
            self._console.quiet, self._console.on_error = True, tell.why
        try:
            signal.set_wakeup_fd(-1)
            self._hear_signals_as_before()
            with Stops() as stops:  # To the very end: a signal must not prevent the parent from learning the outcome.
                try:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                    code, word = self._outcome(job.run_one, stops, tell)
                except SystemExit as stopped:
                    code, word = int(stopped.code or 0), INTERRUPTED
                stops.hold()
                tell.end(word)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        finally:
            os._exit(code)

    def _outcome(self, run_one: RunOne, stops: Stops, tell: Tell) -> tuple[int, str]:
        """Process one chunk. Returns the exit code, and why it ended."""
        try:
            code = run_one(stops, tell)
        except HeadgateError as error:
            stops.hold()
            return self._failed_with(error)
        except click.exceptions.Exit as end:  # The command cannot be run, and the reason was printed.
            stops.hold()
            return end.exit_code, WORKED if self._console.claimed else BROKEN
        except Exception:  # noqa: BLE001 - the child ends here, and its parent must not start it over and over
            stops.hold()
            talk(traceback.format_exc())
            return FAILED, WORKED if self._console.claimed else BROKEN
        if self._console.interrupted:
            return code, INTERRUPTED
        # A command may itself end with this code: only a child that claimed nothing is idle.
        return code, IDLE if code == NOTHING_TO_DO and not self._console.claimed else WORKED

    def _failed_with(self, error: HeadgateError) -> tuple[int, str]:
        away = isinstance(error, Unavailable) and not self._console.claimed
        if away and self._lookout:
            return CANNOT_REACH, AWAY  # The lookout reports this, once.
        if isinstance(error, Unavailable) and self._lookout:
            return report(error, self._console), AWAY
        going_on = self._console.claimed and not isinstance(error, Invalid | Unavailable)
        return report(error, self._console), WORKED if going_on else BROKEN

    def _hear_signals_as_before(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _abandon(self) -> None:
        """The loop itself fails: let its children interrupt what they run, and outlive none of them."""
        self._stop(signal.SIGTERM, None)
        for child in self._children:
            os.waitpid(child, 0)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Start no more children, and pass the signal on."""
        self._stopped_by = self._stopped_by or number
        for child in list(self._children):
            with suppress(ProcessLookupError):  # It was reaped a moment ago.
                os.kill(child, number)

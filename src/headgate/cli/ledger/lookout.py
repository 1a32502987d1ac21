"""Looks out for work while a loop has none: a child of the loop with its own connection, woken by the store.

The loop sends names of jobs, one per line; the lookout answers when a chunk of one can be claimed. It claims nothing
itself. On request it counts the progress of all jobs. An unavailable store is retried, with growing pauses.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from headgate.cli.processes.readiness import ready
from headgate.cli.processes.stopping import STOP_SIGNALS
from headgate.core.errors import HeadgateError, Unavailable

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console
    from headgate.core.ledger.progress import JobProgress
    from headgate.service.leases.looking import Looking
    from headgate.service.ledger.use_cases import Ledger

#: First and longest pause before an unavailable store is retried.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
#: An order: report the progress of all jobs. Any other order is the name of a job to look out for, after a blank.
STATES, FINAL_STATES, LOOK = b"states", b"final", b" "
#: Maximum length of an order, and number of bytes read at once.
PORTION = 65536


@dataclass(frozen=True, slots=True)
class JobState:
    """The progress of a job, including other workers."""

    job: str
    #: Chunks that are running or can be claimed, now or later.
    left: int
    #: Chunks that failed permanently or are held.
    failed: int
    #: Why it is paused; empty: it is not.
    paused: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left that this loop could process."""
        return self.left == 0 or bool(self.paused)


@dataclass
class Heard:
    """Messages of a lookout."""

    #: Jobs with a chunk that can be claimed.
    work: list[str] = field(default_factory=list)
    #: The progress of each job; empty: it was not counted.
    states: list[JobState] = field(default_factory=list)
    #: Whether it was requested while nothing was running here.
    is_final: bool = False
    #: Sentences for people.
    notes: list[str] = field(default_factory=list)
    #: Whether the store is unavailable.
    away: bool = False
    #: The exit code, if there is no point in continuing.
    refused: int = 0


#: Called once the store answers, before any other callback.
Begin = Callable[["Ledger"], None]


class Lookout:
    """The loop's side of the lookout."""

    def __init__(self, console: Console, jobs: Sequence[str], begin: Begin) -> None:
        self._console = console
        self._jobs = jobs
        self._begin = begin
        self._pid = 0
        self._orders = -1
        #: The pipe with its answers; -1: there is none at the moment.
        self.answers = -1
        self._rest = b""
        self._watched: set[str] = set()
        self._starts_at = 0.0
        self._pause = FIRST_PAUSE
        #: Whether the progress was requested and has not arrived yet.
        self.is_asked = False

    def start(self) -> None:
        """Fork it, and ask for the progress of the jobs."""
        orders, self._orders = os.pipe()
        self.answers, answers = os.pipe()
        os.set_blocking(self.answers, False)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._orders)
            os.close(self.answers)
            _look_out(self._console, self._jobs, self._begin, orders, answers)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(orders)
        os.close(answers)
        self.is_asked, self._rest = False, b""
        self.ask_states(final=False)
        for name in self._watched:
            self._order(LOOK + name.encode())

    def look(self, job: str) -> None:
        """Look out for a chunk of this job until there is one."""
        self._watched.add(job)
        self._order(LOOK + job.encode())

    def ask_states(self, *, final: bool) -> None:
        """Ask for the progress of all jobs. `final`: nothing is running here."""
        self.is_asked = True
        self._order(FINAL_STATES if final else STATES)

    def hear(self) -> Heard:
        """Its new messages, without waiting. A dead one is replaced."""
        heard = Heard()
        if self.answers < 0:
            if time.monotonic() >= self._starts_at:
                self.start()
            return heard
        try:
            while data := os.read(self.answers, PORTION):
                self._rest += data
            self._died()
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._take(json.loads(line), heard)
        return heard

    def close(self) -> None:
        """End it."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._died()

    def _died(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._orders)
        os.close(self.answers)
        self._pid, self._orders, self.answers = 0, -1, -1
        self._starts_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _take(self, said: dict[str, Any], heard: Heard) -> None:
        if "work" in said:
            self._watched.discard(said["work"])
            heard.work.append(said["work"])
        elif "states" in said:
            self.is_asked, self._pause = False, FIRST_PAUSE
            heard.states, heard.is_final = [JobState(**each) for each in said["states"]], said["final"]
        else:
            heard.notes += [said["note"]] if said.get("note") else []
            heard.away = heard.away or said.get("away", False)
            heard.refused = heard.refused or said.get("refused", 0)

    def _order(self, line: bytes) -> None:
        with suppress(BrokenPipeError, OSError):  # It has just died: its successor gets the request.
            os.write(self._orders, line + b"\n")


# -------------------------------------------------------------------- the child


def _look_out(console: Console, jobs: Sequence[str], begin: Begin, orders: int, answers: int) -> NoReturn:
    """The child's life. It ends with its parent."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in STOP_SIGNALS:  # The loop decides when to end.
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        _Watch(console, jobs, begin, orders, answers).watch()
        code = 0
    finally:
        os._exit(code)


class _Over(Exception):
    """The loop has ended."""


class _Watch:
    def __init__(self, console: Console, jobs: Sequence[str], begin: Begin, orders: int, answers: int) -> None:
        self._console = console
        self._jobs = jobs
        self._begin = begin
        self._orders, self._answers = orders, answers
        self._bell, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""
        #: Jobs to look out for, and whether to count.
        self._wanted: dict[str, Looking[bool] | None] = {}
        self._asked = b""
        self._is_away = False

    def watch(self) -> None:
        """Watch, whether or not the store answers."""
        pauses = _pauses()
        while True:
            try:
                with self._console.gate() as gate:
                    self._begin(gate.ledger)
                    self._say_back()
                    pauses = _pauses()
                    self._serve(gate.ledger)
            except _Over:
                return
            except Unavailable as error:
                self._say_away(error)
                self._wanted = dict.fromkeys(self._wanted)
                try:
                    self._hear(next(pauses))
                except _Over:
                    return
            except HeadgateError as error:
                from headgate.cli.terminal.failures import exit_code, text

                self._say(note=f"headgate: {text(error, self._console)}", refused=exit_code(error))
                return

    def _serve(self, ledger: Ledger) -> None:
        while True:
            pause = self._look(ledger)
            if self._asked:
                states, final = [_state(ledger, job) for job in self._jobs], self._asked == FINAL_STATES
                self._asked = b""
                self._say(states=[asdict(each) for each in states], final=final)
            self._hear(pause)

    def _look(self, ledger: Ledger) -> float:
        """Check once for each wanted job. Returns the seconds until the next check, if it is not woken."""
        pause = LONGEST_PAUSE
        for job in list(self._wanted):
            looking = self._wanted[job] or ledger.looking_for_work(job)
            self._wanted[job] = looking
            found = looking.step(self._called)
            if isinstance(found, float):
                pause = min(pause, found)
            else:
                looking.end()
                del self._wanted[job]
                self._say(work=job)
        return pause

    def _called(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def _hear(self, seconds: float) -> None:
        """Read orders for that long, or until the store wakes it."""
        found = ready([self._orders, self._bell], seconds)
        if self._bell in found:
            with suppress(BlockingIOError):
                os.read(self._bell, PORTION)
        if self._orders in found:
            data = os.read(self._orders, PORTION)
            if not data:
                raise _Over
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                if line.startswith(LOOK):
                    self._wanted.setdefault(line[1:].decode())
                else:
                    self._asked = line

    def _say_away(self, error: Unavailable) -> None:
        if not self._is_away:
            self._say(note=f"headgate: {error} (retrying)", away=True)
        self._is_away = True

    def _say_back(self) -> None:
        if self._is_away:
            self._say(note="headgate: the store answers again")
        self._is_away = False

    def _say(self, **content: Any) -> None:
        try:
            os.write(self._answers, json.dumps(content).encode() + b"\n")
        except BrokenPipeError:
            raise _Over from None


def _state(ledger: Ledger, job: str) -> JobState:
    found: JobProgress = ledger.following(job).now()
    return JobState(job, found.left, found.failed, found.paused)


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE)


def makers_first(jobs: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> list[str]:
    """Names of jobs (name, inputs, outputs), each after those that make its inputs: the order of counting."""
    waiting = {name: (set(inputs), set(outputs)) for name, inputs, outputs in jobs}
    ordered: list[str] = []
    while waiting:
        made = {each for _, outputs in waiting.values() for each in outputs}
        free = [name for name, (inputs, _) in waiting.items() if not inputs & made] or list(waiting)
        ordered += free
        for name in free:
            del waiting[name]
    return ordered

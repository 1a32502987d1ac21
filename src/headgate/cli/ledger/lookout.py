"""Looks out for work while a loop has none: a child of the loop with a connection of its own, woken by the store.

The loop names jobs, a line each; the lookout answers when a chunk of one can be claimed. It claims nothing itself. On
request it counts how far all jobs are. A store that does not answer is asked again, with growing pauses.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from headgate.cli.processes.stopping import STOP_SIGNALS
from headgate.core.errors import HeadgateError, Unavailable

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console
    from headgate.core.ledger.progress import JobProgress
    from headgate.service.leases.looking import Looking
    from headgate.service.ledger.use_cases import Ledger

#: First and longest pause before an unavailable store is asked again.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
#: An order: how far all jobs are. Any other is the name of a job to look out for, after a blank.
STATES, FINAL_STATES, LOOK = b"states", b"final", b" "
#: Longest line of an order, and bytes read at once.
PORTION = 65536


@dataclass(frozen=True, slots=True)
class JobState:
    """How far a job is, other workers included."""

    job: str
    #: Chunks that run or can be claimed, now or later.
    left: int
    #: Chunks that failed for good or are held.
    failed: int
    #: Why it is paused; empty: it is not.
    paused: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left that this loop could work on."""
        return self.left == 0 or bool(self.paused)


@dataclass
class Heard:
    """Messages of a lookout."""

    #: Jobs of which a chunk can be claimed.
    work: list[str] = field(default_factory=list)
    #: How far each job is; empty: it was not counted.
    states: list[JobState] = field(default_factory=list)
    #: Whether those were asked for when nothing ran here.
    is_final: bool = False
    #: Sentences for people.
    notes: list[str] = field(default_factory=list)
    #: Whether the store does not answer.
    away: bool = False
    #: The exit code, if there is no point in going on.
    refused: int = 0


#: Called once the store answers, before anything else.
Begin = Callable[["Ledger"], None]


class Lookout:
    """The lookout, as the loop sees it."""

    def __init__(self, console: Console, jobs: Sequence[str], begin: Begin) -> None:
        self._console = console
        self._jobs = jobs
        self._begin = begin
        self._pid = 0
        self._orders = -1
        #: The pipe of its answers; -1: there is none now.
        self.answers = -1
        self._rest = b""
        self._watched: set[str] = set()
        self._starts_at = 0.0
        self._pause = FIRST_PAUSE
        #: Whether states were asked for and did not come yet.
        self.is_asked = False

    def start(self) -> None:
        """Fork it, and ask how far the jobs are."""
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
        """Look out for a chunk of this job, until there is one."""
        self._watched.add(job)
        self._order(LOOK + job.encode())

    def ask_states(self, *, final: bool) -> None:
        """Ask how far all jobs are. `final`: nothing runs here."""
        self.is_asked = True
        self._order(FINAL_STATES if final else STATES)

    def hear(self) -> Heard:
        """Its messages since, without waiting. One that died is replaced."""
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
        with suppress(BrokenPipeError, OSError):  # It has just died: the next one is asked again.
            os.write(self._orders, line + b"\n")


# -------------------------------------------------------------------- the child


def _look_out(console: Console, jobs: Sequence[str], begin: Begin, orders: int, answers: int) -> NoReturn:
    """The child's life. It ends with its parent."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in STOP_SIGNALS:  # The loop decides when it ends.
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
        #: Jobs to look out for, and what is to be counted.
        self._wanted: dict[str, Looking[bool] | None] = {}
        self._asked = b""
        self._is_away = False

    def watch(self) -> None:
        """Watch, whether the store answers or not."""
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
        """Look once for each job that is wanted. Returns the seconds until the next look, if nobody calls."""
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
        """Take orders for that long, or until the store calls."""
        ready = select.select([self._orders, self._bell], [], [], seconds)[0]
        if self._bell in ready:
            with suppress(BlockingIOError):
                os.read(self._bell, PORTION)
        if self._orders in ready:
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
            self._say(note=f"headgate: {error} (it is asked again until it does)", away=True)
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
    """Names of jobs (name, inputs, outputs), each after those that make what it reads: the order to count them in."""
    waiting = {name: (set(inputs), set(outputs)) for name, inputs, outputs in jobs}
    ordered: list[str] = []
    while waiting:
        made = {each for _, outputs in waiting.values() for each in outputs}
        free = [name for name, (inputs, _) in waiting.items() if not inputs & made] or list(waiting)
        ordered += free
        for name in free:
            del waiting[name]
    return ordered

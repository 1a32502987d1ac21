"""Running a command while locks or a claim are held: signals are passed on, and it is stopped when one is lost."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from headgate.cli.processes.readiness import ready
from headgate.cli.processes.stopping import STOP_SIGNALS
from headgate.core.errors import BadValue, Lost
from headgate.service.leases.clock import steady
from headgate.service.leases.renewal import KeptAlive

FORWARDED = (*STOP_SIGNALS, signal.SIGUSR1, signal.SIGUSR2)
#: Default time between SIGTERM and SIGKILL.
GRACE_SECONDS = 10.0
#: Maximum seconds before the end of a lease at which the command is certainly dead.
RESERVE_SECONDS = 1.0
#: Pauses between two checks: of the locks, and of a group that is ending.
LOOK_SECONDS, ENDING_SECONDS = 1.0, 0.02
#: Longest wait for our own output to accept the output of a command that was asked to stop.
FLUSH_SECONDS = 2.0
#: Longest wait for a killed group (a dead network file system may keep it).
KILL_SECONDS = 1.0
#: Two stop signals within this time are one request.
SAME_REQUEST_SECONDS = 0.5
#: A stop of everything on a machine (scancel, a service manager) may reach the command before it reaches us. Therefore
#: signals are awaited for this part of the command's run time, up to a maximum; and longer if a stop signal ended the
#: command.
SETTLE_PART, SETTLE_SECONDS, SETTLE_SIGNALLED_SECONDS = 0.05, 0.25, 1.0


@dataclass(frozen=True, slots=True)
class StopLimits:
    """The times before a lease expires: SIGTERM, `grace`, SIGKILL, `reserve`, expiry."""

    lease: float
    grace: float
    reserve: float

    @classmethod
    def of(cls, lease: float, grace: float | None) -> StopLimits:
        """The limits for a lease; a grace that leaves no time for work is refused."""
        if grace is not None and not 0 <= grace <= lease / 2:
            raise BadValue("grace", grace, f"must be from 0 to half of the lease ({lease / 2:g} s)")
        wanted = min(GRACE_SECONDS, lease / 4) if grace is None else grace
        return cls(lease, wanted, min(RESERVE_SECONDS, lease / 10))

    def within(self, lease: float) -> StopLimits:
        """The same for the lease that the store granted."""
        return StopLimits(lease, min(self.grace, lease / 2), min(self.reserve, lease / 10))


class Followed(Protocol):
    """A command in its own process group."""

    def start(self, environment: Mapping[str, str | None], kill_at: float) -> None: ...

    def send(self, number: int) -> None: ...

    def kill_at(self, moment: float) -> None: ...

    def reap(self) -> int | None: ...

    def alive(self) -> bool: ...

    def drained(self) -> bool: ...


class Following:
    """One command, from its start to the end of everything in its group."""

    def __init__(
        self, processes: Followed, limits: StopLimits, timeout: float | None = None, *, hurries: bool = False
    ) -> None:
        """`timeout`: the maximum run time of the command in seconds. `hurries`: one that was asked to stop is killed
        after the grace, or at a second request.
        """
        self._processes = processes
        self._limits = limits
        #: Seconds that the command may run.
        self.timeout = math.inf if timeout is None else timeout
        self._hurries = hurries
        self._asked = math.inf
        self._alarm, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._code: int | None = None
        self._kill_at = math.inf
        self._guardian_kills_at = math.inf
        self._flush_until = math.inf
        #: Why we ended the command, if we did.
        self.lost: Lost | None = None
        #: Whether the command left processes running that had to be ended.
        self.left_something = False
        #: Whether it ran for too long, and was ended.
        self.timed_out = False
        #: The first stop signal that arrived before the command's outcome was decided; 0: none.
        self.stopped_by = 0
        self._settled = False

    def look(self, _lost: Lost | None = None) -> None:
        """Check the locks now. Can be called from any thread."""
        with suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def hear(self, number: int) -> None:
        """Pass a signal on to the command, and record the first one that asks it to stop."""
        if number in STOP_SIGNALS and not self._settled:
            if not self.timed_out:  # Then it has failed already.
                self.stopped_by = self.stopped_by or number
            if self._hurries:
                self._hurry()
        self._processes.send(number)

    def _hurry(self) -> None:
        """It has the grace period to end. A terminal's signal may arrive twice, from the terminal and passed on."""
        again = steady() > self._asked + SAME_REQUEST_SECONDS
        self._asked = min(self._asked, steady())
        self._kill_at = min(self._kill_at, steady() if again else steady() + self._limits.grace)
        self.look()

    def until_end(
        self, holds: Sequence[KeptAlive], environment: Mapping[str, str | None], *, signals: bool = True,
        settle: bool = False,
    ) -> int:  # fmt: skip
        """Start the command, and follow it to its end. Returns its exit code as shells report it.

        `signals`: pass on the signals that we receive; only the main thread can. `settle`: wait for stop signals a
        moment longer than the command runs.
        """
        begun = steady()
        times_out = begun + self.timeout
        self._limits = self._limits.within(min(hold.lease or math.inf for hold in holds))
        with self._signals(holds) if signals else nullcontext():
            # Set before the command runs: we may be stopped at any moment after that.
            self._processes.start(environment, _deadline(holds) - self._limits.reserve / 2)
            while not self._over():
                self._look_at_locks(holds)
                if steady() >= times_out:
                    self._time_out()
                if steady() >= self._kill_at:
                    self._processes.send(signal.SIGKILL)
                self._sleep(min(_deadline(holds), times_out + self._limits.grace + self._limits.reserve))
            if settle:
                self._settle(steady() - begun)
            self._settled = True
        code = self._code or 0
        killed_in_time = self.timed_out or (self._hurries and self.stopped_by)
        killed = code == -signal.SIGKILL and steady() >= self._guardian_kills_at
        if killed and not killed_in_time and self.lost is None:
            self.lost = holds[0].loss("it could not be renewed in time")
        return code if code >= 0 else 128 - code

    def close(self) -> None:
        """Close the pipe of the alarm."""
        os.close(self._alarm)
        os.close(self._ring)

    def _time_out(self) -> None:
        if not self.timed_out and not self.stopped_by and self.lost is None and self._code is None:
            self.timed_out = True
            self._end_by(steady() + self._limits.grace)

    def _settle(self, lasted: float) -> None:
        """Wait a moment for a stop signal that the command received before we did."""
        signalled = self._code is not None and -self._code in STOP_SIGNALS
        until = steady() + (SETTLE_SIGNALLED_SECONDS if signalled else min(lasted * SETTLE_PART, SETTLE_SECONDS))
        while not self.stopped_by and self.lost is None and (left := until - steady()) > 0:
            if ready([self._alarm], left):
                with suppress(BlockingIOError):
                    os.read(self._alarm, 4096)

    def _over(self) -> bool:
        code = self._processes.reap()
        self._code = self._code if code is None else code
        if self._code is None:
            return False
        self._processes.reap()
        if not self._processes.alive():
            return self._processes.drained() or self._output_is_given_up()
        if self._kill_at == math.inf:
            self.left_something = True
            self._end_by(steady() + self._limits.grace)
        return steady() > self._kill_at + KILL_SECONDS

    def _output_is_given_up(self) -> bool:
        """Our own output is blocked. The command would wait for that, so we do, until asked to stop."""
        if self.lost is None and not self.stopped_by:
            return False
        self._flush_until = min(self._flush_until, steady() + FLUSH_SECONDS)
        return steady() > self._flush_until

    def _look_at_locks(self, holds: Sequence[KeptAlive]) -> None:
        last_moment = _deadline(holds) - self._limits.reserve
        if self.lost is None:
            self.lost = self._loss(holds)
            if self.lost is not None:
                self._end_by(min(steady() + self._limits.grace, last_moment))
        # Half of the reserve is the guardian's: it acts only when we did not.
        self._guardian_kills_at = min(last_moment, self._kill_at) + self._limits.reserve / 2
        self._processes.kill_at(self._guardian_kills_at)

    def _loss(self, holds: Sequence[KeptAlive]) -> Lost | None:
        """Return the loss of a lock that is lost, or will be unless the command ends now."""
        margin = self._limits.grace + self._limits.reserve
        for hold in holds:
            if hold.gone:
                return hold.gone
            if hold.deadline is not None and steady() >= hold.deadline - margin:
                return hold.loss("it could not be renewed in time")
        return None

    def _end_by(self, moment: float) -> None:
        """Ask the group to end now; it is killed at that time."""
        self._kill_at = min(moment, self._kill_at)
        self._processes.send(signal.SIGTERM)
        self._processes.send(signal.SIGCONT)  # A stopped process could not obey.

    def _sleep(self, deadline: float) -> None:
        pause = ENDING_SECONDS
        if self._kill_at == math.inf:
            to_ask = deadline - self._limits.grace - self._limits.reserve - steady()
            pause = max(min(LOOK_SECONDS, self._limits.lease / 8, to_ask), 0)
        if ready([self._alarm], pause):
            with suppress(BlockingIOError):
                os.read(self._alarm, 4096)

    @contextmanager
    def _signals(self, holds: Sequence[KeptAlive]) -> Iterator[None]:
        """Pass signals on, except ignored ones (nohup); wake up when a process ends."""

        def forward(number: int, _frame: FrameType | None) -> None:
            self.hear(number)

        def suspend(_number: int, _frame: FrameType | None) -> None:
            """Ctrl-Z: stop the command before this process; continue it only if the locks are still held then."""
            self._processes.send(signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
            self._look_at_locks(holds)
            if self.lost is None:
                self._processes.send(signal.SIGCONT)

        wanted: dict[int, Any] = dict.fromkeys(FORWARDED, forward)
        wanted |= {signal.SIGTSTP: suspend, signal.SIGCHLD: lambda _number, _frame: None}
        before = {number: signal.getsignal(number) for number in wanted}
        old_ring = signal.set_wakeup_fd(self._ring, warn_on_full_buffer=False)
        try:
            for number, handler in wanted.items():
                if before[number] is not signal.SIG_IGN or number == signal.SIGCHLD:
                    signal.signal(number, handler)
            yield
        finally:
            signal.set_wakeup_fd(old_ring)
            for number, old in before.items():
                signal.signal(number, old)


def _deadline(holds: Sequence[KeptAlive]) -> float:
    """Return when the first of them expires if the store does not answer."""
    return min(math.inf if hold.deadline is None else hold.deadline for hold in holds)

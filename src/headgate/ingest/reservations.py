"""Space for jobs: free space, minus the space reserved by others, compared with a threshold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from headgate.core.queue.model import DOWNLOADING, PROVISIONING, IngestJob

#: How often the queue is asked which jobs have reserved space.
_LOOK_SECONDS = 1.0
#: A reservation is dropped when its job was not seen downloading for this long: its report may never have arrived.
_PROMISE_SECONDS = 10.0
#: States in which a job has not written all of its reserved bytes.
_UNWRITTEN = (PROVISIONING, DOWNLOADING)


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """The working folder's file system, in bytes."""

    free: int
    #: Bytes reserved by jobs that have not written all of them.
    reserved: int
    #: Bytes that should stay free.
    threshold: int

    @property
    def available(self) -> int:
        """Bytes that may still be reserved; negative when the threshold is exceeded already."""
        return self.free - self.reserved - self.threshold


@dataclass(frozen=True, slots=True)
class RoomRequest:
    """A job that requests space."""

    job: str
    #: Bytes; 0: not known.
    space_needed: int


@dataclass(frozen=True, slots=True)
class RoomDecision:
    """Whether a job may continue, or the reason why not."""

    job: str
    passes: bool
    #: The message for the job's status; empty when it fits.
    why: str = ""


def decide(waiting: Iterable[RoomRequest], room: FreeSpace) -> list[RoomDecision]:
    """An answer for every job, in order: a job that does not fit waits, and later ones may still fit.

    Granted space is reserved at once, so that one round never grants the same bytes twice.
    """
    decisions = []
    for job in waiting:
        why = _why_not(job.space_needed, room)
        decisions.append(RoomDecision(job.job, not why, why))
        if not why:
            room = replace(room, reserved=room.reserved + job.space_needed)
    return decisions


def _why_not(space_needed: int, room: FreeSpace) -> str:
    if space_needed == 0 and room.available < 0:
        return (
            f"its size is unknown, and the free space is {-room.available:,} bytes below the threshold of "
            f"{room.threshold:,}"
        )
    if space_needed > max(0, room.available):
        return f"it needs {space_needed:,} bytes; {max(0, room.available):,} are available"
    return ""


class Reservations:
    """Jobs with reserved space: those that the queue shows as downloading, and those that just got space here."""

    def __init__(
        self, under_way: Callable[[], Sequence[IngestJob]], state_of: Callable[[str], str], threshold: int
    ) -> None:
        self._ask = under_way
        self._state_of = state_of
        self._threshold = threshold
        self._guard = threading.Lock()
        self._looked = float("-inf")
        self._known: dict[str, int] = {}
        #: Bytes by job, and when they were reserved.
        self._promised: dict[str, tuple[int, float]] = {}

    def ask(self, job: IngestJob, free: int) -> str:
        """Return why there is no space for a job; empty: its space is reserved."""
        with self._guard:
            now = time.monotonic()
            self._look(now)
            reserved = {**{jid: size for jid, (size, _) in self._promised.items()}, **self._known}
            room = FreeSpace(free, sum(reserved.values()), self._threshold)
            (decision,) = decide([RoomRequest(job.id, job.space_needed)], room)
            if decision.passes:
                self._promised[job.id] = (job.space_needed, now)
            return decision.why

    def _look(self, now: float) -> None:
        if now - self._looked < _LOOK_SECONDS:
            return
        self._known = {job.id: job.space_needed for job in self._ask()}
        self._looked = now
        self._promised = {
            jid: (size, at)
            for jid, (size, at) in self._promised.items()
            if jid not in self._known and now - at < _PROMISE_SECONDS and self._state_of(jid) in _UNWRITTEN
        }

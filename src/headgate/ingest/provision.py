"""Whether there is room for a job: free space, minus what others have been promised, against a threshold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Room:
    """The working folder's file system, in bytes."""

    free: int
    #: Promised to jobs that have passed and not yet written all of it.
    reserved: int
    #: What shall stay free.
    threshold: int

    @property
    def available(self) -> int:
        """What may still be promised; below 0 when the threshold is crossed already."""
        return self.free - self.reserved - self.threshold


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that asks for room."""

    job: str
    #: Bytes; 0: not known.
    space_needed: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a job may go on, and why not."""

    job: str
    passes: bool
    #: For the job's status; empty when it passes.
    why: str = ""


def decide(waiting: Iterable[Waiting], room: Room) -> list[Decision]:
    """An answer for every job, in their order: who does not fit waits, and who comes after may still fit.

    What passes is reserved at once, so that one round never promises the same bytes twice.
    """
    decisions = []
    for job in waiting:
        why = _why_not(job.space_needed, room)
        decisions.append(Decision(job.job, not why, why))
        if not why:
            room = replace(room, reserved=room.reserved + job.space_needed)
    return decisions


def _why_not(space_needed: int, room: Room) -> str:
    if space_needed == 0 and room.available < 0:
        return (
            f"its size is not known, and {-room.available:,} bytes are missing to the threshold of {room.threshold:,}"
        )
    if space_needed > max(0, room.available):
        return f"it needs {space_needed:,} bytes; {max(0, room.available):,} are available"
    return ""

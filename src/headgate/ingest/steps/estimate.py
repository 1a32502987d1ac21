"""Estimating the size of an object, and its effect on the priority."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.core.queue.model import HIGHEST_NUMBER
from headgate.core.values.plurals import plural

#: The amount that a large or unknown size adds to the priority number.
PENALTY = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """The servers' answers."""

    #: Bytes; 0: unknown, because at least one of the sizes is.
    space_needed: int
    files: int
    #: Number of files of unknown size.
    unknown: int
    #: Bytes of the other files.
    told: int

    @property
    def message(self) -> str:
        """For the job's status."""
        if not self.unknown:
            return f"{plural(self.told, 'byte')} in {plural(self.files, 'file')}"
        return f"the size of {self.unknown:,} of {self.files:,} files is unknown; the others have {self.told:,} bytes"


def estimate(sizes: Iterable[int | None]) -> Estimate:
    """The sum of the sizes; None, or a size below zero, is unknown."""
    sizes = list(sizes)
    known = [size for size in sizes if size is not None and size >= 0]
    unknown = len(sizes) - len(known)
    # A size beyond what a store can keep is not credible.
    total = sum(known) if sum(known) < 2**63 else 0
    return Estimate(0 if unknown else total, len(sizes), unknown, total)


def waits_longer(space_needed: int, large_size: int) -> bool:
    """Whether an object's size lowers its priority: it is large, or unknown."""
    return space_needed == 0 or space_needed >= large_size


def estimated_priority(priority: int, space_needed: int, large_size: int) -> int:
    """The priority after estimating."""
    return min(HIGHEST_NUMBER, priority + PENALTY) if waits_longer(space_needed, large_size) else priority


def measured_priority(priority: int, before: int, after: int, large_size: int) -> int:
    """The priority after downloading, when the size estimated as `before` turned out to be `after`.

    An empty object was measured: its size is known to be 0.
    """
    waited, waits = waits_longer(before, large_size), after >= large_size
    if waited == waits:
        return priority
    return min(HIGHEST_NUMBER, priority + PENALTY) if waits else max(0, priority - PENALTY)

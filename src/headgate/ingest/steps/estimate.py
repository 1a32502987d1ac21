"""How large an object will be, as far as it is known, and what that does to its place in the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.core.queue.model import HIGHEST_NUMBER
from headgate.core.values.plurals import plural

#: What a large or unknown size adds to the priority.
PENALTY = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the servers said."""

    #: Bytes; 0: not known, because one of the sizes at least is not.
    space_needed: int
    files: int
    #: Files of unknown size.
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
    # More than a store can keep is no size that anybody should believe.
    total = sum(known) if sum(known) < 2**63 else 0
    return Estimate(0 if unknown else total, len(sizes), unknown, total)


def waits_longer(space_needed: int, large_size: int) -> bool:
    """Whether an object's size puts it behind others: it is large, or not known."""
    return space_needed == 0 or space_needed >= large_size


def estimated_priority(priority: int, space_needed: int, large_size: int) -> int:
    """The priority after estimating."""
    return min(HIGHEST_NUMBER, priority + PENALTY) if waits_longer(space_needed, large_size) else priority


def measured_priority(priority: int, before: int, after: int, large_size: int) -> int:
    """The priority after downloading, when what was estimated (`before`) turned out as `after`.

    An empty object was measured: its size is known, and 0.
    """
    waited, waits = waits_longer(before, large_size), after >= large_size
    if waited == waits:
        return priority
    return min(HIGHEST_NUMBER, priority + PENALTY) if waits else max(0, priority - PENALTY)

"""Counts of chunks by status, for displays of many chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.core.ledger.model import Kind

#: The word for RUNNING when the lease of the claim has expired: the worker died, and nobody has claimed it since.
EXPIRED = "lease expired"


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of chunks of a dataset with a given status, by the rows of one job."""

    dataset: str  #: Name of the dataset.
    job: str  #: Name of the job.
    kind: Kind  #: INPUT or OUTPUT.
    #: The status, or EXPIRED.
    status: str
    count: int  #: Number of chunks.
    #: True: counting stopped here, and there may be more.
    more: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive data ids of a dataset, and the statuses of those chunks in several datasets."""

    #: The first and the last of them; equal for a single one.
    first: str
    last: str
    #: By dataset: number of OUTPUT rows by status. Chunks without a row are not counted.
    cells: Mapping[str, Mapping[str, int]]


def chunks_by_status(tallies: Sequence[Tally], job: str | None = None) -> Counter[str]:
    """Number of chunks by status, or EXPIRED: of one job, or of all."""
    found: Counter[str] = Counter()
    for each in tallies:
        if job in (None, each.job):
            found[each.status] += each.count
    return found

"""How many chunks are where: what a picture of many chunks is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.core.ledger.model import Kind

#: The word for RUNNING when the lease of the claim has expired: the worker died, and nobody has claimed it since.
EXPIRED = "lease expired"


@dataclass(frozen=True, slots=True)
class Tally:
    """How many chunks of a dataset have a status, by the rows of one job."""

    dataset: str  #: Name of the dataset.
    job: str  #: Name of the job.
    kind: Kind  #: INPUT or OUTPUT.
    #: The status, or EXPIRED.
    status: str
    count: int  #: Number of chunks.
    #: True: it was not counted further, there may be more.
    more: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Data ids that follow each other in a dataset, and the statuses of those chunks in several."""

    #: The first and the last of them; the same for a single one.
    first: str
    last: str
    #: By dataset: how many OUTPUT rows have which status. What has no row is not counted.
    cells: Mapping[str, Mapping[str, int]]


def chunks_by_status(tallies: Sequence[Tally], job: str | None = None) -> Counter[str]:
    """How many chunks have which status, or EXPIRED: of one job, or of all."""
    found: Counter[str] = Counter()
    for each in tallies:
        if job in (None, each.job):
            found[each.status] += each.count
    return found

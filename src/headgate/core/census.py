"""How many chunks are where: what a picture of many chunks is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.ledger import Kind

#: The word for RUNNING when the lease of the claim has expired: the worker died, and nobody has claimed it since.
EXPIRED = "lease expired"


@dataclass(frozen=True, slots=True)
class Tally:
    """How many chunks of a dataset have a status, by the rows of one job."""

    dataset: str
    job: str
    kind: Kind
    #: The status, or EXPIRED.
    status: str
    count: int
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

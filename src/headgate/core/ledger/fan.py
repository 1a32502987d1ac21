"""The chunks that a chunk is made from, and those made from it, across mappings, as links to follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.ledger.model import READY
from headgate.core.ledger.rules import ABSENT
from headgate.core.ledger.sources import SourceSet

#: Number of links per input that are returned by default.
MOST_LINKS = 100
#: Number of data ids whose inputs one call returns.
MOST_FANNED = 1000


@dataclass(frozen=True, slots=True)
class ChunkLink:
    """A chunk that another one reads, or that reads it."""

    #: The job that produces it; `external`: it is produced elsewhere.
    job: str
    #: The dataset.
    dataset: str
    #: The data id.
    dataid: str
    #: Its status; absent: it has no row.
    status: str


@dataclass(frozen=True, slots=True)
class FanIn:
    """The need of one data id of a job for one input."""

    #: The job's data id.
    dataid: str
    #: The input.
    dataset: str
    #: How many data ids of the input are known to belong to it.
    needed: int
    #: How many of them are READY.
    ready: int
    #: Whether the available data is enough for a claim.
    complete: bool
    #: The same in words.
    text: str
    #: The first of them in order; if not all are returned, those that are not READY come first.
    links: tuple[ChunkLink, ...]


def fan_in_of(source: SourceSet, maker: str, most: int) -> FanIn:
    """The need of a data id for one input, with at most `most` links. `maker`: the job that produces the input."""
    statuses: dict[str, tuple[str, str]] = {}
    for row in source.rows:
        if row.dataid not in statuses or row.status != READY:
            statuses[row.dataid] = (row.job, row.status)
    missing = source.missing
    shown = source.needed
    if len(shown) > most:
        shown = tuple(dict.fromkeys((*missing, *shown)))[:most]
    links = tuple(ChunkLink(*_known(statuses, each, maker, source.dataset)) for each in shown)
    ready = len(source.needed) - len(missing)
    return FanIn(source.dataid, source.dataset, len(source.needed), ready, source.complete, source.sentence(), links)


def _known(statuses: Mapping[str, tuple[str, str]], dataid: str, maker: str, dataset: str) -> tuple[str, str, str, str]:
    job, status = statuses.get(dataid, (maker, ABSENT))
    return job, dataset, dataid, status

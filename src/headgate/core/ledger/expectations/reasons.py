"""Why a chunk is late: the cause is followed upstream to its origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headgate.core.ledger.claims import may_claim
from headgate.core.ledger.model import ERROR, READY, RESUBMIT, Kind
from headgate.core.ledger.snapshot import ChunkSnapshot
from headgate.core.values.plurals import plural

#: Number of chunks that one reason follows.
MOST_STEPS = 50
#: What a chunk may be while only its inputs are missing. Any other status blocks it whatever they are.
OPEN = (READY, ERROR, RESUBMIT)
#: The condition of a claim that inputs have.
INPUT = "input"


class Upstream(NamedTuple):
    """A chunk is not READY because another one is not."""

    dataset: str
    dataid: str
    #: How many others are missing as well.
    others: int


@dataclass(frozen=True, slots=True)
class Sightings:
    """The reported state of a dataset's watcher."""

    #: Where files arrive.
    source: str
    #: The data id of the file that it counted last; empty: none.
    last: str
    #: When that was.
    arrived: datetime | None
    #: When it last polled.
    looked: datetime | None
    #: Files that do not count yet.
    waiting: int
    #: The problem that prevents it from working; empty: none.
    problem: str
    #: Whether its lease is still valid.
    alive: bool

    def sentence(self) -> str:
        """Return its state, for display."""
        kind = "bucket" if self.source.startswith("s3://") else "folder"
        if self.arrived is None or not self.last:
            seen = f"the {kind} watcher has seen no file"
        else:
            seen = f"the {kind} watcher last saw {self.last} on {_shown(self.arrived)}"
        if self.waiting:
            seen += f", and {plural(self.waiting, 'file')} not complete yet"
        if self.problem:
            seen += f"; its problem: {self.problem}"
        if not self.alive:
            seen += f"; it last polled on {_shown(self.looked)}" if self.looked else "; it has not polled yet"
        return seen


class MadeElsewhere(NamedTuple):
    """A chunk that no job produces."""

    #: Its status and message; None: it was never published.
    row: tuple[str, str] | None
    #: Its watcher; None: it has none.
    watcher: Sightings | None


class Cause(NamedTuple):
    """The origin of a chunk's lateness."""

    dataset: str
    dataid: str
    #: Why that one is not READY.
    text: str


#: The known facts about a chunk, by dataset and data id.
Look = Callable[[str, str], ChunkSnapshot | MadeElsewhere]


def why_late(dataset: str, dataid: str, look: Look) -> Cause:
    """Return why a chunk is not READY: the cause at its origin, upstream."""
    seen: set[tuple[str, str]] = set()
    others = 0
    while (dataset, dataid) not in seen and len(seen) < MOST_STEPS:
        seen.add((dataset, dataid))
        found = look(dataset, dataid)
        cause = _unpublished(dataset, dataid, found) if isinstance(found, MadeElsewhere) else cause_of(found)
        if isinstance(cause, str):
            more = f" ({plural(others, 'other chunk')} missing too)" if others else ""
            return Cause(dataset, dataid, cause + more)
        dataset, dataid, others = cause.dataset, cause.dataid, max(others, cause.others)
    return Cause(dataset, dataid, f"{dataset}/{dataid} is not READY")


def cause_of(chunk: ChunkSnapshot) -> Upstream | str:
    """Return what prevents a job from making a chunk: another chunk, or a sentence."""
    verdict = may_claim(chunk)
    name = f"{chunk.job.outputs[0] if chunk.job.outputs else chunk.job.name}/{chunk.dataid}"
    taken = next((row for row in chunk.owned() if row.kind is Kind.OUTPUT and row.status not in OPEN), None)
    if taken is not None:
        return taken.sentence()
    inputs = zip(chunk.job.inputs, (each for each in verdict.conditions if each.name == INPUT), strict=True)
    for dataset, condition in inputs:
        if not condition.ok:
            missing = _missing(chunk, dataset)
            return Upstream(dataset, missing[0], len(missing) - 1) if missing else condition.text
    if verdict.granted:
        if not chunk.job.inputs:
            return f"{name} was not claimed: job {chunk.job.name} has no inputs, and is claimed with a data id"
        return f"{name} can be claimed, and no worker of job {chunk.job.name} has claimed it"
    return verdict.blockers[0].text


def _missing(chunk: ChunkSnapshot, dataset: str) -> Sequence[str]:
    source = chunk.sources.get(dataset)
    return (chunk.dataid,) if source is None else source.missing


def _unpublished(dataset: str, dataid: str, found: MadeElsewhere) -> str:
    text = f"{dataset}/{dataid} was never published"
    if found.row is not None:
        status, message = found.row
        text = f"{dataset}/{dataid} is {status}" + (f": {message}" if message else "")
    return text if found.watcher is None else f"{text}; {found.watcher.sentence()}"


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d} at {moment:%H:%M} UTC"

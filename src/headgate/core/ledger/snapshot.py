"""The snapshot for a decision about a chunk, and its result. Stores load the snapshot and apply the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from headgate.core.access.owners import Actor, Override
from headgate.core.incidents import IncidentChange
from headgate.core.ledger.model import DONE, READY, Change, Job, Kind, Row
from headgate.core.ledger.parts import Part, PartChange, part_row
from headgate.core.ledger.rules import ABSENT, CHUNK_RULES, ChunkRules, state_of
from headgate.core.ledger.sources import Reading, SourceSet
from headgate.core.locks.model import Lock
from headgate.core.locks.rules import LOCK_RULES, LockRules

T_co = TypeVar("T_co", covariant=True)

#: When a recurring job's next chunk is due.
END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ChunkSnapshot:
    """Everything that a decision about one job and one data id looks at, locked until the changes are applied."""

    #: The job.
    job: Job
    #: The data id.
    dataid: str
    #: Every row of the data id in the job's inputs and outputs, of this job and of others.
    rows: tuple[Row, ...] = ()
    #: Explicit locks on those chunks, if the store was asked for them.
    locks: tuple[Lock, ...] = ()
    #: The caller that requests a change.
    actor: Actor = field(default_factory=Actor)
    #: True: an earlier attempt at the same command was interrupted, and may have taken effect.
    again: bool = False
    rules: ChunkRules = CHUNK_RULES
    lock_rules: LockRules = LOCK_RULES
    #: What each mapped input has for the data id.
    sources: Mapping[str, SourceSet] = field(default_factory=dict)
    #: The mapped inputs that the newest claim reads or read.
    reads: tuple[Reading, ...] = ()
    #: INPUT rows of other jobs that read the chunk by a mapping.
    readers: tuple[Row, ...] = ()
    #: The store's time, if the job is recurring.
    at: datetime | None = None
    #: Its fan-out parts.
    parts: tuple[Part, ...] = ()
    #: If the job has no chunk of this data id, but made it by fan-out: the dataset, and the data id it was made from.
    part_of: tuple[str, str] | None = None

    def own(self, kind: Kind, dataset: str) -> Row | None:
        """The job's own row."""
        job = self.job.name
        for row in self.rows:
            if row.dataset == dataset and row.kind is kind and row.job == job:
                return row
        return None

    def owned(self) -> tuple[Row, ...]:
        """All rows of the job itself: outputs first."""
        rows = [self.own(Kind.OUTPUT, each) for each in self.job.outputs]
        rows += [self.own(Kind.INPUT, each) for each in self.job.inputs]
        return tuple(row for row in rows if row)

    def counted(self) -> tuple[Row | None, ...]:
        """The rows that keep the job's status of the chunk; None for those that do not exist."""
        kind = self.job.counted
        return tuple([self.own(kind, name) for name in self.job.outputs or self.job.inputs])

    def made(self, dataset: str) -> tuple[Row, ...]:
        """The OUTPUT rows of the chunk, of any job."""
        return tuple(row for row in self.rows if row.kind is Kind.OUTPUT and row.dataset == dataset)

    @property
    def speaker(self) -> Row | None:
        """The row that represents the chunk; None when it has none."""
        return worst_row([row for row in self.counted() if row])

    @property
    def status(self) -> str:
        """The status of the chunk; absent when there is no row."""
        row = self.speaker
        return ABSENT if row is None else row.status

    @property
    def state(self) -> str:
        """The same, as a state of the table."""
        return state_of(self.status, self.job.counted)

    @property
    def alive(self) -> bool:
        """Whether a worker is processing it now."""
        return any(row.alive for row in self.owned())

    def due_in(self, row: Row | None) -> float | None:
        """Seconds until a row that is DONE counts as absent; None: never."""
        recurs = self.job.recur > 0 and row is not None and (row.status, row.kind) == (DONE, Kind.INPUT)
        if not recurs or row is None:
            return None
        if self.at == END_OF_TIME:
            return 0.0
        # A row written by this decision has no time yet.
        age = 0.0 if row.since is None or self.at is None else (self.at - row.since).total_seconds()
        return max(self.job.recur - age, 0.0)

    def is_due(self, row: Row | None) -> bool:
        """Whether a row is DONE but counts as absent."""
        return self.due_in(row) == 0

    def ready_outputs(self) -> frozenset[str]:
        """Its outputs that are READY."""
        rows = (self.own(Kind.OUTPUT, name) for name in self.job.outputs)
        return frozenset(row.dataset for row in rows if row and row.status == READY)


def worst_row(rows: Sequence[Row]) -> Row | None:
    """The row that represents several: the one with the highest counts."""
    if len(rows) == 1:
        return rows[0]
    return max(rows, key=lambda row: (row.crashes, row.failures, row.attempt), default=None)


# ---------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row is added (there was none before), changed, or removed (there is none after)."""

    before: Row | None
    after: Row | None
    #: True: it marks the start of a claim.
    starts: bool = False


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """An entry of the history."""

    event: str
    #: The worker or operator.
    who: str
    token: int
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """The position of a chunk in the list that find_next reads."""

    #: 0: first.
    place: int
    #: The inputs that are not READY, as bits by position.
    missing: int
    #: Seconds until it may be claimed.
    delay: float
    #: For a chunk that is DONE and recurs: how many seconds ago it was done.
    age: float | None = None


@dataclass(frozen=True, slots=True)
class ChunkOutcome(Generic[T_co]):
    """The result of a command. A negative token is a placeholder for a new one; equal numbers get the same token."""

    #: The value returned to the caller.
    result: T_co
    #: The chunk after the changes.
    snapshot: ChunkSnapshot
    rows: tuple[RowChange, ...] = ()
    records: tuple[ChunkRecord, ...] = ()
    #: Datasets whose chunk is READY now: jobs that read it may become claimable.
    ready: frozenset[str] = frozenset()
    #: Datasets whose chunk is no longer READY, or gone: chunks that read it are re-evaluated.
    unready: frozenset[str] = frozenset()
    #: Its position in the list of find_next; None: it is not in it.
    candidate: Candidate | None = None
    #: What the claim reads, or read, of mapped inputs; None: as before.
    reads: tuple[Reading, ...] | None = None
    #: False: nothing has to be written.
    changed: bool = False
    #: The chunk's incident that opens or closes.
    incidents: tuple[IncidentChange, ...] = ()
    #: A change to something that another principal owns; it is logged.
    overrides: tuple[Override, ...] = ()
    #: Changes of its fan-out parts.
    parts: tuple[PartChange, ...] = ()

    def changes(self, dataid: str) -> Sequence[Change]:
        """The changes, for display; a preview may show rows that do not change."""
        job = self.snapshot.job.name
        return [
            *(row_change(job, dataid, each.before, each.after) for each in self.rows),
            *(row_change(job, each.key[1], part_row(each.before), part_row(each.after)) for each in self.parts),
        ]  # fmt: skip


def row_change(job: str, dataid: str, before: Row | None, after: Row | None) -> Change:
    """The change of one row, for display."""
    row = before or after
    if row is None:
        raise ValueError("there is no row")
    was, becomes = (ABSENT if each is None else each.status for each in (before, after))
    return Change(job, row.dataset, dataid, row.kind, was, becomes)

"""What a decision about the queue is made on, and what comes of it. Stores load the one and apply the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from headgate.core.access.owners import LOCAL, Actor, Override
from headgate.core.history import QUEUE_NOUNS
from headgate.core.queue.model import Batch, Folder, IngestJob, Item, NewJob
from headgate.core.queue.rules import Look, QueueFacts, QueueRules

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot(QueueFacts):
    """One batch or ingest job, held still (or guarded by its version) until the changes are applied."""

    rules: QueueRules
    #: The time, and the same as an item keeps it.
    now: datetime
    stamp: datetime
    #: The caller that asks for a change.
    actor: Actor = field(default_factory=Actor)
    #: Whether a living consumer has taken it.
    taken: bool = False
    #: The consumer that took it and died; None: none did.
    dead: str | None = None
    #: Why the caller lost it although its record looks as if it had it; empty: the record says it all.
    lost: str = ""
    #: By how much every change of state raises the token of an item: 1 where tokens are versions.
    token_step: int = 0
    #: True: an earlier try of the same command was cut off, and may have happened.
    again: bool = False


# ---------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class AddBatch:
    """A new batch."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class AddJobs:
    """New jobs of a batch, behind those that it has, all in one state for one reason; each is recorded alike."""

    batch: Batch
    jobs: Sequence[NewJob]
    #: Where their working folders are.
    work_folder: str
    state: str
    message: str
    #: What the history keeps of each; None: nothing.
    entry: QueueRecord | None


@dataclass(frozen=True, slots=True)
class TakeItem:
    """A consumer takes an item; its lease begins now."""

    before: Item
    after: Item


@dataclass(frozen=True, slots=True)
class ChangeItem:
    """An item enters another state, or the same one again, with everything that it keeps beside."""

    before: Item
    after: Item
    #: Whether nobody has it from now on; False: its consumer keeps it.
    frees: bool
    #: Whether a job stays in the queue.
    queued: bool = True
    #: Whether all locks of its object go, also those that others have.
    forces: bool = False


@dataclass(frozen=True, slots=True)
class EditItem:
    """An item keeps its state, and gets other contents."""

    before: Item
    after: Item
    #: Whether its consumer does it, which must still have it.
    by_owner: bool


@dataclass(frozen=True, slots=True)
class FreeItem:
    """Nobody has an item whose consumer died. Nothing else changes."""

    item: Item


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """An item is removed, a batch with its jobs."""

    item: Item
    #: The state of what is being removed, where that takes several steps.
    state: str


@dataclass(frozen=True, slots=True)
class MoveReference:
    """The batch keeps its reference to a job in another folder, or no longer (None)."""

    job: IngestJob
    before: Folder
    after: Folder | None


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """An entry of the history: of a batch, an ingest job or a hold."""

    event: str
    who: str
    before: str
    after: str
    reason: str = ""
    #: The batch; and the job, if it is about one. Both are empty for a hold.
    batch: str = ""
    job: str = ""
    #: Of a hold.
    profile: str = ""
    token: int = 0
    #: Seconds that the item was in the state before.
    spent: float | None = None
    #: When, if not now: it happened in a store that the queue was copied from.
    at: datetime | None = None
    #: The principal that did it.
    principal: str = LOCAL

    @property
    def noun(self) -> str:
        """What it is about."""
        return noun_of(self.batch, self.job)


def noun_of(batch: str, job: str) -> str:
    """The noun of an entry of the history about these."""
    of_batch, of_job, of_hold = QUEUE_NOUNS
    return of_job if job else of_batch if batch else of_hold


Change = (
    AddBatch
    | AddJobs
    | TakeItem
    | ChangeItem
    | EditItem
    | FreeItem
    | RemoveItem
    | MoveReference
    | QueueRecord
    | Override
)


@dataclass(frozen=True, slots=True)
class QueueOutcome(Generic[T_co]):
    """What a command comes to."""

    result: T_co
    #: What is to be written, in an order in which it can be.
    changes: tuple[Change, ...] = ()
    #: What must still be as it was seen when the changes are applied.
    guards: Look = Look.NOTHING

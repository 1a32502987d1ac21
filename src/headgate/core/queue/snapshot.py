"""The snapshot for a decision about the queue, and the decision's result. Stores load the snapshot and apply the
result.
"""

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
    """One batch or ingest job, locked (or guarded by its version) until the changes are applied."""

    rules: QueueRules
    #: The time, also in the form in which items store it.
    now: datetime
    stamp: datetime
    #: The caller that requests a change.
    actor: Actor = field(default_factory=Actor)
    #: Whether a living consumer has taken it.
    taken: bool = False
    #: The consumer that took it and died; None: none did.
    dead: str | None = None
    #: Why the caller lost it although its record still names the caller; empty: it did not.
    lost: str = ""
    #: How much each state change raises the token of an item: 1 where tokens are versions.
    token_step: int = 0
    #: True: an earlier attempt at the same command was interrupted, and may have taken effect.
    again: bool = False


# ---------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class AddBatch:
    """A new batch."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class AddJobs:
    """New jobs of a batch, appended to those that it has, all in one state for one reason; each is recorded alike."""

    batch: Batch
    jobs: Sequence[NewJob]
    #: The folder that contains their working folders.
    work_folder: str
    state: str
    message: str
    #: The history's text for each; None: nothing.
    entry: QueueRecord | None


@dataclass(frozen=True, slots=True)
class TakeItem:
    """A consumer takes an item; its lease begins now."""

    before: Item
    after: Item


@dataclass(frozen=True, slots=True)
class ChangeItem:
    """An item enters another state, or the same one again, with all values that it stores."""

    before: Item
    after: Item
    #: Whether it is free from now on; False: its consumer keeps it.
    frees: bool
    #: Whether a job stays in the queue.
    queued: bool = True
    #: Whether all locks of its object are removed, including those of others.
    forces: bool = False


@dataclass(frozen=True, slots=True)
class EditItem:
    """An item keeps its state, and gets other values."""

    before: Item
    after: Item
    #: Whether its consumer, which must still hold it, removes it.
    by_owner: bool


@dataclass(frozen=True, slots=True)
class FreeItem:
    """An item whose consumer died becomes free. Nothing else changes."""

    item: Item


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """An item is removed, a batch with its jobs."""

    item: Item
    #: The state of what is being removed, if that takes several steps.
    state: str


@dataclass(frozen=True, slots=True)
class MoveReference:
    """The batch moves its reference to a job to another folder, or removes it (None)."""

    job: IngestJob
    before: Folder
    after: Folder | None


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A history entry about a batch, an ingest job or a hold."""

    event: str
    who: str
    before: str
    after: str
    reason: str = ""
    #: The batch; and the job, if it concerns one. Both are empty for a hold.
    batch: str = ""
    job: str = ""
    #: Of a hold.
    profile: str = ""
    token: int = 0
    #: Seconds that the item was in the state before.
    spent: float | None = None
    #: When it happened, if not now: in a store that the queue was copied from.
    at: datetime | None = None
    #: The principal that did it.
    principal: str = LOCAL

    @property
    def noun(self) -> str:
        """Its noun in the history."""
        return noun_of(self.batch, self.job)


def noun_of(batch: str, job: str) -> str:
    """The noun of a history entry about these."""
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
    """The result of a command."""

    result: T_co
    #: The changes to write, in an order in which they can be applied.
    changes: tuple[Change, ...] = ()
    #: Values that must be unchanged when the changes are applied.
    guards: Look = Look.NOTHING

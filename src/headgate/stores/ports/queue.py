"""The port of the queue: what a store of it must do. Every method may raise StoreUnavailable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headgate.core.daemons import Daemon
from headgate.core.faults import Fault
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger.model import Asker
from headgate.core.queue.model import Batch, Changes, Folder, Hold, IngestJob, Item, NewJob, Place, Submission, Taken
from headgate.core.tables.machine import By, Machine
from headgate.stores.ports.news import Listening


class QueueStore(Protocol):
    """Batches and ingest jobs. Every transition is one transaction: status, queue entry, batch entry and history."""

    #: The name of this store in error messages.
    name: str
    #: The active tables: those of the spelling in which the store is kept.
    batch_table: Machine
    job_table: Machine

    def submit(self, submission: Submission, who: str) -> Batch:
        """(new): pending. A request id that was submitted already returns the same batch."""

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        """Take the oldest free batch in that state, with a new token. None: there is none.

        A batch whose owner died is free. None while the whole queue is paused. Its `hold` is the stored hold of its
        collection. `after`: only those after that id.
        """

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        """Take the first free job in that state, by priority and id, with a new token.

        `after`: only those after that position, so that a round can look at all of them. Otherwise as take_batch.
        """

    def renew(self, taken: Taken, lease: float) -> float:
        """If taken with that token and alive: renew the lease. Returns its length in seconds. Otherwise ItemLost."""

    def give_back(self, taken: Taken, message: str) -> None:
        """If taken with that token: it becomes free, in the same state; a non-empty message is kept. Otherwise
        ItemLost.
        """

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        """For a pending batch that is taken: add these jobs from `position` on, pending. Returns the number of its jobs
        after that.

        Jobs that were created already (by an interrupted attempt, or an owner that died) are not created again.
        BadValue when `position` is beyond its last job. ItemLost when it is not taken with that token.
        """

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        """If taken in this state with that token: fire the event as the table's row says, with the changes, and free
        the item.

        A repeat changes nothing and returns the same answer. TransitionRefused without a row for an owner, ItemLost
        when it is not taken with that token.
        """

    def change(self, taken: Taken, changes: Changes) -> Item:
        """If taken with that token: change it, and keep it taken. Otherwise ItemLost."""

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        """An operator's or a daemon's event, as the table's row says; returns the item after it, or before its removal.

        TransitionRefused without a row for these, QueueRefused by its condition or while it is taken, UnknownName.
        """

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        """Set the priority of a job that is still in the queue, taken or not. QueueRefused when it has left it."""

    def set_hold(self, hold: Hold) -> Hold:
        """Put the collection, or the whole queue, on hold; if it is held already, the first reason stays. Returns the
        hold.
        """

    def clear_hold(self, profile: str, who: str) -> bool:
        """Clear the hold; no items are released by this. False: there was none."""

    def holds(self) -> Sequence[Hold]:
        """All holds, by profile."""

    def batch(self, batch_id: str) -> Batch:
        """A batch. UnknownName when there is none."""

    def job(self, job_id: str) -> IngestJob:
        """An ingest job. UnknownName when there is none."""

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        """Batches, by id. Writes nothing; items that are incomplete or removed meanwhile are left out."""

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        """Ingest jobs, by id. Writes nothing; items that are incomplete or removed meanwhile are left out."""

    def job_ids(self, batch_id: str, folder: Folder) -> Sequence[str]:
        """The jobs in one of a batch's folders, by id."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Number of items in each state that has any: {"batch": {state: n}, "ingest job": {state: n}}."""

    def reportable(self, limit: int) -> Sequence[str]:
        """Batches that are processing and have no job in processing: for `report`."""

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        """Batches, or jobs, for which `clean` has a row, and that have been in their state for that long."""

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        """Sleep until there may be an item to take in one of these states, or for that long."""

    def listen(self, states: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when there may be an item to take in one of these states."""

    def listen_to(self, item_id: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when the item may have changed its state."""

    def expire(self, limit: int) -> int:
        """Taken with an expired lease: free it. Returns how many were freed; 0 where sessions do this."""

    def first_free(self, machine: Machine, state: str) -> Item | None:
        """The item in that state that would be taken next, even if the queue is paused. None: there is none."""

    def sign_on(self, daemon: Daemon) -> None:
        """Record that the daemon is alive and works on its steps, and renew its lease."""

    def sign_off(self, daemon_id: str) -> None:
        """The daemon has ended. A repeat changes nothing."""

    def daemons(self) -> Sequence[Daemon]:
        """The daemons with a valid lease, by id."""

    def object_blockers(self, job_id: str) -> Sequence[str]:
        """Locks of its object that prevent a job from being taken, each with its holder: only beside Merritt.
        UnknownName.
        """

    def foreign(self) -> Mapping[str, Mapping[str, int]]:
        """Other programs' entries beside the queue: their number by location and status. Empty unless the queue is
        shared with Merritt.
        """

    def faults(self) -> Sequence[Fault]:
        """Damage, each with the effect of a repair. Writes nothing."""

    def repair(self, fault: Fault, who: str) -> bool:
        """Repair it as described, if it is still there. False: it is no longer there, or cannot be repaired."""

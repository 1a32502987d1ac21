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
    """Batches and ingest jobs. Every move is one transaction: status, queue entry, batch entry and history."""

    #: What errors call this store.
    name: str
    #: The tables in force: those of the spelling that the store is kept in.
    batch_table: Machine
    job_table: Machine

    def submit(self, submission: Submission, who: str) -> Batch:
        """(new): pending. A request id that was submitted already gives the same batch again."""

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        """The oldest batch in that state that nobody has: taken, with a new token. None: there is none.

        A batch whose owner died is one that nobody has. None while the whole queue is paused.
        Its `hold` names the hold of its collection that is kept in the store.
        `after`: only those behind that id.
        """

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        """The first job in that state, by priority and id, that nobody has: taken, with a new token.

        `after`: only those behind that place, so that a round can look at every one. Otherwise as take_batch.
        """

    def renew(self, taken: Taken, lease: float) -> float:
        """Taken by that token, and alive: the lease is renewed. Returns its length in seconds. Otherwise ItemLost."""

    def give_back(self, taken: Taken, message: str) -> None:
        """Taken by that token: nobody's, in the same state; a message that is not empty is kept. Otherwise ItemLost."""

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        """A pending batch, taken: these are its jobs from `position` on, pending. Returns how many it has then.

        Those that were made already (a try that was cut off, an owner that died) are not made again.
        BadValue when `position` is beyond what it has. ItemLost when it is not taken by that token.
        """

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        """In the state that it was taken in, by that token: as the table's row says, with the changes, nobody's.

        The same again: nothing more, and the same answer. TransitionRefused without a row for an owner, ItemLost
        when it is not taken by that token.
        """

    def change(self, taken: Taken, changes: Changes) -> Item:
        """Taken by that token: changed, and still taken by the same token. Otherwise ItemLost."""

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        """A person's or a daemon's event: as the table's row says; gives the item as it then is, or last was.

        TransitionRefused without a row for them, QueueRefused by its condition or while it is taken, UnknownName.
        """

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        """Any job that is still in the queue: has that priority, taken or not. QueueRefused when it has left it."""

    def set_hold(self, hold: Hold) -> Hold:
        """The collection, or the whole queue, is held; held already: the first reason stays. Returns the hold."""

    def clear_hold(self, profile: str, who: str) -> bool:
        """The hold is gone; nothing is released by itself. False: there was none."""

    def holds(self) -> Sequence[Hold]:
        """All holds, by profile."""

    def batch(self, batch_id: str) -> Batch:
        """A batch. UnknownName when there is none."""

    def job(self, job_id: str) -> IngestJob:
        """An ingest job. UnknownName when there is none."""

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        """Batches, by id. Writes nothing; what is half-written or gone meanwhile is left out."""

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        """Ingest jobs, by id. Writes nothing; what is half-written or gone meanwhile is left out."""

    def job_ids(self, batch_id: str, folder: Folder) -> Sequence[str]:
        """The jobs that a batch has in one of its folders, by id."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many are in each state that has some: {"batch": {state: n}, "ingest job": {state: n}}."""

    def reportable(self, limit: int) -> Sequence[str]:
        """Batches that are processing and have no job in processing: for `report`."""

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        """Batches, or jobs, that `clean` has a row for, and that have been in their state for that long."""

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        """Sleep until there may be something to take in one of these states, or for that long."""

    def listen(self, states: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when there may be something to take in one of these states."""

    def listen_to(self, item_id: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when the item may have come into another state."""

    def expire(self, limit: int) -> int:
        """Taken, but the lease has expired: free. Returns how many; 0 where sessions do it."""

    def first_free(self, machine: Machine, state: str) -> Item | None:
        """The item in that state that would be taken next, whether or not the queue is paused. None: there is none."""

    def sign_on(self, daemon: Daemon) -> None:
        """Record that the daemon is alive and works on its steps: its lease is renewed."""

    def sign_off(self, daemon_id: str) -> None:
        """The daemon has ended. Unknown already: nothing changes."""

    def daemons(self) -> Sequence[Daemon]:
        """The daemons whose lease has not run out, by id."""

    def object_blockers(self, job_id: str) -> Sequence[str]:
        """Locks of its object that keep a job from being taken, each with its holder: beside Merritt. UnknownName."""

    def foreign(self) -> Mapping[str, Mapping[str, int]]:
        """What other programs keep beside the queue: how many, by place and status. Nothing, but beside Merritt."""

    def faults(self) -> Sequence[Fault]:
        """What should not be, each with what a repair would do. Writes nothing."""

    def repair(self, fault: Fault, who: str) -> bool:
        """Repair it as it says, if it is still so. False: it is no longer so, or cannot be repaired."""

"""A queue that was moved here from a store that had given greater tokens: all tokens are greater by a fixed number.

A token is the version of a node, which begins at 0. So that none is smaller than one that was given before the move,
the root says from where on they count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.core.errors import ItemLost
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger import Asker
from headgate.core.machine import By
from headgate.core.queue import Batch, Changes, IngestJob, Item, NewJob, Place, Submission, Taken
from headgate.stores.queue_port import QueueStore

#: No node has it, and to ZooKeeper it does not mean "any", as -1 does.
NO_VERSION = -7
T = TypeVar("T", Batch, IngestJob, Item)


def with_token_base(queue: QueueStore, base: int) -> QueueStore:
    """The queue, its tokens counted from there on."""
    return RaisedTokens(queue, base) if base else queue


class RaisedTokens:
    """Adds the number to what goes out, and takes it off what comes in. All else is the queue's own."""

    if TYPE_CHECKING:
        name: str
        batch_table: Any
        job_table: Any
        set_hold: Any
        clear_hold: Any
        holds: Any
        job_ids: Any
        counts: Any
        reportable: Any
        cleanable: Any
        await_work: Any
        listen: Any
        expire: Any
        faults: Any
        repair: Any

    def __init__(self, queue: QueueStore, base: int) -> None:
        self._queue = queue
        self._base = base

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def submit(self, submission: Submission, who: str) -> Batch:
        return self._out(self._queue.submit(submission, who))

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        found = self._queue.take_batch(state, asker, after)
        return None if found is None else self._out(found)

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        found = self._queue.take_job(state, asker, after)
        return None if found is None else self._out(found)

    def renew(self, taken: Taken, lease: float) -> float:
        with self._lost(taken):
            return self._queue.renew(self._own(taken), lease)

    def give_back(self, taken: Taken, message: str) -> None:
        with self._lost(taken):
            self._queue.give_back(self._own(taken), message)

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        with self._lost(taken):
            return self._queue.create_jobs(self._own(taken), position, jobs, work_folder)

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        with self._lost(taken):
            return self._out(self._queue.fire(self._own(taken), event, message, changes))

    def change(self, taken: Taken, changes: Changes) -> Item:
        with self._lost(taken):
            return self._out(self._queue.change(self._own(taken), changes))

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        return self._out(self._queue.act(item_id, event, by, reason, who))

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        return self._out(self._queue.set_priority(job_id, priority, reason, who))

    def batch(self, batch_id: str) -> Batch:
        return self._out(self._queue.batch(batch_id))

    def job(self, job_id: str) -> IngestJob:
        return self._out(self._queue.job(job_id))

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        return [self._out(each) for each in self._queue.batches(which)]

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        return [self._out(each) for each in self._queue.jobs(which)]

    def _out(self, item: T) -> T:
        return replace(item, token=item.token + self._base)

    def _own(self, taken: Taken) -> Taken:
        """One from before the move is no version that a node has, and so is refused."""
        return replace(taken, token=taken.token - self._base if taken.token > self._base else NO_VERSION)

    @contextmanager
    def _lost(self, taken: Taken) -> Iterator[None]:
        try:
            yield
        except ItemLost as error:
            raise ItemLost(taken.id, taken.token, error.why) from error

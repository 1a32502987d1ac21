"""Loads the snapshot for a decision about the queue: an item with the versions that guard its change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headgate.calls.actor import actor
from headgate.core.queue.model import Batch, IngestJob
from headgate.core.queue.rules import Look
from headgate.core.queue.snapshot import QueueSnapshot
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.records import ItemNodes
from headgate.stores.zookeeper.queue.removing import Removing
from headgate.stores.zookeeper.queue.tree import QueueTree

#: A placeholder, if no decision needs the time.
_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LoadedItem:
    """A snapshot, and the records that it was built from."""

    snapshot: QueueSnapshot
    #: The item; None: it does not exist.
    record: ItemNodes | None
    #: Its batch, if a condition looked at it.
    batch: ItemNodes | None = None

    @property
    def found(self) -> ItemNodes:
        """The item that a unit of work has found."""
        assert self.record is not None  # noqa: S101 - otherwise the unit raises
        return self.record


@dataclass(eq=False)
class Snapshots:
    """Loads items of one queue."""

    _tree: QueueTree
    _questions: ItemQuestions
    _commits: Commits
    _removing: Removing
    _max_crashes: int

    def load(self, item_id: str, event: str = "") -> LoadedItem:
        """The current item, with the facts that the rows of an event look at."""
        return self.of(self._questions.find(item_id), event)

    def of(self, record: ItemNodes | None, event: str = "", *, remembered: bool = False, **more: Any) -> LoadedItem:
        """The same from data that was read already; `remembered`: it may be older."""
        if record is None:
            return LoadedItem(self.plain(record, **more), record)
        item, batch = record.item, None
        looks = self._tree.rules.looks(item.id, item.state, event)
        if looks:
            if Look.HOLD in looks:
                more["hold"] = self._questions.hold(item.profile)
            if Look.BATCH in looks and isinstance(item, IngestJob):
                batch = self._questions.find(item.batch)
                more["batch_state"] = self._tree.rules.state_for_jobs(batch.batch) if batch else ""
            if Look.TAKEN in looks:
                more["taken_job"] = self._removing.taken_job(item.id)
            if looks & (Look.COUNTS | Look.RUNNING) and remembered and isinstance(item, Batch):
                # An operator may have deleted a job since it was taken.
                fresh = self._questions.get(item.id).batch
                record = replace(record, item=replace(item, jobs=fresh.jobs, made=fresh.made))
        now = self._commits.now()
        # The time of an item never goes back, even if clocks do.
        stamp = max(self._tree.read_time(self._tree.time(now)), item.since)
        return LoadedItem(self.plain(record, now=now, stamp=stamp, **more), record, batch)

    def plain(self, record: ItemNodes | None, **more: Any) -> QueueSnapshot:
        """An item by itself."""
        found: dict[str, Any] = {"now": _UNKNOWN, "stamp": _UNKNOWN, **more}
        return QueueSnapshot(
            rules=self._tree.rules, item=record.item if record else None, actor=actor(),
            taken=record is not None and record.lock is not None,
            dead=record.died[0] if record and record.died else None,
            token_step=1, max_crashes=self._max_crashes, **found,
        )  # fmt: skip

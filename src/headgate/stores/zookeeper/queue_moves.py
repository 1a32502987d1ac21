"""What a move changes: the parts of its one multi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from headgate.calls.actor import actor
from headgate.core.machine import Also, Transition
from headgate.core.queue import (
    Batch,
    Changes,
    Folder,
    IngestJob,
    Item,
    Report,
    changed_by,
    folder_of,
    moved_by,
    work_states,
)
from headgate.stores.zookeeper.multi import Op
from headgate.stores.zookeeper.queue_commits import Commits
from headgate.stores.zookeeper.queue_history import Told
from headgate.stores.zookeeper.queue_records import Record, crash_note
from headgate.stores.zookeeper.queue_reports import Reports
from headgate.stores.zookeeper.queue_tree import QueueTree, encode

#: Rows for which a batch must have no job in processing.
EMPTY_PROCESSING = "none of its jobs is in processing"


class Moves:
    """Makes the multis of one queue."""

    def __init__(self, tree: QueueTree, commits: Commits, reports: Reports) -> None:
        self._tree = tree
        self._reports = reports
        self._commits = commits
        self._work_states = frozenset(work_states(tree.job_table))

    def after(self, record: Record, row: Transition, message: str, changes: Changes) -> Item:
        """The item as a row leaves it. Its time never goes back, whatever the clocks say."""
        at = max(self._time(self._commits.now()), record.item.since)
        moved = changed_by(changes, moved_by(row, record.item, message, at), at)
        return replace(moved, token=record.version + 1)

    def move(self, record: Record, new: Item, row: Transition) -> list[Op]:
        """Everything that a row says, for an item that stays."""
        ops = [Op("set", self._tree.status(new.id), self.status(new), record.version), *self.free(record, new)]
        if isinstance(new, Batch):
            return [*ops, *self._batch_parts(record, new, row)]
        entry = Also.DROP_ENTRY not in row.also
        return [*ops, *self._job_parts(record, new), *self._places(record, new, entry=entry)]

    def change(self, record: Record, new: Item) -> list[Op]:
        """What an owner writes down, while it keeps the item by the same token."""
        guards = [Op("check", self._tree.status(new.id), version=record.version), Op("check", self._tree.lock(new.id))]
        if isinstance(new, Batch):
            return [*guards, *self._report(record, new.report)]
        return [*guards, *self._job_parts(record, new), *self._places(record, new, entry=True)]

    def reorder(self, record: Record, new: IngestJob) -> list[Op]:
        """Another priority, whoever has the job."""
        guard = Op("check", self._tree.status(new.id), version=record.version)
        return [guard, *self._job_parts(record, new), *self._places(record, new, entry=True)]

    def free(self, record: Record, new: Item) -> list[Op]:
        """Nobody has it any more; what is known of workers that died on it stays."""
        item_id, note = record.item.id, crash_note(new)
        ops = [] if record.lock is None and record.remains is None else [Op("remove", self._tree.lock(item_id))]
        if record.remains is not None:  # Its owner may renew it at this moment.
            ops.append(Op("remove", self._tree.owner(item_id), version=record.remains))
        elif record.owned:
            ops.append(Op("remove", self._tree.owner(item_id)))
        return [*ops, *self.note(record, note)]

    def note(self, record: Record, note: Mapping[str, Any]) -> list[Op]:
        """Who took it last, or how many died on it; nothing: the node goes."""
        path = self._tree.taking(record.item.id)
        if not note:
            return [Op("remove", path)] if record.noted else []
        return [Op("set" if record.noted else "make", path, encode(note))]

    def told(self, record: Record, row: Transition, who: str, reason: str) -> Told:
        """What the history keeps of a row."""
        item = record.item
        batch, job = (item.id, "") if isinstance(item, Batch) else (item.batch, item.id)
        spent = max((self._commits.now() - item.since).total_seconds(), 0.0)
        return Told(
            row.event,
            who,
            row.source,
            row.target,
            actor().reason(reason),
            batch,
            job,
            token=record.version,
            spent=spent,
        )

    def not_held(self, item: Item) -> list[Op]:
        """Nothing but that the collection is not held: a node that can be made is not there."""
        path = self._tree.hold(item.profile)
        return [Op("make", path), Op("remove", path)]

    def drop_job(self, record: Record, children: Mapping[str, list[str]]) -> list[Op]:
        """No trace of a job. `children`: the nodes below each of its nodes."""
        job, tree = record.job, self._tree
        path = tree.item(job.id)
        ops = [Op("remove", tree.status(job.id), version=record.version)]
        ops += [Op("remove", each) for each in children[path] if each not in (path, ops[0].path)]
        ops += [Op("remove", path)]
        ops += [Op("remove", tree.owner(job.id))] if record.owned or record.remains is not None else []
        ops += self.note(record, {})
        if job.state in tree.entry_states:
            ops.append(Op("remove", tree.entry(job.state, job.priority, job.id)))
        return [*ops, Op("remove", f"{tree.folder(job.batch, folder_of(job.state))}/{job.id}")]

    # ------------------------------------------------------------------ parts

    def _time(self, at: datetime) -> datetime:
        """As a node will say it."""
        return self._tree.read_time(self._tree.time(at))

    def status(self, new: Item) -> bytes:
        """What its status will hold."""
        if isinstance(new, Batch):
            return self._tree.batch_status(new.state, new.since, new.message)
        # A cleaned job is one that completed and left the queue.
        state = "completed" if new.state == "cleaned" else new.state
        return self._tree.job_status(state, new.last_successful, new.since, new.retry_count, new.message)

    def _batch_parts(self, record: Record, new: Batch, row: Transition) -> list[Op]:
        ops = self._report(record, new.report)
        if row.event == "start":
            ops += [Op("make", path, data) for path, data in self.missing_folders(record)]
        if row.needs == EMPTY_PROCESSING:
            ops += self._no_job_running(record)
        return ops

    def missing_folders(self, record: Record) -> list[tuple[str, bytes | None]]:
        """The folders of a batch's jobs that are not there yet."""
        root = f"{self._tree.item(record.item.id)}/"
        nodes = self._tree.batch_nodes(record.item.id)
        return [(path, data) for path, data in nodes if not record.has(path.removeprefix(root).removeprefix("states/"))]

    def _no_job_running(self, record: Record) -> list[Op]:
        """A folder that can be removed is empty: removed and made again at once, it tests just that."""
        if not record.has(Folder.PROCESSING.value):
            return []
        path = self._tree.folder(record.item.id, Folder.PROCESSING)
        return [Op("remove", path), Op("make", path, self._tree.empty)]

    def _report(self, record: Record, report: Report | None) -> list[Op]:
        if report is None or report == record.batch.report or report.at is None:
            return []
        return [self._put(record, "status-report", encode(self._reports.content(report)))]

    def _job_parts(self, record: Record, new: IngestJob) -> list[Op]:
        old, ops = record.job, []
        if new.priority != old.priority:
            ops.append(self._put(record, "priority", b"%d" % new.priority))
        if new.space_needed != old.space_needed:
            ops.append(self._put(record, "space_needed", b"%d" % new.space_needed))
        if new.identifiers != old.identifiers:
            ops.append(self._put(record, "identifiers", encode(self._tree.identifiers(new.identifiers) or {})))
        if new.configuration != old.configuration:
            ops.append(self._put(record, "configuration", encode(self._tree.configuration(new.configuration))))
        return ops

    def _put(self, record: Record, node: str, data: bytes) -> Op:
        path = f"{self._tree.item(record.item.id)}/{node}"
        return Op("set", path, data, record.versions[node]) if record.has(node) else Op("make", path, data)

    def _places(self, record: Record, new: IngestJob, *, entry: bool) -> list[Op]:
        """The job's entry in the queue, and its batch's reference to it."""
        old, tree, ops = record.job, self._tree, []
        before = tree.entry(old.state, old.priority, old.id)
        after = tree.entry(new.state, new.priority, new.id) if entry else ""
        if before != after:
            ops.append(Op("remove", before))
            if entry:
                ops.append(Op("make", after, tree.empty))
        if entry and before != after and new.state in self._work_states:
            ops.append(self._commits.arrival(new.state, new.priority, new.id))
        here, there = folder_of(old.state), folder_of(new.state)
        if here is not there:
            ops.append(Op("remove", f"{tree.folder(new.batch, here)}/{new.id}"))
            ops.append(Op("make", f"{tree.folder(new.batch, there)}/{new.id}", tree.empty))
        return ops

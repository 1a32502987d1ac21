"""Applies decisions about the queue: each kind of change is one or a few operations of one multi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headgate.calls.actor import log_override
from headgate.core.access.owners import Override
from headgate.core.queue.model import Batch, Folder, IngestJob, Item, Report
from headgate.core.queue.rules import MERRITT, Look
from headgate.core.queue.snapshot import (
    Change,
    ChangeItem,
    EditItem,
    FreeItem,
    MoveReference,
    QueueOutcome,
    QueueRecord,
    RemoveItem,
)
from headgate.stores.zookeeper.ensemble.asking import look
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions
from headgate.stores.zookeeper.guarded import ChangePlan
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.object_locks import ObjectLocks
from headgate.stores.zookeeper.queue.records import BESIDE, ItemNodes, crash_note, taking_note
from headgate.stores.zookeeper.queue.removing import Removing
from headgate.stores.zookeeper.queue.reports import StatusReports
from headgate.stores.zookeeper.queue.snapshots import LoadedItem
from headgate.stores.zookeeper.queue.tree import QueueTree, encode

T = TypeVar("T")


@dataclass(eq=False)
class ChangeOps:
    """Builds the multis of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree
    _commits: Commits
    _reports: StatusReports
    _removing: Removing
    objects: ObjectLocks

    def plan(
        self, loaded: LoadedItem, outcome: QueueOutcome[T], session: ZkSession | None = None, *, careful: bool = False
    ) -> ChangePlan[T]:
        """The multi of an outcome. `careful`: check whether the target folder of a job exists."""
        record, ops = loaded.record, list[Op]()
        if record is None:
            return ChangePlan([], outcome.result)
        for change in outcome.changes:
            if careful and isinstance(change, MoveReference):
                ops += self._missing_folder(change)
            ops += self._ops(record, change)
        told = [change for change in outcome.changes if isinstance(change, QueueRecord)]
        return ChangePlan([*ops, *self._guards(loaded, outcome.guards)], outcome.result, told, session=session)

    def nobody_has_it(self, loaded: LoadedItem) -> list[Op]:
        """A check that no other program has taken the item meanwhile: Merritt's programs lock it before they change its
        status.
        """
        record = loaded.record
        if self._tree.spelling != MERRITT or record is None or record.lock is not None or record.remains is not None:
            return []
        path = self._tree.lock(record.item.id)
        return [Op("make", path), Op("remove", path)]

    def _ops(self, record: ItemNodes, change: Change) -> list[Op]:
        match change:
            case ChangeItem():
                return self._change(record, change)
            case EditItem():
                return self._edit(record, change)
            case FreeItem():
                status = Op("check", self._tree.status(record.item.id), version=record.version)
                return [status, *self.free(record, record.item)]
            case RemoveItem():
                return self._removing.ops(record, change.state)
            case MoveReference():
                places = ((change.before, "remove"), (change.after, "make"))
                path = {kind: self._tree.folder(change.job.batch, folder) for folder, kind in places if folder}
                return [Op(kind, f"{folder}/{change.job.id}", self._tree.empty) for kind, folder in path.items()]
            case Override():
                log_override(change.what, change.owner)
        return []

    def _guards(self, loaded: LoadedItem, guards: Look) -> list[Op]:
        """A check that the facts of a condition still hold."""
        ops: list[Op] = []
        if not guards or loaded.record is None:
            return ops
        if Look.HOLD in guards:  # If a node can be created, it did not exist.
            path = self._tree.hold(loaded.record.item.profile)
            ops += [Op("make", path), Op("remove", path)]
        if Look.BATCH in guards and loaded.batch:
            ops.append(Op("check", self._tree.status(loaded.batch.item.id), version=loaded.batch.version))
        if Look.RUNNING in guards and loaded.record.has(Folder.PROCESSING.value):
            # If a folder can be removed, it is empty: removing and recreating it tests exactly that.
            path = self._tree.folder(loaded.record.item.id, Folder.PROCESSING)
            ops += [Op("remove", path), Op("make", path, self._tree.empty)]
        return ops

    # ------------------------------------------------------------------ kinds of changes

    def _change(self, record: ItemNodes, change: ChangeItem) -> list[Op]:
        new = change.after
        ops = [Op("set", self._tree.status(new.id), self._tree.status_of(new), record.version)]
        if change.forces:
            return [*ops, *self._forced(record, new)]
        ops += self.free(record, new) if change.frees else self.note(record, taking_note(new, record.locks))
        if isinstance(new, IngestJob):
            return [*ops, *self._job_parts(record, new), *self._entry(record, new, queued=change.queued)]
        ops += self._report(record, new.report)
        rules = self._tree.rules
        if change.before.state == rules.submit.target and new.state in rules.with_jobs:
            ops += [Op("make", path, data) for path, data in self.missing_folders(record)]
        return ops

    def _forced(self, record: ItemNodes, new: Item) -> list[Op]:
        """An operator takes a job from its consumer, with all locks of its object, even other programs'."""
        assert isinstance(new, IngestJob)  # noqa: S101 - only the jobs' table has such a row
        ops = self.free(replace(record, locks=()), new)
        return [*ops, *self.objects.force(record.item), *self._entry(record, new, queued=True)]

    def _edit(self, record: ItemNodes, change: EditItem) -> list[Op]:
        """A change by its consumer, which keeps its token, or by an operator, whether or not it is taken."""
        new = change.after
        ops = [Op("check", self._tree.status(new.id), version=record.version)]
        ops += [Op("check", self._tree.lock(new.id))] if change.by_owner else []
        if isinstance(new, Batch):
            return [*ops, *self._report(record, new.report)]
        return [*ops, *self._job_parts(record, new), *self._entry(record, new, queued=True)]

    def free(self, record: ItemNodes, new: Item, *, inherited: bool = False) -> list[Op]:
        """Free it; the record of workers that died on it stays.

        `inherited`: its object locks wait for its next owner, as they do when the owner died.
        """
        inherited = inherited or (record.died is not None and new.state == record.item.state)
        item_id, note = record.item.id, crash_note(new, record.locks if inherited else ())
        ops = [] if record.lock is None and record.remains is None else [Op("remove", self._tree.lock(item_id))]
        if record.remains is not None:  # Its owner may be renewing it at this moment.
            ops.append(Op("remove", self._tree.owner(item_id), version=record.remains))
        elif record.owned:
            ops.append(Op("remove", self._tree.owner(item_id)))
        return [*ops, *([] if inherited else self.objects.release(record.locks, item_id)), *self.note(record, note)]

    def note(self, record: ItemNodes, note: Mapping[str, Any]) -> list[Op]:
        """Who took it last, or how many workers died on it; nothing: the node is removed."""
        path = self._tree.taking(record.item.id)
        if not note:
            return [Op("remove", path)] if record.noted else []
        return [Op("set" if record.noted else "make", path, encode(note))]

    # ------------------------------------------------------------------ parts

    def missing_folders(self, record: ItemNodes) -> list[tuple[str, bytes | None]]:
        """The missing folders for a batch's jobs."""
        root = f"{self._tree.item(record.item.id)}/"
        nodes = self._tree.batch_nodes(record.item.id)
        return [(path, data) for path, data in nodes if not record.has(path.removeprefix(root).removeprefix("states/"))]

    def _missing_folder(self, change: MoveReference) -> list[Op]:
        """The target folder of a job in its batch: Merritt's library creates it only for the first job."""
        if change.after is None:
            return []
        path = self._tree.folder(change.job.batch, change.after)
        missing = self._sessions.base.ask(look(path))[0] is None
        return [Op("make", path, self._tree.empty)] if missing else []

    def _report(self, record: ItemNodes, report: Report | None) -> list[Op]:
        if report is None or report == record.batch.report or report.at is None:
            return []
        return [self._put(record, "status-report", encode(self._reports.content(report)))]

    def _job_parts(self, record: ItemNodes, new: IngestJob) -> list[Op]:
        old, ops = record.job, []
        if new.priority != old.priority:
            ops.append(self._put(record, "priority", b"%d" % new.priority))
        # Unknown is recorded too, once a worker has tried to determine it.
        if new.space_needed != old.space_needed or (new.last_successful and not record.has("space_needed")):
            ops.append(self._put(record, "space_needed", b"%d" % new.space_needed))
        if new.identifiers != old.identifiers:
            content = {**record.more_names, **self._tree.identifiers(new.identifiers)}
            ops.append(self._put(record, "identifiers", encode(content)))
        if new.configuration != old.configuration:
            spread = self._tree.spread(new.configuration, record.documents)
            changed = {name: each for name, each in spread.nodes.items() if each != record.documents.get(name)}
            ops += [self._put(record, name, encode(content)) for name, content in changed.items()]
            ops += [self._put(record, BESIDE, encode(spread.beside))] if spread.beside != record.own else []
        return ops

    def _put(self, record: ItemNodes, node: str, data: bytes) -> Op:
        item_id = record.item.id
        path = self._tree.beside(item_id) if node == BESIDE else f"{self._tree.item(item_id)}/{node}"
        return Op("set", path, data, record.versions[node]) if record.has(node) else Op("make", path, data)

    def _entry(self, record: ItemNodes, new: IngestJob, *, queued: bool) -> list[Op]:
        """The job's entry in the queue, and the arrival that wakes consumers."""
        old, tree = record.job, self._tree
        before = tree.entry(old.state, old.priority, old.id)
        after = tree.entry(new.state, new.priority, new.id) if queued else ""
        if before == after:
            return []
        ops = [Op("remove", before), *([Op("make", after, tree.empty)] if queued else [])]
        if queued and tree.rules.may_be_taken(tree.rules.job, new.state):
            ops.append(self._commits.arrival(new.state, new.priority, new.id))
        return ops

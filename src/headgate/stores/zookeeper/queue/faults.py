"""Damage to the queue's nodes: detection, explanation, and repair where that is safe.

The status of a job determines where it belongs; its entry in the queue and its batch's reference follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.calls.actor import actor
from headgate.core.faults import Fault
from headgate.core.queue.model import HIGHEST_NUMBER, REPAIR_EVENT, Folder, folder_of, is_batch
from headgate.core.queue.snapshot import QueueRecord
from headgate.stores.zookeeper.ensemble.asking import look, read
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.guarded import ChangePlan
from headgate.stores.zookeeper.locks.faults import MISSING_NODE, missing_nodes
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.object_locks import ObjectLocks
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.records import BESIDE, ItemNodes, answers_of, read_item
from headgate.stores.zookeeper.queue.removing import Removing
from headgate.stores.zookeeper.queue.tree import QueueTree, Unreadable, is_item, read_entry
from headgate.stores.zookeeper.tree import name_of, parent

#: Seconds for which an id without a status counts as being created, unless its creator's session is longer.
MAKING_SECONDS = 10.0
_ODD_ENTRY = re.compile("-?[0-9]+-(jid[0-9]{10})")


@dataclass(slots=True)
class Finding:
    """A fault, and the multi that repairs it."""

    fault: Fault
    ops: list[Op] = field(default_factory=list)
    #: A batch whose removal must be finished.
    drop: str = ""


@dataclass(slots=True)
class Places:
    """Where the queue and the batches list each job, by path."""

    entries: dict[str, list[str]] = field(default_factory=dict)
    refs: dict[str, list[str]] = field(default_factory=dict)
    #: Entries that no consumer can read, because their priority is not valid.
    odd: dict[str, list[str]] = field(default_factory=dict)
    #: Locks that unfinished jobs may need for their objects.
    objects: set[str] = field(default_factory=set)
    #: Locks and jobs whose consumer died, and which another program continues.
    left: set[tuple[str, str]] = field(default_factory=set)
    strays: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Faults:
    """Checks the queue of one store."""

    _sessions: ZkSessions
    _tree: QueueTree
    _questions: ItemQuestions
    _commits: Commits
    _removing: Removing
    _objects: ObjectLocks

    def find(self) -> list[Fault]:
        """All damage. Leave out what only looked damaged because it was being changed."""
        first = {(each.fault.kind, each.fault.item) for each in self._scan()}
        return [each.fault for each in self._scan() if (each.fault.kind, each.fault.item) in first] if first else []

    def repair(self, fault: Fault, who: str) -> bool:
        """Repair it, if it is still there."""

        def build() -> ChangePlan[Finding | None]:
            found = next((each for each in self._scan() if each.fault == fault and (each.ops or each.drop)), None)
            if found is None:
                return ChangePlan([], None)
            told = [self._told(fault, who)] if found.ops and fault.kind != MISSING_NODE else []
            return ChangePlan(found.ops, found, told)

        mended = self._commits.run(build)
        if mended and mended.drop:
            self._removing.drop_batch(mended.drop)
        return mended is not None

    def _told(self, fault: Fault, who: str) -> QueueRecord:
        item = fault.item if is_item(fault.item) else ""
        batch, job = (item, "") if is_batch(item) else ("", item)
        why = f"{fault.what}: {fault.repair}"
        return QueueRecord(REPAIR_EVENT, who, "", "", why, batch, job, principal=actor().principal)

    # ------------------------------------------------------------------ looking

    def _scan(self) -> Iterator[Finding]:
        self._questions.catch_up()
        tree = self._tree
        for fault in missing_nodes(self._sessions, tree.made_at_once):
            yield Finding(fault, [Op("make", fault.item, tree.empty)])
        batches = self._questions.item_ids(tree.batches)
        places = self._places(batches)
        jobs = self._questions.item_ids(tree.jobs)
        known = set(batches)
        for portion in windows(batches, 60):
            yield from (found for each in self._read(portion) for found in self._batch(*each))
        for portion in windows(jobs, 60):
            yield from (found for each in self._read(portion) for found in self._job(*each, places, known))
        yield from self._without_job(places, set(jobs))
        yield from self._object_locks(set(jobs), places)
        strays = [*places.strays, *(path for paths in places.odd.values() for path in paths)]
        for path in (*strays, *self._left_beside(known | set(jobs))):
            ops = [Op("remove", each) for each in self._removing.whole(path)]
            yield Finding(Fault("stray-node", path, "it belongs to no batch or job", "remove it"), ops)

    def _object_locks(self, jobs: set[str], places: Places) -> Iterator[Finding]:
        """Locks of objects whose job is gone, which would keep their objects from ever being worked on."""
        for each in self._objects.every():
            lasts = each.stat is not None and not each.stat.ephemeralOwner
            is_left = (each.name, each.job) in places.left
            if (each.job in jobs and not is_left) or (each.stat is None and not each.noted):
                continue
            if each.noted:
                what, guard = f"its job {each.job or '(unknown)'} is gone", list[Op]()
                if is_left:
                    what = f"the consumer of {each.job} died, and another program continues that job"
                    guard = self._objects.nobody_of_ours(each.job)
                yield Finding(Fault("object-lock", each.path, what, "remove the lock"), [*guard, *each.removal()])
            elif lasts and each.name not in places.objects:
                what = "another program holds it without a session, and no job that has not ended needs it; if that"
                what += " program is gone, delete the node with Merritt's admin tool or ZooKeeper's own"
                yield Finding(Fault("object-lock", each.path, what))

    def _left_beside(self, known: set[str]) -> Iterator[str]:
        """Our own nodes about batches and jobs that another program has removed."""
        tree, session = self._tree, self._sessions.base
        for folder in (tree.takings, tree.batch_notes, tree.job_notes):
            yield from (f"{folder}/{each}" for each in self._questions.item_ids(folder) if each not in known)
        gone = [tree.owner(each) for each in self._questions.owned() if each not in known]
        stats = session.ask(*map(look, gone)) if gone else []
        # Ephemeral ones end with their session.
        yield from (path for path, stat in zip(gone, stats, strict=True) if stat and not stat.ephemeralOwner)
        yield from self._left_of_holds()
        for folder in filter(None, (tree.requests, tree.uuids)):
            for portion in windows([f"{folder}/{name}" for name in self._questions.names(folder)]):
                for path, found in zip(portion, session.ask(*map(read, portion)), strict=True):
                    if not isinstance(found, Exception) and (found[0] or b"").decode(errors="replace") not in known:
                        yield path

    def _left_of_holds(self) -> Iterator[str]:
        """Our records of holds that another program has cleared."""
        tree, session = self._tree, self._sessions.base
        for name in self._questions.names(tree.hold_notes) if tree.hold_notes else ():
            note, hold = session.ask(look(f"{tree.hold_notes}/{name}"), look(tree.noted_hold(name)))
            if note and (hold is None or hold.czxid != note.czxid):
                yield f"{tree.hold_notes}/{name}"

    def _places(self, batches: Sequence[str]) -> Places:
        tree, places = self._tree, Places()
        for state in self._questions.names(tree.states):
            for name in self._questions.names(f"{tree.states}/{state}"):
                path, entry = f"{tree.states}/{state}/{name}", read_entry(name)
                if entry is None and (odd := _ODD_ENTRY.fullmatch(name)):
                    places.odd.setdefault(odd[1], []).append(path)
                elif entry is None:
                    places.strays.append(path)
                else:
                    places.entries.setdefault(entry[1], []).append(path)
        for batch in batches:
            for folder in self._questions.names(f"{tree.item(batch)}/states"):
                for job in self._questions.names(f"{tree.item(batch)}/states/{folder}"):
                    places.refs.setdefault(job, []).append(f"{tree.item(batch)}/states/{folder}/{job}")
        return places

    def _read(self, ids: Sequence[str]) -> list[tuple[str, ItemNodes | str | None]]:
        """Each item: its state, why it cannot be read, or None if it has no status."""
        found: list[tuple[str, ItemNodes | str | None]] = []
        for item_id, answers in answers_of(self._sessions.base, self._tree, ids):
            try:
                found.append((item_id, read_item(self._tree, item_id, answers)))
            except Unreadable as error:
                found.append((item_id, str(error)))
        return found

    # ------------------------------------------------------------------ batches

    def _batch(self, batch_id: str, seen: ItemNodes | str | None) -> Iterator[Finding]:
        if seen is None:
            yield from self._empty_node(batch_id)
        elif isinstance(seen, str):
            yield _unreadable(batch_id, seen)
        elif seen.item.state in self._tree.rules.batch.ends:
            what = f"it was {seen.item.state}, and its removal was interrupted"
            yield Finding(Fault("half-removed", batch_id, what, "remove the rest"), drop=batch_id)
        else:
            yield from self._dead_lock(seen)
            # While a consumer has it, its jobs are being created.
            lost = seen.item.state in self._tree.rules.reportable and not seen.has(Folder.PROCESSING.value)
            if lost and seen.lock is None:
                path = self._tree.folder(batch_id, Folder.PROCESSING)
                what = f"it is {seen.item.state}, but the folder for its jobs in processing is missing"
                what += ": it would never finish"
                missing = [node for node in (parent(path), path) if node == path or not seen.has("states")]
                yield Finding(
                    Fault("never-finishes", batch_id, what, "create the folder"),
                    [Op("make", node, self._tree.empty) for node in missing],
                )

    # ------------------------------------------------------------------ jobs

    def _job(self, job_id: str, seen: ItemNodes | str | None, places: Places, batches: set[str]) -> Iterator[Finding]:
        if seen is None:
            yield from self._empty_node(job_id)
            return
        if isinstance(seen, str):
            yield _unreadable(job_id, seen)
            return
        if folder_of(seen.job.state) is Folder.PROCESSING:
            places.objects.update(self._tree.all_object_locks(seen.job))
        places.left.update((name, job_id) for name in self._objects.left_by(seen))
        yield from self._dead_lock(seen)
        entries = places.entries.get(job_id, [])
        if 0 <= seen.job.priority <= HIGHEST_NUMBER:
            yield from self._entry(seen, entries)
        else:
            yield self._priority(seen, [*entries, *places.odd.pop(job_id, [])])
        if seen.job.batch in batches:
            yield from self._ref(seen, places.refs.get(job_id, []))
        else:
            what = f"its batch {seen.job.batch or '(none)'} is missing"
            ops = [Op("remove", path) for path in places.entries.get(job_id, [])]
            ops += self._whole_job(seen)
            ops += [Op("remove", self._tree.taking(job_id))] if seen.noted else []
            ops += [Op("remove", self._tree.beside(job_id))] if seen.has(BESIDE) else []
            yield Finding(Fault("no-batch", job_id, what, "remove the job"), ops)

    def _whole_job(self, record: ItemNodes) -> list[Op]:
        status = self._tree.status(record.item.id)
        nodes = self._removing.nodes(record.item.id)
        return [Op("remove", path, version=record.version if path == status else -1) for path in nodes]

    def _entry(self, record: ItemNodes, found: Sequence[str]) -> Iterator[Finding]:
        """One entry in the queue, as the status says; a completed job may have left it."""
        job, tree = record.job, self._tree
        right = tree.entry(job.state, job.priority, job.id)
        if list(found) == [right] or (not found and job.state in tree.rules.cleaned.values()):
            return
        kind = "two-entries" if len(found) > 1 else "wrong-entry" if found else "lost-entry"
        shown = ", ".join(_short(path) for path in found) or "none"
        what = f"it is {job.state} with priority {job.priority}; its entries in the queue: {shown}"
        yield Finding(Fault(kind, job.id, what, f"keep only {_short(right)}"), self._only(record, right, found))

    def _priority(self, record: ItemNodes, found: Sequence[str]) -> Finding:
        """A priority with more digits than entries of the queue have, which no consumer can read."""
        job, tree = record.job, self._tree
        priority = max(0, min(job.priority, HIGHEST_NUMBER))
        right = tree.entry(job.state, priority, job.id)
        shown = ", ".join(_short(path) for path in found) or "none"
        what = f"its priority is {job.priority}, not 0 to {HIGHEST_NUMBER}; its entries in the queue: {shown}"
        path, data = f"{tree.item(job.id)}/priority", b"%d" % priority
        ops = [*self._only(record, right, found), Op("set", path, data, record.versions["priority"])]
        return Finding(Fault("wrong-priority", job.id, what, f"set it to {priority}"), ops)

    def _ref(self, record: ItemNodes, found: Sequence[str]) -> Iterator[Finding]:
        """One reference in its batch, in the folder for its state."""
        job = record.job
        right = f"{self._tree.folder(job.batch, folder_of(job.state))}/{job.id}"
        if list(found) == [right]:
            return
        kind = "two-references" if len(found) > 1 else "wrong-reference" if found else "lost-reference"
        shown = ", ".join(name_of(parent(path)) for path in found) or "none"
        what = f"it is {job.state}; its batch has it in: {shown}"
        folder = parent(right)
        missing = self._sessions.base.ask(look(folder))[0] is None
        made = [Op("make", folder, self._tree.empty)] if missing else []
        yield Finding(
            Fault(kind, job.id, what, f"keep it only in {name_of(folder)}"),
            [*made, *self._only(record, right, found)],
        )

    def _only(self, record: ItemNodes, right: str, found: Sequence[str]) -> list[Op]:
        """Only that node, while the status stays as it was seen."""
        ops = [Op("check", self._tree.status(record.item.id), version=record.version)]
        ops += [Op("remove", path) for path in found if path != right]
        return [*ops, *([] if right in found else [Op("make", right, self._tree.empty)])]

    def _without_job(self, places: Places, jobs: set[str]) -> Iterator[Finding]:
        for kind, what, found in (
            ("entry-without-job", "the queue has an entry for it, but there is no such job", places.entries),
            ("reference-without-job", "its batch has a reference to it, but there is no such job", places.refs),
        ):
            for job in sorted(set(found) - jobs):
                where = ", ".join(found[job])
                yield Finding(
                    Fault(kind, job, f"{what}: {where}", "remove the references to it"),
                    [Op("remove", path) for path in found[job]],
                )

    # ------------------------------------------------------------------ both

    def _empty_node(self, item_id: str) -> Iterator[Finding]:
        """An id without a status: being created, or left by a process that died."""
        path = self._tree.item(item_id)
        stat: Any = self._sessions.base.ask(look(path))[0]
        now = self._commits.now().timestamp() * 1000
        if stat is None or now - stat.ctime < max(self._sessions.base.lease, MAKING_SECONDS) * 1000:
            return
        below = [node for node in self._removing.nodes(item_id) if node != path]
        what = "it has an id but no status: its creation was interrupted" + (
            f" after {len(below)} nodes" if below else ""
        )
        yield Finding(Fault("no-status", item_id, what, "remove it"), [Op("remove", node) for node in (*below, path)])

    def _dead_lock(self, record: ItemNodes) -> Iterator[Finding]:
        """A lock without a session and without a lease would stay forever."""
        if record.lock == 0 and not record.owned:
            what = "its lock belongs to no session and has no lease, so no consumer can ever take it"
            path = self._tree.lock(record.item.id)
            yield Finding(Fault("dead-lock", record.item.id, what, "remove the lock"), [Op("remove", path)])


def _unreadable(item_id: str, why: str) -> Finding:
    return Finding(Fault("unreadable", item_id, why))


def _short(path: str) -> str:
    return f"{name_of(parent(path))}/{name_of(path)}"

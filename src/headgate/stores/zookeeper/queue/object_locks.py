"""Merritt's locks of objects, in its spelling only: of a local id, and of an object for storage and for inventory.

They are created in the multi that takes a job in its step, and removed in the one that ends this. Their owner is
recorded under our own root, in a node that the same multi creates: a lock is ours if both were created together. A dead
owner's lock passes to the next owner of the same job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.core.queue.model import IngestJob, Item
from headgate.stores.zookeeper.ensemble.asking import catch_up, look, read
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions
from headgate.stores.zookeeper.queue.records import ItemNodes
from headgate.stores.zookeeper.queue.tree import QueueTree, Unreadable, decode, encode


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """The effects of taking a job on its object."""

    names: tuple[str, ...] = ()
    ops: Sequence[Op] = ()
    #: Nodes of locks that others hold; if there are any, it cannot be taken.
    busy: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ObjectLock:
    """The current state of a lock."""

    name: str
    path: str
    note: str
    #: Version of the lock's node; None: there is none.
    stat: Any = None
    #: The content of our own node beside it, if both were created together.
    content: dict[str, Any] = field(default_factory=dict)
    #: There is a node of ours, whether or not it belongs to this lock.
    noted: bool = False

    @property
    def job(self) -> str:
        """Our job that holds it; empty: another program holds it, or nobody."""
        return str(self.content.get("job", ""))

    @property
    def holder(self) -> str:
        """The holder, in words."""
        if self.job:
            return f"{self.job} ({self.content.get('worker') or 'its consumer died'})"
        session = self.stat.ephemeralOwner if self.stat else 0
        return f"another program, session {session:#x}" if session else "another program, without a session"

    def removal(self) -> list[Op]:
        """Remove it, if it is ours, with any remains."""
        return [
            *([Op("remove", self.path)] if self.stat and self.content else []),
            *([Op("remove", self.note)] if self.noted else []),
        ]

    def forced_removal(self) -> list[Op]:
        """Remove it, even if another program holds it."""
        lock = [Op("remove", self.path)] if self.stat else []
        return [*lock, *([Op("remove", self.note)] if self.noted else [])]


@dataclass(eq=False)
class ObjectLocks:
    """The locks of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree

    def plan(self, session: ZkSession, item: Item, kind: str, worker: str) -> ObjectPlan:
        """The operations for taking an item. `kind`: how its own lock is created."""
        names = self._tree.object_locks(item) if isinstance(item, IngestJob) else ()
        if not names:
            return ObjectPlan()
        found = self.look(names, session)
        if busy := [each.path for each in found if each.stat is not None and each.job != item.id]:
            return ObjectPlan(busy=busy)
        content = encode({"job": item.id, "worker": worker})
        ops: list[Op] = []
        for each in found:
            made = Op("make" if self._tree.outlives_sessions(each.name) else kind, each.path, self._tree.empty)
            ops += [*each.removal(), made, Op("make", each.note, content)]
        return ObjectPlan(names, ops)

    def move(self, record: ItemNodes) -> list[Op]:
        """The operations that move ephemeral locks to the session that sends them."""
        found = [each for each in self.look(record.locks) if each.stat is not None and each.job] if record.locks else []
        return [
            op
            for each in found
            if each.stat.ephemeralOwner
            for op in (
                *each.removal(),
                Op("keep", each.path, self._tree.empty),
                Op("make", each.note, encode(each.content)),
            )
        ]

    def release(self, names: Sequence[str], item_id: str) -> list[Op]:
        """The operations by which an item no longer has these; one that another job has by now stays."""
        found = self.look(names) if names else []
        return [op for each in found if each.job in ("", item_id) for op in each.removal()]

    def left_by(self, record: ItemNodes) -> list[str]:
        """Locks that nobody of ours will inherit: another program has taken the job, or moved it on."""
        if record.owned or record.died is not None or not record.locks:
            return []
        if record.lock is not None:
            return list(record.locks)
        needed = self._tree.object_locks(record.job)
        return [each for each in record.locks if each not in needed]

    def force(self, item: Item) -> list[Op]:
        """Remove all locks of a job's object, including those of other programs."""
        names = self._tree.all_object_locks(item) if isinstance(item, IngestJob) else ()
        return [op for each in self.look(names) for op in each.forced_removal()] if names else []

    def nobody_of_ours(self, job: str) -> list[Op]:
        """The operations that succeed only while no consumer of ours has a job."""
        owner = self._tree.owner(job)
        return [Op("make", owner), Op("remove", owner)]  # A node that can be made is not there.

    def busy(self, job: IngestJob) -> list[str]:
        """Why a job cannot be taken: each lock of its object that others hold, in words."""
        names = self._tree.object_locks(job)
        others = [each for each in self.look(names) if each.stat is not None and each.job != job.id] if names else []
        return [f"{each.path} is held by {each.holder}" for each in others]

    def every(self) -> Iterator[ObjectLock]:
        """All locks of objects, and remains of ours."""
        names = {
            f"{folder.rpartition('/')[2]}/{name}"
            for folder in self._tree.object_folders
            for name in self._sessions.base.names(folder)
        }
        notes = {self._tree.noted_object(each) for each in self._sessions.base.names(self._tree.object_notes)}
        yield from self.look(sorted(names | notes)) if names or notes else ()

    def look(self, names: Sequence[str], session: ZkSession | None = None) -> list[ObjectLock]:
        """The current state of these locks, whichever server they were created through."""
        tree = self._tree
        questions = [ask for name in names for ask in (look(tree.object_lock(name)), read(tree.object_note(name)))]
        _, *answers = (session or self._sessions.base).ask(catch_up(tree.own), *questions)
        return [
            _lock(name, tree.object_lock(name), tree.object_note(name), stat, note)
            for name, stat, note in zip(names, answers[::2], answers[1::2], strict=True)
        ]


def _lock(name: str, path: str, note: str, stat: Any, answer: Any) -> ObjectLock:
    if isinstance(answer, Exception):
        return ObjectLock(name, path, note, stat)
    try:
        content = decode(answer[0], "lock")
    except Unreadable:
        content = {}
    # A lock that another program has removed and created again is no longer ours.
    together = stat is None or stat.czxid == answer[1].czxid
    return ObjectLock(name, path, note, stat, content if together else {}, noted=True)

"""Items whose owner died: counted, and held when that happens too often.

A lock ends with the session of the consumer that took the item; a second node does not. So an item without a lock was
taken by a consumer that died if that second node still records the take at the current version of the item's status.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from headgate.core.errors import ItemLost, StoreUnavailable, Unavailable
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import Item, Taken
from headgate.stores.zookeeper.ensemble.multi import Op, first_error, multi
from headgate.stores.zookeeper.ensemble.session import Interrupted, ZkSession, ZkSessions
from headgate.stores.zookeeper.guarded import ChangePlan
from headgate.stores.zookeeper.queue.changes import ChangeOps
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.records import ItemNodes, taking_note
from headgate.stores.zookeeper.queue.snapshots import Snapshots
from headgate.stores.zookeeper.queue.tree import QueueTree


@dataclass(eq=False)
class Reaping:
    """Reaps the items of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree
    _questions: ItemQuestions
    _commits: Commits
    _ops: ChangeOps
    _snapshots: Snapshots

    def reap(self, record: ItemNodes) -> Item | None:
        """Free it in the same state, or hold it, as its table says. None: another process was first, or the owner is
        alive.
        """

        def build() -> ChangePlan[Item | None]:
            found = self._questions.find(record.item.id)
            if found is None or found.died is None or found.version != record.version:
                return ChangePlan([], None)
            loaded = self._snapshots.of(found)
            return self._ops.plan(loaded, queue_work.reap(loaded.snapshot), careful=True)

        return self._commits.run(build)

    def expire(self, limit: int) -> Iterator[ItemNodes]:
        """Reap items whose consumer died. Yields the reaped items."""
        self._questions.catch_up()
        count = 0
        for record in self._questions.records(self._questions.noted()):
            self._give_up_objects(record)
            if count < limit and record.died is not None and self.reap(record) is not None:
                count += 1
                yield record

    def _give_up_objects(self, record: ItemNodes) -> None:
        """Another program continues the job of a consumer of ours that died, and needs its object."""
        objects, job = self._ops.objects, record.item.id
        if ops := objects.release(objects.left_by(record), job):
            status = Op("check", self._tree.status(job), version=record.version)
            self._sessions.base.ask(multi([status, *objects.nobody_of_ours(job), *ops]))

    def end(self, record: ItemNodes, session: ZkSession) -> bool:
        """Free an item whose lease expired although its session is alive. The next consumer counts its owner as dead.

        Its status is rewritten, so that the token is stale for good.
        """
        status = Op("set", self._tree.status(record.item.id), record.status, record.version)
        note = {**taking_note(record.item, record.locks), "token": record.item.token + 1, "was": record.item.token}
        gone = replace(record.item, crashes=0)  # Its record is the newest one.
        ops = [
            status,
            *self._ops.free(replace(record, noted=False, locks=()), gone, inherited=True),
            *self._ops.note(record, note),
        ]
        try:
            results = session.change(multi(ops))[0]
        except Interrupted as error:
            raise StoreUnavailable(self._sessions.name, str(error)) from error
        return first_error(results) is None

    @contextmanager
    def late(self, taken: Taken) -> Iterator[None]:
        """A refused report still shows that its sender is alive."""
        try:
            yield
        except ItemLost:
            with suppress(Unavailable):
                self.report_late(taken.id, taken.token)
            raise

    def report_late(self, item_id: str, token: int) -> None:
        """An owner that lost the item reports that it is alive: no death is counted, unless this was done already."""
        record = self._questions.find(item_id)
        if record is None or record.died is None or record.died[1] != token:
            return
        status = Op("check", self._tree.status(item_id), version=record.version)
        self._sessions.base.ask(multi([status, *self._ops.free(record, record.item)]))

"""The multi that takes an item: its lock, the worker's record, the locks of its object, and the unchanged status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.ledger.model import Asker
from headgate.core.queue.model import Item
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSession
from headgate.stores.zookeeper.queue.changes import ChangeOps
from headgate.stores.zookeeper.queue.records import ItemNodes, owner_content, taking_note
from headgate.stores.zookeeper.queue.tree import QueueTree


@dataclass(frozen=True, slots=True)
class Grab:
    """An attempt to take an item."""

    #: The operation that records the worker.
    noted: Op
    ops: Sequence[Op]
    #: Locks of its object.
    locks: tuple[str, ...] = ()


def grab(
    tree: QueueTree, changes: ChangeOps, session: ZkSession, record: ItemNodes, taken: Item, asker: Asker, mark: str
) -> Grab | Sequence[str]:
    """The operations that take an item; or the nodes of the locks that others hold on its object."""
    kind = "make" if asker.outlives else "keep"
    plan = changes.objects.plan(session, record.item, kind, taken.worker)
    if plan.busy:
        return plan.busy
    (noted,) = changes.note(record, taking_note(taken, plan.names))
    stale = changes.objects.release([each for each in record.locks if each not in plan.names], taken.id)
    ops = [
        Op(kind, tree.lock(taken.id), tree.empty),
        Op(kind, tree.owner(taken.id), owner_content(taken, asker.lease, mark)),
        noted, *plan.ops, *stale,
        Op("set", tree.status(taken.id), record.status, record.version),
    ]  # fmt: skip
    return Grab(noted, ops, plan.names)


def rehouse(tree: QueueTree, changes: ChangeOps, record: ItemNodes, content: bytes) -> list[Op]:
    """The operations that move an item, with its object locks, to another session."""
    lock, owner = tree.lock(record.item.id), tree.owner(record.item.id)
    ops = [
        Op("check", tree.status(record.item.id), version=record.version),
        Op("remove", lock), Op("keep", lock, tree.empty), Op("remove", owner), Op("keep", owner, content),
    ]  # fmt: skip
    return [*ops, *changes.objects.move(record)]

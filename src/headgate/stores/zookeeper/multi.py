"""Several changes as one: ZooKeeper's multi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.security import OPEN_ACL_UNSAFE

from headgate.stores.zookeeper.asking import Question

#: How a node is made: 1 is ephemeral, 2 is numbered.
FLAGS = {"make": 0, "keep": 1, "tell": 2, "join": 3}


@dataclass(slots=True)
class Op:
    """One part of a multi: check, set, remove, make, keep (made ephemeral), tell or join (the same, numbered)."""

    kind: str
    path: str
    data: bytes = b""
    version: int = -1


def multi(ops: Sequence[Op]) -> Question:
    """All of it, or nothing."""
    return lambda client: _commit(client, ops)


def _commit(client: Any, ops: Sequence[Op]) -> Any:
    change = client.transaction()
    acl = client.default_acl or OPEN_ACL_UNSAFE
    # Kazoo's own builder checks types and paths again, part by part, for as long as ours takes in all.
    change.operations = [_part(op, acl) for op in ops]
    return change.commit_async()


def _part(op: Op, acl: Any) -> Any:
    match op.kind:
        case "check":
            return CheckVersion(op.path, op.version)
        case "set":
            return SetData(op.path, op.data, op.version)
        case "remove":
            return Delete(op.path, op.version)
    return Create(op.path, op.data, acl, FLAGS[op.kind])


def first_error(results: Sequence[Any]) -> int | None:
    """Which part of a multi made it fail; None: it did not."""
    for number, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return number
    return None

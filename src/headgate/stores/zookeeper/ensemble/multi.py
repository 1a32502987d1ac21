"""Several changes as one: ZooKeeper's multi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction

from headgate.core.errors import BadValue
from headgate.stores.zookeeper.ensemble.asking import EPHEMERAL, NUMBERED, Question, acl_of, send

#: ZooKeeper's limit on a request (jute.maxbuffer), with a margin; and the overhead of a part besides path and data:
#: more for a new node, because of its access rights.
MOST_BYTES, OP_BYTES, MAKE_BYTES = 1_000_000, 21, 50
#: How a node is created, by the kind of the part.
FLAGS = {"make": 0, "keep": EPHEMERAL, "tell": NUMBERED, "join": EPHEMERAL | NUMBERED}


@dataclass(slots=True)
class Op:
    """One part of a multi: check, set, remove, make, keep (ephemeral), `tell` or join (the same, numbered)."""

    kind: str
    path: str
    data: bytes | None = b""
    version: int = -1


def multi(ops: Sequence[Op]) -> Question:
    """All of it, or nothing."""

    def ask(client: Any) -> Any:
        acl = acl_of(client)
        return send(client, Transaction([_part(op, acl) for op in ops]))

    return ask


def _part(op: Op, acl: Any) -> Any:
    kind = op.kind
    if kind == "set":
        return SetData(op.path, op.data, op.version)
    if kind == "check":
        return CheckVersion(op.path, op.version)
    if kind == "remove":
        return Delete(op.path, op.version)
    return Create(op.path, op.data, acl, FLAGS[kind])


def size_of(op: Op) -> int:
    """The approximate size of a part in a request, in bytes."""
    return len(op.path) + len(op.data or b"") + (MAKE_BYTES if op.kind in FLAGS else OP_BYTES)


def checked_size(ops: Sequence[Op]) -> Sequence[Op]:
    """The same, or BadValue: a larger request makes the server drop the connection without an explanation."""
    size = sum([size_of(op) for op in ops])
    if size > MOST_BYTES:
        raise BadValue(
            "request", f"of {size} bytes", ("is too large for ZooKeeper; use fewer resources or holders at once")
        )
    return ops


def first_error(results: Any) -> int | None:
    """The part that made a multi fail, by its answer; None: it did not fail."""
    if isinstance(results, Exception):
        return 0
    for number, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return number
    return None

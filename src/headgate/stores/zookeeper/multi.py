"""Several changes as one: ZooKeeper's multi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import RolledBackError, RuntimeInconsistency


@dataclass(frozen=True, slots=True)
class Op:
    """One part of a multi: check, set, make, keep (made ephemeral) or remove."""

    kind: str
    path: str
    data: bytes = b""
    version: int = -1


def multi(client: Any, ops: Sequence[Op]) -> Any:
    """All of it, or nothing."""
    change = client.transaction()
    for op in ops:
        match op.kind:
            case "check":
                change.check(op.path, op.version)
            case "set":
                change.set_data(op.path, op.data, op.version)
            case "remove":
                change.delete(op.path, op.version)
            case kind:
                change.create(op.path, op.data, ephemeral=kind == "keep", sequence=kind == "tell")
    return change.commit_async()


def first_error(results: Sequence[Any]) -> int | None:
    """Which part of a multi made it fail; None: it did not."""
    for number, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return number
    return None

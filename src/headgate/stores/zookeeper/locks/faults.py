"""Damage to the nodes under `/headgate` that locks need: detection, explanation, and repair where that is safe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.core.faults import Fault, clock_fault
from headgate.stores.zookeeper.ensemble.asking import look, make, write
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.tree import Tree

MISSING_NODE = "missing-node"


def missing_nodes(sessions: ZkSessions, paths: Sequence[str]) -> list[Fault]:
    """Required nodes that are missing in this store, parents first."""
    found = sessions.base.ask(*(look(path) for path in paths))
    return [
        Fault(MISSING_NODE, path, "every store has this node, but here it is missing: operations on it fail", "make it")
        for path, stat in zip(paths, found, strict=True)
        if stat is None
    ]


def faults(sessions: ZkSessions, tree: Tree, name: str) -> list[Fault]:
    """Missing nodes, and a clock that differs from this machine's."""
    missing = missing_nodes(sessions, tree.folders)
    if any(fault.item == tree.clock for fault in missing):
        return missing
    stat: Any = sessions.base.ask(write(tree.clock, b""))[0]
    clock = clock_fault(name, datetime.fromtimestamp(stat.mtime / 1000, UTC), datetime.now(UTC))
    return [*missing, *([clock] if clock else [])]


def repair(sessions: ZkSessions, tree: Tree, fault: Fault) -> bool:
    """Create a missing node. False: it exists, or cannot be created."""
    if fault.kind != MISSING_NODE or fault.item not in tree.folders:
        return False
    return not isinstance(sessions.base.ask(make(fault.item))[0], Exception)

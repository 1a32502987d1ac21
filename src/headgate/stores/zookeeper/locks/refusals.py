"""Refusals: each is counted, and the history has one entry for each client, resource and minute of the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.locks.snapshot import LockRecord
from headgate.core.values.documents import read_document
from headgate.stores.zookeeper.ensemble.asking import make, read, write
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.history.store import NodeHistory
from headgate.stores.zookeeper.locks.nodes import Nodes
from headgate.stores.zookeeper.tree import Tree, parent

MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """The path of a refusal's history node."""

    path: str
    content: dict[str, Any]
    version: int
    ctime: int

    def counted(self, more: int) -> bytes:
        content = {**self.content, "count": self.content.get("count", 1) + more}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(eq=False)
class Refusals:
    """Counts the refusals of one store."""

    _sessions: ZkSessions
    _tree: Tree
    _history: NodeHistory

    def add(self, nodes: Nodes) -> None:
        """Count the refusals of a change, with the change itself."""
        paths = [self._tree.refusal(record.resource, record.client) for record in nodes.refusals]
        new: list[tuple[str, int]] = []
        for record, path, entry in zip(nodes.refusals, paths, self._newest(paths), strict=True):
            if entry is None:  # The first within its minute is recorded.
                new.append((path, len(nodes.told)))
                nodes.told.append(record)
            else:
                self._add_to(nodes, path, entry, record)
        if new:
            nodes.after.append(lambda paths, _at: self._point([(path, paths[at]) for path, at in new if paths]))

    def _add_to(self, nodes: Nodes, path: str, entry: _Entry, record: LockRecord) -> None:
        """Count it in the last minute; the answer to the write shows whether that minute is over."""
        nodes.parts.append(Op("set", entry.path, entry.counted(1), entry.version))

        def settle(_paths: Sequence[str], at: int) -> None:
            if at // MINUTE != entry.ctime // MINUTE:
                self._move(path, entry, record, nodes.mark)

        nodes.after.append(settle)

    def _move(self, node: str, entry: _Entry, told: LockRecord, mark: str) -> None:
        """It was the first one of a new minute after all."""
        self._point([(node, self._history.append(told, mark))])
        self._sessions.base.ask(write(entry.path, entry.counted(0), entry.version + 1))

    def _point(self, entries: Sequence[tuple[str, str]]) -> None:
        """Record the paths of refusals' history entries, in one trip for many."""
        for some in windows(entries):
            self._sessions.base.ask(
                *(make(parent(node)) for node, _ in some),
                *(make(node) for node, _ in some),
                *(write(node, path.encode()) for node, path in some),
            )

    def _newest(self, nodes: Sequence[str]) -> list[_Entry | None]:
        """The history's newest entry of each, in two trips for many; None: it has none."""
        # The process that created a node may have died, or lost its connection, before it could write the path.
        pointers = [
            "" if isinstance(answer, Exception) or not answer[0] else answer[0].decode()
            for some in windows(nodes)
            for answer in self._sessions.base.ask(*(read(node) for node in some))
        ]
        paths = sorted({path for path in pointers if path})
        found = {
            path: _Entry(path, read_document(answer[0]), answer[1].version, answer[1].ctime)
            for some in windows(paths)
            for path, answer in zip(some, self._sessions.base.ask(*(read(path) for path in some)), strict=True)
            if not isinstance(answer, Exception)
        }
        return [found.get(path) for path in pointers]

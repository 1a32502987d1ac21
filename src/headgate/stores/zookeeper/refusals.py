"""Refusals: each is counted, and the history tells one for each client, resource and minute of the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.documents import read_document
from headgate.core.locks import Blocker, Request, refusal_reason
from headgate.stores.zookeeper.asking import make, read, write
from headgate.stores.zookeeper.history import History
from headgate.stores.zookeeper.multi import Op
from headgate.stores.zookeeper.scene import Scene, Told
from headgate.stores.zookeeper.session import Sessions
from headgate.stores.zookeeper.tree import Tree, parent

MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """The history's node that tells of a refusal."""

    path: str
    content: dict[str, Any]
    version: int
    ctime: int

    def counted(self, more: int) -> bytes:
        content = {**self.content, "count": self.content.get("count", 1) + more}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


class Refusals:
    """Counts the refusals of one store."""

    def __init__(self, sessions: Sessions, tree: Tree, history: History) -> None:
        self._sessions = sessions
        self._history = history
        self._tree = tree

    def add(self, scene: Scene, request: Request, blockers: Sequence[Blocker], before: str = "new") -> None:
        """Count a refusal on each blocked resource, with the scene's own change."""
        scene.checks = True
        for resource in dict.fromkeys(blocker.resource for blocker in blockers):
            told = self._told(scene, request, blockers, resource, before)
            node = self._tree.refusal(resource, request.client)
            entry = self._newest(node)
            if entry is None:
                self._add_new(scene, node, told)
            else:
                self._add_to(scene, node, entry, told)

    def _told(self, scene: Scene, request: Request, blockers: Sequence[Blocker], resource: str, before: str) -> Told:
        lock_id = request.lock_id(scene.tag, resource)
        token = scene.resources[resource].token
        reason = refusal_reason(request, blockers, resource)
        return Told("refuse", resource, request.client, lock_id, token, before, "refused", reason)

    def _add_new(self, scene: Scene, node: str, told: Told) -> None:
        """The first within its minute: the history is told."""
        number = len(scene.told)
        scene.tell(told)
        scene.after.append(lambda paths, _at: self._point(node, paths[number]) if paths else None)

    def _add_to(self, scene: Scene, node: str, entry: _Entry, told: Told) -> None:
        """Count it as one more of the last minute; the write itself tells whether that minute is over."""
        scene.ops.append(Op("set", entry.path, entry.counted(1), entry.version))

        def settle(_paths: Sequence[str], at: int) -> None:
            if at // MINUTE != entry.ctime // MINUTE:
                self._move(node, entry, told, scene.mark)

        scene.after.append(settle)

    def _move(self, node: str, entry: _Entry, told: Told, mark: str) -> None:
        """It was the first of a new minute after all."""
        self._point(node, self._history.append(told, mark))
        self._sessions.base.ask(write(entry.path, entry.counted(0), entry.version + 1))

    def _point(self, node: str, path: str) -> None:
        self._sessions.base.ask(make(parent(node)), make(node), write(node, path.encode()))

    def _newest(self, node: str) -> _Entry | None:
        pointer = self._sessions.base.ask(read(node))[0]
        # Whoever made the node may have died, or lost its connection, before it could write where it leads.
        if isinstance(pointer, Exception) or not pointer[0]:
            return None
        path = pointer[0].decode()
        found = self._sessions.base.ask(read(path))[0]
        if isinstance(found, Exception):
            return None
        return _Entry(path, read_document(found[0]), found[1].version, found[1].ctime)

"""Moving old history folders out of ZooKeeper.

Only closed folders are moved, and the newest stay. A folder is marked before the first of its entries is removed, so
that no process takes a missing entry for a change without effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from headgate.stores.ports.history import Leaf
from headgate.stores.zookeeper.ensemble.asking import read, remove, write
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.history.folders import MOVED, HistoryFolders


class MovableHistory:
    """The entries below one node, as a source for moving."""

    def __init__(self, sessions: ZkSessions, folders: HistoryFolders, clock: str) -> None:
        self.tag = folders.tag
        self._sessions = sessions
        self._folders = folders
        self._clock = clock

    def oldest(self, seconds: float, limit: int) -> Sequence[Leaf]:
        now = self._sessions.base.ask(write(self._clock, b""))[0].mtime
        until = now - round(seconds * 1000)
        for folder in self._marked(until):
            leaves = list(islice(self._leaves(folder, until, limit), limit))
            if leaves:
                return leaves
            self._sessions.base.ask(remove(folder))  # It stays if it contains a foreign node.
        return []

    def removable_since(self) -> datetime | None:
        """When the oldest removable folder was closed; once it is marked, the time of its first entry."""
        for folder in self._folders.old_folders():
            found = self._sessions.base.ask(read(folder))[0]
            if isinstance(found, Exception):
                continue  # It is gone.
            data, stat = found
            if data != MOVED:
                return moment(stat.mtime)
            if (first := self._folders.first(folder)) is not None:
                return first.at
        return None

    def remove(self, leaves: Sequence[Leaf]) -> int:
        answers = self._sessions.base.ask(*(remove(leaf.name, leaf.version) for leaf in leaves))
        return sum(not isinstance(answer, Exception) for answer in answers)

    def _marked(self, until: int) -> Iterator[str]:
        """Folders that were closed by then, oldest first, each marked. No writer uses them any more."""
        for folder in self._folders.old_folders():
            found = self._sessions.base.ask(read(folder))[0]
            if isinstance(found, Exception):
                continue  # Another mover was first.
            data, stat = found
            if data != MOVED:
                if stat.mtime > until:
                    return
                self._sessions.base.ask(write(folder, MOVED, stat.version))
            yield folder

    def _leaves(self, folder: str, until: int, window: int) -> Iterator[Leaf]:
        for number, name, data, stat in self._folders.nodes(folder, lambda _number, _name: True, window):
            entry = self._folders.entry(number, name, data, stat)
            # A refusal may just have been counted, and this may be undone.
            if entry is not None and stat.mtime <= until:
                yield Leaf(entry, f"{folder}/{name}", stat.version, self._folders.batch_of(name))

"""Old folders of history leave ZooKeeper.

Only closed folders do, and the newest stay. A folder is marked before the first of its entries goes, so that nobody
takes a missing one for a change that did not happen.
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
    """The entries below one node, as something to be moved."""

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
            self._sessions.base.ask(remove(folder))  # It stays if there is something in it that is not ours.
        return []

    def removable_since(self) -> datetime | None:
        """When the oldest folder that may go was closed; once it is marked, the time of its first entry."""
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
        """Folders that were closed by then, oldest first, each marked. Writers have left them for good."""
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
            # A refusal may have been counted just now, and may be counted back.
            if entry is not None and stat.mtime <= until:
                yield Leaf(entry, f"{folder}/{name}", stat.version, self._folders.batch_of(name))

"""History nodes in numbered folders, written with the change that they record.

A full folder is closed (its version changes, and every writer checks it) before the next one is created, so that folder
and sequence number together give the order of events. A closed folder never grows again. Old ones are copied to a
keeper (moving.py); reads then combine both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from headgate.core.errors import StoreUnavailable
from headgate.core.history import Entry, HistoryFilter
from headgate.stores.ports.history import HistoryKeeper
from headgate.stores.zookeeper.ensemble.asking import catch_up, children, make, read
from headgate.stores.zookeeper.ensemble.multi import Op, multi
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions, windows
from headgate.stores.zookeeper.tree import name_of, parent, sequence_of

#: Number of entries in one folder.
FOLDER_SIZE = 2000
#: An entry's id is its folder's number times this, plus its number there.
FOLDER_STEP = 1_000_000
#: This many of the newest folders always stay: they show how a lock ended, and whether a lost answer took effect.
KEPT_FOLDERS = 10
#: The content of a folder whose entries are about to be removed.
MOVED = b"moved"


class HistoryFolders(ABC):
    """The folders below one node."""

    def __init__(self, sessions: ZkSessions, root: str, tag: str) -> None:
        #: The store's.
        self.tag = tag
        #: The keeper of old entries, if there is one.
        self.keeper: HistoryKeeper | None = None
        self._sessions = sessions
        self._root = root
        self._folder: int | None = None

    def guard(self) -> Op:
        """A check that the current folder is still open."""
        if self._folder is None:
            self._folder = self._newest()
        return Op("check", folder_path(self._root, self._folder), version=0)

    def turn(self) -> None:
        """The folder is closed: continue with the newest."""
        self._folder = None

    def noticed(self, path: str) -> None:
        """An entry was written there: close the folder when it is full."""
        if sequence_of(path) < FOLDER_SIZE:
            return
        folder = parent(path)
        following = folder_path(self._root, int(name_of(folder)) + 1)
        self._folder = None
        self._sessions.base.ask(multi([Op("set", folder, b"closed", 0), Op("make", following)]))

    def find(self, folder: str, mark: str, session: ZkSession) -> int | None:
        """When the change with this mark took effect, in milliseconds; None: it did not.

        StoreUnavailable when that is no longer known.
        """
        # In this order: a folder is marked before the first of its entries is removed.
        _, names, itself = session.ask(catch_up(self._root), children(folder), read(folder))
        for name in () if isinstance(names, Exception) else names:
            if name.rpartition(":")[0].endswith(f".{mark}"):
                answer = session.ask(read(f"{folder}/{name}"))[0]
                if not isinstance(answer, Exception):
                    return int(answer[1].ctime)
                itself = answer
        if isinstance(itself, Exception) or itself[0] == MOVED:
            why = (
                "an answer was lost, and the history of that time has been copied away: check whether the request "
                "took effect"
            )
            raise StoreUnavailable(self._sessions.name, why)
        return None

    def catch_up(self) -> None:
        """Reads see everything that others have seen."""
        self._sessions.base.send(catch_up(self._root))

    def folders(self, until: datetime | None = None) -> list[str]:
        """Newest first; `until`: excludes later ones."""
        found = [f"{self._root}/{name}" for name in sorted(self._sessions.base.names(self._root), reverse=True)]
        if until is None:
            return found
        made = self._sessions.base.ask(*map(read, found))
        late = until.timestamp() * 1000
        return [
            path for path, node in zip(found, made, strict=True) if isinstance(node, Exception) or node[1].ctime <= late
        ]

    def last(self) -> int:
        """Return the id of the newest entry; 0: there is none."""
        self.catch_up()
        for folder in self.folders():
            if names := self._sessions.base.names(folder):
                return int(name_of(folder)) * FOLDER_STEP + 1 + max(map(sequence_of, names))
        return 0

    def newest_folders(self) -> list[str]:
        """The ones that always stay, newest first."""
        return self.folders()[:KEPT_FOLDERS]

    def old_folders(self) -> list[str]:
        """Entries that may be removed, oldest first."""
        return self.folders()[: KEPT_FOLDERS - 1 : -1]

    def nodes(
        self, folder: str, fits: Callable[[int, str], bool], window: int = 500
    ) -> Iterator[tuple[int, str, bytes, Any]]:
        """The matching entries of a folder, newest first: number, name, data and times."""
        ordered = sorted(self._sessions.base.names(folder), key=sequence_of, reverse=True)
        base = int(name_of(folder)) * FOLDER_STEP + 1
        chosen = [(base + sequence_of(name), name) for name in ordered]
        chosen = [each for each in chosen if fits(*each)]
        for portion in windows(chosen, window):
            answers = self._sessions.base.ask(*(read(f"{folder}/{name}") for _, name in portion))
            for (number, name), answer in zip(portion, answers, strict=True):
                if not isinstance(answer, Exception):
                    yield number, name, *answer

    def first(self, folder: str) -> Entry | None:
        """The first remaining entry of a folder."""
        for name in sorted(self._sessions.base.names(folder), key=sequence_of):
            answer = self._sessions.base.ask(read(f"{folder}/{name}"))[0]
            entry = None if isinstance(answer, Exception) else self.entry(0, name, *answer)
            if entry is not None:
                return entry
        return None

    def matching(
        self, which: HistoryFilter, folders: Sequence[str], by_name: Callable[[int, str], bool]
    ) -> list[Entry]:
        """Matching entries, newest first: filtered by the nodes' names, and then by their content."""
        found: list[Entry] = []
        for folder in folders:
            for node in self.nodes(folder, by_name, min(which.limit, 500)):
                entry = self.entry(*node)
                if entry is None:
                    continue  # A foreign node; it does not hide the others.
                if which.since is not None and entry.at < which.since:
                    return found
                late = which.until is not None and entry.at > which.until
                if not late and which.client in (None, entry.client) and which.resource in (None, entry.resource):
                    found.append(entry)
                if len(found) >= which.limit:
                    return found
        return found

    @abstractmethod
    def op(self, told: Any, mark: str, folder: str) -> Op:
        """The path of an entry's node."""

    @abstractmethod
    def entry(self, number: int, name: str, data: bytes, stat: Any) -> Entry | None:
        """The entry in a node; None: it is not one of ours."""

    @abstractmethod
    def batch_of(self, name: str) -> str:
        """The batch that an entry belongs to; empty: none."""

    def with_copied(self, here: Sequence[Entry], which: HistoryFilter) -> Sequence[Entry]:
        """Combined with the copied entries. It is read after the local ones, so that no entry is missed between the
        two.
        """
        if self.keeper is None:
            return here
        found = {entry.id: entry for entry in (*self.keeper.read(which, self.tag), *here)}
        return [found[number] for number in sorted(found, reverse=True)][: which.limit]

    def _newest(self) -> int:
        folders = self.folders()
        if not folders:
            self._sessions.base.ask(make(folder_path(self._root, 0)))
            return 0
        return int(name_of(folders[0]))


def folder_path(root: str, number: int) -> str:
    """A folder of history nodes."""
    return f"{root}/{number:010d}"


def parts_of(name: str) -> Sequence[str]:
    """The parts of an entry's name, without its number."""
    return name.rpartition(":")[0].split(".")

"""The history: nodes in numbered folders, written with the change that they tell of.

A folder that is full is closed (its version moves on, and every writer checks it) before the next one is made, so
that folder and sequence number together are the order of events. A closed folder never grows again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headgate.core.history import Entry
from headgate.core.locks import resource_key
from headgate.stores.base import HistoryFilter
from headgate.stores.zookeeper.asking import catch_up, children, make, read
from headgate.stores.zookeeper.multi import Op, first_error, multi
from headgate.stores.zookeeper.records import moment, quoted
from headgate.stores.zookeeper.scene import Told
from headgate.stores.zookeeper.session import Session, Sessions, windows
from headgate.stores.zookeeper.tree import Tree, key_of_lock, letters_of_lock, name_of, parent, sequence_of

#: Entries in one folder.
FOLDER_SIZE = 2000
#: Folders that are searched for the end of a lock.
SEARCHED_FOLDERS = 10
#: An entry's id is its folder's number times this, plus its number there.
FOLDER_STEP = 1_000_000
NOUN = "lock"


class History:
    """Writes and reads the history of one store."""

    def __init__(self, sessions: Sessions, tree: Tree, tag: str) -> None:
        self._sessions = sessions
        self._tree = tree
        self._tag = tag
        self._folder: int | None = None

    def guard(self) -> Op:
        """That the present folder is still open."""
        if self._folder is None:
            self._folder = self._newest()
        return Op("check", self._tree.history_folder(self._folder), version=0)

    def op(self, told: Told, mark: str, folder: str) -> Op:
        """An entry's node."""
        key, letters = key_of_lock(told.lock_id), letters_of_lock(told.lock_id)
        name = f"{key}.{letters}.{told.event}.{told.token}.{mark}:"
        reason = f',"reason":{quoted(told.reason[:1000])}' if told.reason else ""
        data = (
            f'{{"uri":{quoted(told.resource)},"client":{quoted(told.client)},'
            f'"before":"{told.before}","after":"{told.after}"{reason}}}'
        )
        return Op("tell", f"{folder}/{name}", data.encode())

    def append(self, told: Told, mark: str) -> str:
        """Write an entry by itself. Gives its node's path."""
        while True:
            guard = self.guard()
            results = self._sessions.base.ask(multi([guard, self.op(told, mark, guard.path)]))[0]
            if first_error(results) is None:
                return str(results[1])
            self.turn()

    def turn(self) -> None:
        """The folder is closed: go on with the newest."""
        self._folder = None

    def noticed(self, path: str) -> None:
        """An entry was written there: close the folder when it is full."""
        if sequence_of(path) < FOLDER_SIZE:
            return
        folder = parent(path)
        following = self._tree.history_folder(int(name_of(folder)) + 1)
        self._folder = None
        self._sessions.base.ask(multi([Op("set", folder, b"closed", 0), Op("make", following)]))

    def find(self, folder: str, mark: str, session: Session) -> int | None:
        """When a change that bears this mark happened, in milliseconds; None: it did not."""
        _, names = session.ask(catch_up(self._tree.history), children(folder))
        for name in () if isinstance(names, Exception) else names:
            if name.rpartition(":")[0].endswith(f".{mark}"):
                answer = session.ask(read(f"{folder}/{name}"))[0]
                return None if isinstance(answer, Exception) else int(answer[1].ctime)
        return None

    def endings(self, lock_id: str, events: Sequence[str]) -> list[Entry]:
        """How a lock ended, newest first, as far as the newest folders tell."""
        which = HistoryFilter(lock_id=lock_id, limit=5)
        return [entry for entry in self._entries(which, self._folders()[:SEARCHED_FOLDERS]) if entry.event in events]

    def ask(self, which: HistoryFilter) -> list[Entry]:
        """What happened, newest first."""
        self._sessions.base.send(catch_up(self._tree.history))
        return self._entries(which, self._folders())

    def _entries(self, which: HistoryFilter, folders: Sequence[str]) -> list[Entry]:
        found: list[Entry] = []
        fits = self._name_filter(which)
        for folder in folders:
            names = [name for name in self._names(folder) if fits(folder, name)]
            for entry in self._read(folder, names, which.limit):
                if which.since is not None and entry.at < which.since:
                    return found
                if which.client in (None, entry.client) and which.resource in (None, entry.resource):
                    found.append(entry)
                if len(found) >= which.limit:
                    return found
        return found

    def _read(self, folder: str, names: Sequence[str], limit: int) -> Iterator[Entry]:
        for portion in windows(names, min(limit, 500)):
            paths = [f"{folder}/{name}" for name in portion]
            answers = self._sessions.base.ask(*(read(path) for path in paths))
            for path, answer in zip(paths, answers, strict=True):
                if not isinstance(answer, Exception) and (entry := self._entry(path, *answer)):
                    yield entry

    def _entry(self, path: str, data: bytes, stat: Any) -> Entry | None:
        folder, name = name_of(parent(path)), name_of(path)
        try:
            content = json.loads(data)
            key, letters, event, token, _ = name.rpartition(":")[0].split(".")
            return Entry(
                _number(folder, name), moment(stat.ctime), content.get("noun", NOUN), event, content["uri"],
                content["client"], f"{self._tag}-{key}-{letters}", int(token), content["before"], content["after"],
                content.get("reason", ""), content.get("count", 1),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # Something that is not ours; it hides nothing else.

    def _name_filter(self, which: HistoryFilter) -> Callable[[str, str], bool]:
        key = None if which.resource is None else resource_key(which.resource)
        lock = None if which.lock_id is None else which.lock_id.split("-")[1:]

        def fits(folder: str, name: str) -> bool:
            parts = name.rpartition(":")[0].split(".")
            if len(parts) != 5 or (lock is not None and parts[:2] != lock):
                return False
            if which.before is not None and _number(name_of(folder), name) >= which.before:
                return False
            return (key is None or parts[0] == key) and which.event in (None, parts[2])

        return fits

    def _newest(self) -> int:
        folders = self._folders()
        if not folders:
            self._sessions.base.ask(make(self._tree.history_folder(0)))
            return 0
        return int(name_of(folders[0]))

    def _folders(self) -> list[str]:
        """Newest first."""
        names = self._sessions.base.ask(children(self._tree.history))[0]
        return [f"{self._tree.history}/{name}" for name in sorted(names, reverse=True)]

    def _names(self, folder: str) -> list[str]:
        """Newest first."""
        names = self._sessions.base.ask(children(folder))[0]
        return [] if isinstance(names, Exception) else sorted(names, key=sequence_of, reverse=True)


def _number(folder: str, name: str) -> int:
    return int(folder) * FOLDER_STEP + sequence_of(name) + 1

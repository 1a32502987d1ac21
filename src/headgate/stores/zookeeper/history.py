"""The history of the locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.core.documents import read_document
from headgate.core.history import Entry
from headgate.core.lock_snapshot import Record
from headgate.core.locks import resource_key
from headgate.stores.base import HistoryFilter
from headgate.stores.history import Book
from headgate.stores.zookeeper.history_folders import HistoryFolders, parts_of
from headgate.stores.zookeeper.multi import Op, first_error, multi
from headgate.stores.zookeeper.records import moment, quoted
from headgate.stores.zookeeper.session import Sessions
from headgate.stores.zookeeper.tree import Tree, key_of_lock, letters_of_lock

NOUN = "lock"


class History(HistoryFolders):
    """Writes and reads the history of one store's locks."""

    def __init__(self, sessions: Sessions, tree: Tree, tag: str) -> None:
        super().__init__(sessions, tree.history, Book(tag, "locks"))
        self._tag = tag

    def op(self, told: Record, mark: str, folder: str) -> Op:
        key, letters = key_of_lock(told.lock_id), letters_of_lock(told.lock_id)
        name = f"{key}.{letters}.{told.event}.{told.token}.{mark}:"
        reason = f',"reason":{quoted(told.reason[:1000])}' if told.reason else ""
        data = (
            f'{{"uri":{quoted(told.resource)},"client":{quoted(told.client)},'
            f'"before":"{told.before}","after":"{told.after}","principal":{quoted(told.principal)}{reason}}}'
        )
        return Op("tell", f"{folder}/{name}", data.encode())

    def append(self, told: Record, mark: str) -> str:
        """Write an entry by itself. Gives its node's path."""
        while True:
            guard = self.guard()
            results = self._sessions.base.ask(multi([guard, self.op(told, mark, guard.path)]))[0]
            if first_error(results) is None:
                return str(results[1])
            self.turn()

    def endings(self, lock_id: str, events: Sequence[str]) -> list[Entry]:
        """How a lock ended, newest first, as far as the newest folders tell."""
        which = HistoryFilter(lock_id=lock_id, limit=5)
        return [entry for entry in self._entries(which, self.newest_folders()) if entry.event in events]

    def ask(self, which: HistoryFilter) -> Sequence[Entry]:
        """What happened, newest first."""
        self.catch_up()
        return self.with_moved(self._entries(which, self.folders()), which)

    def _entries(self, which: HistoryFilter, folders: Sequence[str]) -> list[Entry]:
        def fits(entry: Entry) -> bool:
            return which.resource in (None, entry.resource)

        return self.matching(which, folders, self._name_filter(which), fits)

    def entry(self, number: int, name: str, data: bytes, stat: Any) -> Entry | None:
        try:
            content = read_document(data)
            key, letters, event, token, _ = parts_of(name)
            return Entry(
                number, moment(stat.ctime), content.get("noun", NOUN), event, content["uri"],
                content["client"], f"{self._tag}-{key}-{letters}", int(token), content["before"], content["after"],
                content.get("reason", ""), content.get("count", 1), principal=content.get("principal", ""),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def batch_of(self, name: str) -> str:
        del name
        return ""

    def _name_filter(self, which: HistoryFilter) -> Callable[[int, str], bool]:
        key = None if which.resource is None else resource_key(which.resource)
        lock = None if which.lock_id is None else which.lock_id.split("-")[1:]

        def fits(number: int, name: str) -> bool:
            parts = parts_of(name)
            if len(parts) != 5 or (lock is not None and parts[:2] != lock):
                return False
            if which.before is not None and number >= which.before:
                return False
            return (key is None or parts[0] == key) and which.event in (None, parts[2])

        return fits

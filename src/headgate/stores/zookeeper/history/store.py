"""The history of locks, batches, ingest jobs and holds, in one folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from headgate.core.history import Entry, Happened, HistoryFilter, hour_of
from headgate.core.locks.model import resource_key
from headgate.core.locks.snapshot import LockRecord
from headgate.core.queue.model import MESSAGE_LENGTH, is_batch
from headgate.core.queue.snapshot import QueueRecord, noun_of
from headgate.core.values.documents import quoted, read_document
from headgate.core.values.wire import rfc3339
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.ensemble.multi import Op, first_error, multi
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.history.folders import HistoryFolders, parts_of
from headgate.stores.zookeeper.history.moving import MovableHistory
from headgate.stores.zookeeper.tree import Tree

LOCK = "lock"
#: The parts of the name of a lock's entry, and of a batch's, ingest job's or hold's.
LOCK_PARTS, ITEM_PARTS = 5, 6


class NodeHistory(HistoryFolders):
    """Writes and reads the history of one store."""

    def __init__(self, sessions: ZkSessions, tree: Tree, tag: str) -> None:
        super().__init__(sessions, tree.history, tag)
        self.movable = MovableHistory(sessions, self, tree.clock)

    def op(self, told: LockRecord | QueueRecord, mark: str, folder: str) -> Op:
        """An entry's node."""
        if isinstance(told, QueueRecord):
            name, data = _item_node(told, mark)
        else:
            name, data = _node(told, mark)
        return Op("tell", f"{folder}/{name}", data.encode())

    def append(self, told: LockRecord, mark: str) -> str:
        """Write an entry by itself. Returns its node's path."""
        tries = Tries(self._sessions.name)
        while True:
            guard = self.guard()
            results = self._sessions.base.ask(multi([guard, self.op(told, mark, guard.path)]))[0]
            if first_error(results) is None:
                return str(results[1])
            self.turn()
            tries.again(f"the history has no folder for new entries: {guard.path}")

    def endings(self, lock_id: str, events: Sequence[str]) -> list[Entry]:
        """How a lock ended, newest first, from the newest folders or the copied entries."""
        which = HistoryFilter(lock_id=lock_id, limit=5)
        found = self._entries(which, self.newest_folders())
        if not found and self.keeper is not None:
            found = list(self.keeper.read(which, self.tag))
        return [entry for entry in found if entry.event in events]

    def read(self, which: HistoryFilter) -> Sequence[Entry]:
        """Return matching entries, newest first."""
        if which.job is not None or which.dataid is not None:
            return []  # The ledger is in another store.
        self.catch_up()
        return self.with_copied(self._entries(which, self.folders(which.until)), which)

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """Return how often each of these events happened in each hour since then."""
        self.catch_up()
        counts: Counter[tuple[str, str, int]] = Counter()
        for entry in self._since(since, frozenset(events)):
            counts[entry.noun, entry.event, hour_of(entry.at)] += entry.count
        return [Happened(*key, count) for key, count in counts.items()]

    def oldest(self) -> datetime | None:
        """When the folder of the oldest removable entry was closed, which starts its retention."""
        return self.movable.removable_since()

    def forget(self, until: datetime, limit: int) -> int:
        """Remove at most `limit` entries from before that time that may be removed, oldest first."""
        age = (datetime.now(UTC) - until).total_seconds()
        return self.movable.remove([leaf for leaf in self.movable.oldest(age, limit) if leaf.entry.at < until])

    def entry(self, number: int, name: str, data: bytes, stat: Any) -> Entry | None:
        """The entry in a node; None: it is not one of ours."""
        try:
            content, parts, at = read_document(data), parts_of(name), moment(stat.ctime)
            if len(parts) == ITEM_PARTS:
                return _item_entry(number, parts, content, at)
            key, letters, event, token, _ = parts
            return Entry(
                number, at, LOCK, event, content["uri"], content["client"], f"{self.tag}-{key}-{letters}", int(token),
                content["before"], content["after"], content.get("reason", ""), content.get("count", 1),
                principal=content.get("principal", ""),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def batch_of(self, name: str) -> str:
        """The batch that an entry belongs to; empty: none."""
        parts = parts_of(name)
        return parts[0] if len(parts) == ITEM_PARTS else ""

    def _entries(self, which: HistoryFilter, folders: Sequence[str]) -> list[Entry]:
        return self.matching(which, folders, _name_filter(which))

    def _since(self, since: datetime, events: frozenset[str]) -> Sequence[Entry]:
        def fits(_number: int, name: str) -> bool:
            parts = parts_of(name)
            return len(parts) in (LOCK_PARTS, ITEM_PARTS) and parts[2] in events

        return self.matching(HistoryFilter(since=since, limit=2**62), self.folders(), fits)


def _node(told: LockRecord, mark: str) -> tuple[str, str]:
    """The name of a lock's entry, which contains everything that is searched for, and its content."""
    _, key, letters = told.lock_id.split("-")
    name = f"{key}.{letters}.{told.event}.{told.token}.{mark}:"
    reason = f',"reason":{quoted(told.reason[:1000])}' if told.reason else ""
    who = f'"uri":{quoted(told.resource)},"client":{quoted(told.client)}'
    states = f'"before":"{told.before}","after":"{told.after}"'
    return name, f'{{{who},{states},"principal":{quoted(told.principal)}{reason}}}'


def _name_filter(which: HistoryFilter) -> Callable[[int, str], bool]:
    """The parts of an entry that its node's name and number contain."""
    key = None if which.resource is None else resource_key(which.resource)
    lock = None if which.lock_id is None else which.lock_id.split("-")[1:]
    column = 0 if which.item is not None and is_batch(which.item) else 1

    def fits(number: int, name: str) -> bool:
        parts = parts_of(name)
        if len(parts) == LOCK_PARTS:
            noun, wanted = LOCK, which.item is None and key in (None, parts[0]) and lock in (None, parts[:2])
        elif len(parts) == ITEM_PARTS:
            noun = noun_of(*parts[:2])
            wanted = key is None and lock is None and which.item in (None, parts[column])
        else:
            return False
        after, before = which.newer, which.before
        here = (before is None or number < before.id) and (after is None or number > after)
        return wanted and here and which.event in (None, parts[2]) and (not which.nouns or noun in which.nouns)

    return fits


def _item_node(entry: QueueRecord, mark: str) -> tuple[str, str]:
    """The name of an item's entry, which contains everything that is searched for, and its content."""
    name = f"{entry.batch}.{entry.job}.{entry.event}.{entry.token}.{quote(entry.profile, safe='')}.{mark}:"
    spent = "" if entry.spent is None else f',"spent":{entry.spent:.3f}'
    reason = f',"reason":{quoted(entry.reason[:MESSAGE_LENGTH])}' if entry.reason else ""
    at = "" if entry.at is None else f',"at":"{rfc3339(entry.at)}"'
    who = f'"client":{quoted(entry.who)},"principal":{quoted(entry.principal)}'
    return name, f'{{{who},"before":"{entry.before}","after":"{entry.after}"{spent}{reason}{at}}}'


def _item_entry(number: int, parts: Sequence[str], content: Mapping[str, Any], at: datetime) -> Entry:
    """The entry in a node. Raises KeyError or ValueError for a foreign node."""
    batch, job, event, token, profile, _ = parts
    return Entry(
        number, datetime.fromisoformat(content["at"]) if "at" in content else at, noun_of(batch, job), event,
        unquote(profile), content["client"], "", int(token), content["before"], content["after"],
        content.get("reason", ""), job=job or batch, spent=content.get("spent"), principal=content.get("principal", ""),
    )  # fmt: skip

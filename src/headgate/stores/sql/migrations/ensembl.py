"""Take over the locks of a database of Ensembl's resource_lock; its own tables stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from headgate.core.ensembl import (
    REASON,
    ImportedLock,
    OldLock,
    Original,
    Takeover,
    plan_takeover,
    request_id,
    resource_name,
)
from headgate.core.locks.model import GRANT_EVENT, Mode, lock_id, resource_digest
from headgate.core.tables.states import LOCK
from headgate.stores.sql.database.facts import READ_TAG
from headgate.stores.sql.database.moments import MICROSECONDS, moment
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.locks import statements as sql
from headgate.stores.sql.locks.snapshots import read_lock

#: Number of resources that one statement asks for.
MANY = 200

READ_CLIENTS = Statement("The original's clients.", "select client_id, name from client order by client_id")
READ_RESOURCES = Statement("The original's resources.", "select resource_id, uri from resource order by resource_id")
READ_LOCKS = Statement(
    "The original's locks.",
    """select resource_lock_id, client_id, resource_id, lock_type, created
       from resource_lock order by resource_lock_id""",
)
COUNT_LATER = Statement(
    "Number of locks that were added to the original's table after the takeover.",
    "select count(*) from resource_lock where resource_lock_id > :last",
)
READ_WALL = Statement("The store's time.", "select {wall}")
READ_MARK = Statement("The record of the takeover.", "select value from hg_meta where name = 'ensembl'")
WRITE_MARK = Statement("Record the takeover.", "insert into hg_meta (name, value) values ('ensembl', :value)")


class TakeoverMark:
    """The fact that records the takeover."""

    def __init__(self, value: str) -> None:
        #: When, for people.
        self.at, _, last = value.partition(" ")
        #: The highest resource_lock_id at that time.
        self.last = int(last)


def read_mark(tx: Transaction) -> TakeoverMark | None:
    """The record of the takeover, if it was done."""
    row = tx.one(READ_MARK)
    return TakeoverMark(str(row[0])) if row else None


def count_later(tx: Transaction, mark: TakeoverMark) -> int:
    """Number of locks that programs have added to the original's table since the takeover."""
    return int(tx.one(COUNT_LATER, last=mark.last)[0])


def preview(tx: Transaction, *, store_is_there: bool) -> Takeover:
    """The changes that a takeover would make."""
    original = read_original(tx)
    return plan_takeover(original, _read_held(tx, _keys(original)) if store_is_there else {})


def take_over(tx: Transaction) -> Takeover | None:
    """Take all of it over within this transaction; None if that has been done already."""
    if read_mark(tx):
        return None
    original = read_original(tx)
    keys = _keys(original)
    for key, uri in keys.items():
        tx.run(sql.ADD_RESOURCE, rkey=key, uri=uri, known=True)
    rows = [row for some in _slices(list(keys)) for row in tx.all(sql.LOCK_RESOURCES, keys=some)]
    plan = plan_takeover(original, _read_held(tx, keys))
    for name in plan.clients:
        tx.run(sql.WRITE_CLIENT, name=name)
    _write_locks(tx, plan, {str(row[1]): row for row in rows})
    last = max((row.id for row in original.locks), default=0)
    tx.run(WRITE_MARK, value=f"{moment(tx.one(READ_WALL)[0]):%Y-%m-%dT%H:%M:%SZ} {last}")
    return plan


def read_original(tx: Transaction) -> Original:
    """All rows of the original's tables. NULL is not a name: its row is reported."""
    clients = {number: _text(name) for number, name in tx.all(READ_CLIENTS)}
    resources = {number: _text(uri) for number, uri in tx.all(READ_RESOURCES)}
    rows = tx.all(READ_LOCKS)
    locks = tuple(
        OldLock(int(str(number)), clients.get(client), resources.get(resource), _text(kind) or "", read_time(created))
        for number, client, resource, kind, created in rows
        if number is not None
    )
    unreadable = [f"client {number}: its name is NULL" for number, name in clients.items() if name is None]
    unreadable += [f"resource {number}: its uri is NULL" for number, uri in resources.items() if uri is None]
    unreadable += ["a row of resource_lock: its resource_lock_id is NULL" for row in rows if row[0] is None]
    return Original(_named(clients.values()), _named(resources.values()), locks, tuple(unreadable))


def _named(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(name for name in names if name is not None)


def read_time(value: object) -> datetime | None:
    """The original's time, which is UTC without a time zone; None if it is not a time (SQLite accepts any text)."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _text(value: object) -> str | None:
    """A column of a binary type comes as bytes; a NULL stays one."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _keys(original: Original) -> dict[bytes, str]:
    """The resources by their names here, with their keys, in order."""
    return dict(sorted((resource_digest(uri), uri) for uri in map(resource_name, original.resources)))


def _slices(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (keys[start : start + MANY] for start in range(0, len(keys), MANY))


def _read_held(tx: Transaction, keys: dict[bytes, str]) -> dict[str, list[tuple[Mode, str]]]:
    """The locks held here already: an expired lock counts until it is removed."""
    held: dict[str, list[tuple[Mode, str]]] = {}
    for some in _slices(list(keys)):
        for lock in map(read_lock, tx.all(sql.READ_LOCKS, keys=some)):
            held.setdefault(lock.resource, []).append((lock.mode, lock.client))
    return held


def _write_locks(tx: Transaction, plan: Takeover, rows: dict[str, Row]) -> None:
    tag = str(tx.one(READ_TAG)[0])
    for resource, locks in groupby(sorted(plan.locks, key=_resource), key=_resource):
        key, _, token, holders, mode, waiting, _, wall, floor = rows[resource]
        number, count = max(int(str(token)), int(str(floor))), int(str(holders))
        for lock in locks:
            number, count, mode = number + 1, count + 1, lock.mode.value
            _write_lock(tx, lock, lock_id(tag, resource, request_id(lock.row)), number, int(str(wall)))
        tx.run(
            sql.WRITE_RESOURCES,
            keys=[key], floor=number, given=0, holders=count, mode=mode, waiting=waiting, known=True,
        )  # fmt: skip


def _resource(lock: ImportedLock) -> str:
    return lock.resource


def _write_lock(tx: Transaction, lock: ImportedLock, new_id: str, token: int, wall: int) -> None:
    key, created = resource_digest(lock.resource), lock.row.created
    tx.run(
        sql.WRITE_LOCK,
        id=new_id, rkey=key, client=lock.client, mode=lock.mode.value, token=token,
        since=round(created.timestamp() * MICROSECONDS) if created else wall, lease=None, lock_delay=0,
        request_id=request_id(lock.row), owner="", note=f"{REASON} {lock.row.id}",
    )  # fmt: skip
    granted = tx.lock_rules.row(LOCK.start, GRANT_EVENT, lock.mode)
    tx.run(
        sql.WRITE_HISTORY,
        event=granted.event, rkey=key, client=lock.client, lock_id=new_id, token=token,
        before=granted.source, after=granted.target, reason=REASON,
    )  # fmt: skip

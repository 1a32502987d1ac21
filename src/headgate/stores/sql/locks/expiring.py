"""Freeing what dead holders and dead waiters left: many resources at once, in short steps.

The fast path frees resources without waiters, with a few statements regardless of their number. The rest takes the slow
path, which grants each resource to its next waiter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.locks.draft import EXPIRED
from headgate.core.locks.model import Mode
from headgate.core.locks.rules import summary
from headgate.core.locks.work import expire
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.locks import statements as sql
from headgate.stores.sql.locks.changes import Committed, carry_out

T = TypeVar("T")

#: Number of resources that one transaction frees: a step takes about as long as a few commits.
AT_ONCE = 500
#: The same for resources with waiters, each of which takes a few more statements.
AT_ONCE_SLOWLY = 25


class _Expired(NamedTuple):
    """Expired locks on resources without waiters, by id and key, and the URIs of other resources."""

    quiet: list[tuple[str, bytes]]
    busy: list[str]


class Expiry:
    """The expired locks and tickets of one database."""

    def __init__(self, database: Database, tag: str) -> None:
        self._database = database
        self._tag = tag
        #: The last lock that was found, in the order of the table: the next search starts after it.
        self._last = ""

    def expire(self, limit: int) -> Iterator[Committed[int]]:
        """End at most about `limit` expired locks, and remove dead waiters. Each step returns the number of locks."""
        quiet, busy = self._database.read(lambda tx: self._find(tx, limit))
        for locks in _steps(quiet, AT_ONCE):
            yield Committed(self._database.write(lambda tx: expire_quiet(tx, dict(locks))), [])  # noqa: B023 - run at once
        for uris in _steps(busy, AT_ONCE_SLOWLY):
            yield self._database.write(lambda tx: carry_out(tx, self._tag, uris, expire))  # noqa: B023 - the same

    def _find(self, tx: Transaction, limit: int) -> _Expired:
        found = tx.all(sql.READ_EXPIRED, after=self._last, limit=limit)
        if not found and self._last:
            found = tx.all(sql.READ_EXPIRED, after="", limit=limit)
        self._last = str(found[-1][0]) if len(found) == limit else ""
        plain = len(tx.lock_rules.fast.expire) == len(Mode)
        quiet: list[tuple[str, bytes]] = []
        busy: dict[str, None] = {str(row[0]): None for row in tx.all(sql.READ_DEAD_WAITERS, limit=limit)}
        for number, key, uri, waiting in found:
            if waiting or parse_chunk_resource(uri) or not plain:
                busy[str(uri)] = None
            else:
                quiet.append((str(number), bytes(key)))
        return _Expired(quiet, list(busy))


def expire_quiet(tx: Transaction, locks: Mapping[str, bytes]) -> int:
    """End those of these locks that have expired, if they have no waiters; busy ones are left for the next time."""
    quiet = {bytes(key): int(holders) for key, holders in tx.all(sql.TAKE_QUIET, keys=sorted(set(locks.values())))}
    ids = [lock for lock, key in locks.items() if key in quiet]
    taken = tx.all(sql.TAKE_EXPIRED, ids=ids) if ids else []
    if not taken:
        return 0
    ids, ended = [str(row[0]) for row in taken], Counter(bytes(row[1]) for row in taken)
    targets: dict[tuple[str, str], list[str]] = {}
    for mode, row in tx.lock_rules.fast.expire.items():
        targets.setdefault((row.event, row.target), []).append(mode.value)
    for (event, after), modes in targets.items():
        tx.run(sql.RECORD_EXPIRED, ids=ids, modes=modes, event=event, after=after, reason=EXPIRED)
    tx.run(sql.DELETE_LOCKS, ids=ids)
    _write_holders(tx, sorted(ended), [key for key, count in ended.items() if count < quiet[key]])
    return len(ids)


def _write_holders(tx: Transaction, keys: Sequence[bytes], shared: Sequence[bytes]) -> None:
    """Update the rows of resources without waiters from their locks; some of them are still held."""
    rows = tx.all(sql.COUNT_HOLDERS, keys=shared) if shared else []
    left = {bytes(key): (int(count), summary([Mode(mode)] * int(count)).value) for key, count, mode in rows}
    same: dict[tuple[int, str], list[bytes]] = {}
    for key in keys:
        same.setdefault(left.get(key, (0, summary([]).value)), []).append(key)
    for (holders, mode), each in same.items():
        tx.run(sql.WRITE_RESOURCES, keys=each, holders=holders, mode=mode, waiting=0, known=True, floor=0, given=0)


def _steps(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))

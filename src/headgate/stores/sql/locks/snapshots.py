"""Loads the snapshot for a decision about locks: resources, their locks and queues, under row locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from headgate.calls.actor import actor
from headgate.core.locks.decisions import by_resource
from headgate.core.locks.model import Lock, Mode, Waiter, resource_digest
from headgate.core.locks.snapshot import LockSnapshot, QueueEntry, ResourceSnapshot
from headgate.stores.sql.database.moments import moment, to_seconds
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.running import running_on
from headgate.stores.sql.locks import statements as sql

#: The first column after those of a lock, if a statement has one.
BESIDE = 13


class ResourceRow(NamedTuple):
    """A resource's row as it was read."""

    key: bytes
    token: int
    holders: int
    mode: str
    waiting: int
    known: bool


class LoadedLocks(NamedTuple):
    """A snapshot, and the rows that it was read from."""

    snapshot: LockSnapshot
    rows: dict[str, ResourceRow]


class ViewedLocks(NamedTuple):
    """A snapshot without tokens and times, and the seconds after which its leases and lock-delays end."""

    snapshot: LockSnapshot
    left: list[float]


def load(tx: Transaction, tag: str, resources: Sequence[str]) -> LoadedLocks:
    """Lock the rows of these resources, in order, so that nobody else decides about them, and read their locks and
    queues.
    """
    keys = {resource_digest(uri): uri for uri in resources}
    found = _take_rows(tx, keys)
    rows = {
        keys[bytes(key)]: ResourceRow(bytes(key), token, holders, mode, waiting, bool(known))
        for key, _, token, holders, mode, waiting, known, *_ in found
    }
    read, _ = _read(tx, {uri: row.key for uri, row in rows.items()}, running_on(tx, rows, tag, hold_still=True))
    snapshots = {uri: replace(each, token=rows[uri].token, known=rows[uri].known) for uri, each in read.items()}
    now, floor = moment(found[0][7]), int(found[0][8])
    return LoadedLocks(LockSnapshot(tag, snapshots, now, floor, actor(), tx.again, rules=tx.lock_rules), rows)


def view(tx: Transaction, tag: str, resources: Sequence[str]) -> ViewedLocks:
    """Read the locks and queues of these resources without locking anything, for a decision that changes nothing."""
    keys = {uri: resource_digest(uri) for uri in resources}
    snapshots, left = _read(tx, keys, running_on(tx, resources, tag, hold_still=False))
    return ViewedLocks(LockSnapshot(tag, snapshots, datetime.min.replace(tzinfo=UTC), rules=tx.lock_rules), left)


def _read(
    tx: Transaction, keys: Mapping[str, bytes], running: Sequence[Lock]
) -> tuple[dict[str, ResourceSnapshot], list[float]]:
    """The locks, queues and claims of these resources; and the seconds after which what is held now ends."""
    queues: dict[str, list[QueueEntry]] = {}
    for entry in read_queues(tx, list(keys.values())):
        queues.setdefault(entry.waiter.resource, []).append(entry)
    locks: dict[str, list[Lock]] = {}
    expired: dict[str, list[Lock]] = {}
    left = [each.expires_in for each in running if each.expires_in is not None]
    for row in tx.all(sql.READ_LOCKS, keys=list(keys.values())):
        ends = to_seconds(row[BESIDE])
        over = ends is not None and ends <= 0
        (expired if over else locks).setdefault(str(row[1]), []).append(read_lock(row))
        left += [] if over or ends is None else [ends]
    claims = by_resource(running)
    snapshots = {
        uri: ResourceSnapshot(
            uri, locks=tuple(locks.get(uri, ())), expired=tuple(expired.get(uri, ())),
            queue=tuple(queues.get(uri, ())), claims=tuple(claims.get(uri, ())),
        )
        for uri in keys
    }  # fmt: skip
    return snapshots, left


def read_lock(row: Row) -> Lock:
    """A row of lock columns as a lock."""
    lock_id, uri, client, mode, token, since, lease, left, count, owner, note, request_id, principal = row[:BESIDE]
    return Lock(
        id=str(lock_id),
        resource=str(uri),
        client=str(client),
        mode=Mode(mode),
        token=int(token),
        since=moment(since),
        lease=to_seconds(lease),
        expires_in=to_seconds(left),
        count=int(count),
        owner=str(owner),
        note=str(note),
        request_id=str(request_id),
        principal=str(principal),
    )


def read_queues(tx: Transaction, keys: Sequence[bytes]) -> list[QueueEntry]:
    """The wait queues of these resources, earliest first."""
    return [_read_entry(row) for row in tx.all(sql.READ_QUEUE, keys=keys)]


def read_line(tx: Transaction, key: bytes) -> tuple[list[QueueEntry], list[Lock]]:
    """The wait queue of a resource; and its locks, if a waiter may enter one of its own."""
    queue = read_queues(tx, [key])
    if all(entry.lock_id for entry in queue):
        return queue, []
    return queue, [lock for lock in map(read_lock, tx.all(sql.READ_LOCKS, keys=[key])) if lock.alive]


def _read_entry(row: Row) -> QueueEntry:
    ticket, uri, client, mode, since, owner, left, channel, lock_id, lease, principal, request_id = row
    waiter = Waiter(int(ticket), str(uri), str(client), Mode(mode), moment(since), str(owner))
    return QueueEntry(
        waiter, str(request_id), int(left) > 0, str(lock_id), to_seconds(lease), str(principal), str(channel)
    )


def _take_rows(tx: Transaction, keys: dict[bytes, str]) -> list[Row]:
    rows = tx.all(sql.LOCK_RESOURCES, keys=sorted(keys))
    if len(rows) < len(keys):
        missing = sorted(set(keys) - {bytes(row[0]) for row in rows})
        uris = [keys[key] for key in missing]
        tx.many(sql.ADD_RESOURCE, {"rkey": missing, "uri": uris}, known=False)
        rows = tx.all(sql.LOCK_RESOURCES, keys=sorted(keys))
    for key, uri, *_ in rows:
        if uri != keys[bytes(key)]:  # A repair restored the row without its name, which this caller knows.
            tx.run(sql.NAME_RESOURCE, rkey=key, uri=keys[bytes(key)])
    return rows

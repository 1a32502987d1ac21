"""Operations on a held lock, by its id: its resource is looked up, and the core decides.

Checking and renewing compare id, token, owner and lease within one statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headgate.calls.actor import actor, must_own
from headgate.core.errors import LockLost
from headgate.core.locks import work as lock_work
from headgate.core.locks.model import ENDINGS, Lock
from headgate.core.locks.snapshot import LockOutcome, LockSnapshot
from headgate.core.locks.work import LEASE_EXPIRED, NO_SUCH_LOCK, RELEASES, require_held, unknown_lock
from headgate.stores.sql.database.moments import moment, to_micro
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.locks import statements as sql
from headgate.stores.sql.locks.changes import Committed, carry_out
from headgate.stores.sql.locks.snapshots import read_lock

T = TypeVar("T")


def held(tx: Transaction, lock_id: str, token: int) -> Lock:
    """The current lock, or LockLost with the reason."""
    row = tx.one(sql.READ_LOCK, id=lock_id)
    if row is None:
        raise lost(tx, lock_id, token)
    lock = read_lock(row)
    must_own(f"lock {lock_id}", lock.principal)
    return require_held(lock, lock_id, token)


def renew(tx: Transaction, lock_id: str, token: int, lease: float | None) -> Lock:
    """Renew a lease that has not expired."""
    changed = tx.count(sql.RENEW_LOCK, id=lock_id, token=token, lease=to_micro(lease), principal=actor().compared)
    lock = held(tx, lock_id, token)
    if not changed and lock.lease is not None:
        raise LockLost(lock_id, token, LEASE_EXPIRED)
    return lock


def on_held(
    tx: Transaction, tag: str, lock_id: str, token: int, unit: Callable[[LockSnapshot, str, int], LockOutcome[T]]
) -> Committed[T]:
    """Run a unit of work on a lock that is held by that token; otherwise LockLost with its ending."""
    row = tx.one(sql.READ_LOCK, id=lock_id)
    if row is None:
        raise lost(tx, lock_id, token)
    try:
        return carry_out(tx, tag, [str(row[1])], lambda snapshot: unit(snapshot, lock_id, token))
    except LockLost as error:
        raise lost(tx, lock_id, token) if error.why == NO_SUCH_LOCK else error from None


def on_anybodys(
    tx: Transaction, tag: str, lock_id: str, unit: Callable[[LockSnapshot], LockOutcome[T]]
) -> Committed[T]:
    """Run a unit of work on any client's lock; UnknownName when there is none."""
    row = tx.one(sql.READ_LOCK, id=lock_id)
    if row is None:
        raise unknown_lock(lock_id)
    return carry_out(tx, tag, [str(row[1])], unit)


def release(tx: Transaction, tag: str, lock_id: str, token: int) -> Committed[None]:
    """Release one hold, or the lock. A repeat after a lost answer succeeds quietly."""
    try:
        return on_held(tx, tag, lock_id, token, lock_work.release)
    except LockLost:
        if tx.again and _was_released(tx, lock_id, token):
            return Committed(None, [])
        raise


def lost(tx: Transaction, lock_id: str, token: int) -> LockLost:
    """Return the error for a lost lock, with the reason from the history."""
    ends = [row for row in tx.all(sql.READ_END, lock_id=lock_id) if row[0] in ENDINGS]
    if not ends:
        return LockLost(lock_id, token, NO_SUCH_LOCK)
    event, _token, _client, reason, at = ends[0]
    why = f": {reason}" if reason else ""
    return LockLost(lock_id, token, f"{ENDINGS[event]} {moment(at):%Y-%m-%d %H:%M:%S} UTC{why}")


def _was_released(tx: Transaction, lock_id: str, token: int) -> bool:
    rows = tx.all(sql.READ_END, lock_id=lock_id)
    return any(event in RELEASES and row_token == token for event, row_token, *_ in rows)

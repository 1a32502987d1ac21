"""What a holder does with its lock. Every step compares id, token and lease within its write."""

from __future__ import annotations

import base64

from headgate.core.errors import LockLost, LockRefused, UnknownName
from headgate.core.locks import ENDINGS, Lock, Mode, Request, Want, claim_blockers, decide_upgrade
from headgate.core.owners import handed_reason
from headgate.stores.acting import actor, must_own
from headgate.stores.sql import lock_statements as sql
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.granting import Wakes
from headgate.stores.sql.moments import moment, to_micro
from headgate.stores.sql.scene import Scene, read_lock


def held(tx: Transaction, lock_id: str, token: int) -> Lock:
    """The lock as it is, or LockLost with the reason."""
    row = tx.one(sql.READ_LOCK, id=lock_id)
    if row is None:
        raise lost(tx, lock_id, token)
    lock = read_lock(row)
    must_own(f"lock {lock_id}", lock.principal)
    if lock.token != token:
        raise LockLost(lock_id, token, f"the token does not match: the lock has token {lock.token}")
    if not lock.alive:
        raise LockLost(lock_id, token, "its lease expired")
    return lock


def renew(tx: Transaction, lock_id: str, token: int, lease: float | None) -> Lock:
    """A live lease begins anew."""
    changed = tx.count(sql.RENEW_LOCK, id=lock_id, token=token, lease=to_micro(lease), principal=actor().compared)
    lock = held(tx, lock_id, token)
    if not changed and lock.lease is not None:
        raise LockLost(lock_id, token, "its lease expired")
    return lock


def release(tx: Transaction, tag: str, lock_id: str, token: int) -> Wakes:
    """One hold less, or the lock goes."""
    try:
        scene, lock = scene_of_held(tx, tag, lock_id, token)
    except LockLost:
        if tx.again and _was_released(tx, lock_id, token):
            return ()
        raise
    if lock.count > 1:
        scene.change(lock, "leave", count=-1)
    else:
        scene.end(lock, "release")
    return scene.settle()


def upgrade(tx: Transaction, tag: str, lock_id: str, token: int) -> Lock | LockRefused:
    """Shared to exclusive for the sole holder; a refusal is counted."""
    found = tx.one(sql.READ_LOCK, id=lock_id)
    if tx.again and found and read_lock(found).mode is Mode.EXCLUSIVE:
        must_own(f"lock {lock_id}", read_lock(found).principal)
        return read_lock(found)
    scene, lock = scene_of_held(tx, tag, lock_id, token)
    request = Request(lock.request_id, lock.client, (Want(lock.resource, Mode.EXCLUSIVE),), lock.lease)
    blockers = (*decide_upgrade(lock, scene.locks), *claim_blockers(request, scene.claims))
    if blockers:
        scene.refuse(request, blockers)
        scene.settle()
        return LockRefused(request, blockers)
    upgraded = scene.change(lock, "upgrade")
    scene.settle()
    return upgraded


def downgrade(tx: Transaction, tag: str, lock_id: str, token: int) -> tuple[Lock, Wakes]:
    """Exclusive to shared."""
    scene, lock = scene_of_held(tx, tag, lock_id, token)
    if tx.again and lock.mode is Mode.SHARED:
        return lock, ()
    return scene.change(lock, "downgrade"), scene.settle()


def break_lock(tx: Transaction, tag: str, lock_id: str, reason: str, by: str) -> tuple[Lock, Wakes]:
    """Anybody's lock goes."""
    scene, lock = _scene_of(tx, tag, lock_id)
    scene.end(lock, "break", reason, by)
    return lock, scene.settle()


def hand_over(tx: Transaction, tag: str, lock_id: str, to: str, reason: str) -> tuple[Lock, Wakes]:
    """The lock belongs to another principal, by a new token."""
    scene, lock = _scene_of(tx, tag, lock_id)
    if not lock.alive:
        raise unknown(lock_id)
    if tx.again and lock.principal == to:
        return lock, ()
    must_own(f"lock {lock_id}", lock.principal)
    return scene.change(lock, "hand-over", owner=to, reason=handed_reason(lock.principal, to, reason)), scene.settle()


def _scene_of(tx: Transaction, tag: str, lock_id: str) -> tuple[Scene, Lock]:
    """The resource of anybody's lock, and the lock; UnknownName when there is none."""
    found = tx.one(sql.READ_LOCK, id=lock_id)
    scene = Scene(tx, [found[1]], tag) if found else None
    lock = next((each for each in scene.locks if each.id == lock_id), None) if scene else None
    if scene is None or lock is None:
        raise unknown(lock_id)
    return scene, lock


def unknown(lock_id: str) -> UnknownName:
    """There is no such lock."""
    return UnknownName("lock", lock_id, "It may have been released; list locks with: headgate lock list")


def scene_of_held(tx: Transaction, tag: str, lock_id: str, token: int) -> tuple[Scene, Lock]:
    """The resource of a lock that is held by that token, and the lock; LockLost otherwise."""
    seen = held(tx, lock_id, token)
    scene = Scene(tx, [seen.resource], tag)
    lock = next((each for each in scene.locks if each.id == lock_id and each.token == token), None)
    if lock is None or not lock.alive:
        raise lost(tx, lock_id, token)
    return scene, lock


def lost(tx: Transaction, lock_id: str, token: int) -> LockLost:
    """Why a lock is not there, as the history tells it."""
    low, high = _key_range(lock_id)
    ends = [row for row in tx.all(sql.READ_END, low=low, high=high, lock_id=lock_id) if row[0] in ENDINGS]
    if not ends:
        return LockLost(lock_id, token, "there is no such lock, now or in the history")
    event, _token, _client, reason, at = ends[0]
    why = f": {reason}" if reason else ""
    return LockLost(lock_id, token, f"{ENDINGS[event]} {moment(at):%Y-%m-%d %H:%M:%S} UTC{why}")


def _was_released(tx: Transaction, lock_id: str, token: int) -> bool:
    low, high = _key_range(lock_id)
    rows = tx.all(sql.READ_END, low=low, high=high, lock_id=lock_id)
    return any(event in ("release", "leave") and row_token == token for event, row_token, *_ in rows)


def _key_range(lock_id: str) -> tuple[bytes, bytes]:
    """A lock's id has the first ten bytes of its resource's key."""
    try:
        start = base64.b32decode(lock_id.split("-")[1].upper())
    except ValueError:
        start = b"\0" * 10
    return start + b"\0" * 22, start + b"\xff" * 22

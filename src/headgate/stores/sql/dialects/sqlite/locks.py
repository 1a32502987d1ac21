"""Grants and releases on SQLite: a few statements in one transaction."""

from __future__ import annotations

from typing import Any

from headgate.core.locks.model import Mode
from headgate.stores.sql.database.dialect import CHUNK, Freed, Granted, Parameters
from headgate.stores.sql.database.sql_text import Statement

GRANT_RESOURCE = Statement(
    "Count one more holder of a resource that is free for this mode, and return the new token.",
    """insert into hg_resource as r (rkey, uri, token, holders, mode, waiting, known)
       values (:rkey, :uri, {token_floor} + 1, 1, :mode, 0, 1)
       on conflict (rkey) do update
         set token = max(r.token + 1, excluded.token), holders = r.holders + 1, mode = {joined_mode}, known = 1
         where r.waiting = 0 and {joins}
       returning token, {wall}""",
)
GRANT_LOCK = Statement(
    "Write the lock.",
    """insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                            request_id, owner, note, principal)
       values (:id, :rkey, :client, :mode, :token, :since, :lease, {now} + :lease, :lock_delay, 1,
               :request_id, :owner, :note, :principal)""",
)
GRANT_HISTORY = Statement(
    "Record the grant in the history.",
    """insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                               principal)
       values (:since, 'lock', {grant_event}, substr(:id, 6, 16), :id, :client, :token, {grant_source}, :mode, '',
               :principal)""",
)
RELEASE_LOCK = Statement(
    "Remove a live lock that is held once.",
    """delete from hg_lock
       where id = :id and token = :token and count = 1 and (lease_until is null or lease_until > {now})
         and {owned} and {releasable}
       returning rkey, client, mode""",
)
RELEASE_RESOURCE = Statement(
    "Count one holder less, and check for waiters.",
    f"update hg_resource set holders = holders - 1 where rkey = :rkey returning waiting, {CHUNK.format('uri')}",
)
RELEASE_HISTORY = Statement(
    "Record the release in the history.",
    """insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                               principal)
       values ({wall}, 'lock', {release_event}, substr(:id, 6, 16), :id, :client, :token, :mode, :after, '',
               :principal)""",
)


def grant(tx: Any, params: Parameters) -> Granted | None:
    """Grant a free resource; None when something may block it."""
    row = tx.one(GRANT_RESOURCE, **params)
    if row is None:
        return None
    granted = Granted(*row)
    tx.run(GRANT_LOCK, **params, token=granted.token, since=granted.since)
    tx.run(GRANT_HISTORY, **params, token=granted.token, since=granted.since)
    return granted


def release(tx: Any, params: Parameters) -> Freed | None:
    """Release a live lock that is held once; None: the slow path must decide."""
    gone = tx.one(RELEASE_LOCK, **params)
    if gone is None:
        return None
    rkey, client, mode = gone
    waiting, chunk = tx.one(RELEASE_RESOURCE, rkey=rkey)
    after = tx.lock_rules.fast.release[Mode(mode)].target
    tx.run(RELEASE_HISTORY, **params, client=client, mode=mode, after=after)
    return Freed(waiting, rkey, handed=False, chunk=chunk)

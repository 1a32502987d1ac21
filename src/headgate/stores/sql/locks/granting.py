"""Granting at once: in one trip when the resource is free; otherwise the slow path decides."""

from __future__ import annotations

from headgate.calls.idempotency import is_keyed
from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.locks.model import Lock, Request, resource_digest
from headgate.core.locks.tickets import Granted
from headgate.stores.sql.database.clock import steady
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import moment, to_micro
from headgate.stores.sql.database.transaction import Duplicate


def grant_quickly(database: Database, tag: str, request: Request) -> Granted:
    """A lock on one free resource, in one trip; None if the slow path must decide."""
    want = request.wants[0]
    if len(request.wants) > 1 or request.reentrant or is_keyed() or parse_chunk_resource(want.resource):
        return ()
    if want.mode not in database.options.lock_rules.fast.grant:
        return ()
    lock_id = request.lock_id(tag, want.resource)
    params = {
        "rkey": resource_digest(want.resource), "uri": want.resource, "mode": want.mode.value, "id": lock_id,
        "client": request.client, "lease": to_micro(request.lease), "lock_delay": to_micro(request.lock_delay),
        "request_id": request.id, "owner": request.owner, "note": request.note,
        "principal": request.principal,
    }  # fmt: skip
    sent = steady()
    try:
        granted = database.dialect.grant(database, params)
    except Duplicate:  # The same request was granted before: the slow path finds it.
        return ()
    if granted is None:
        return ()
    database.hear(int(granted.since), sent)
    return (
        Lock(
            lock_id, want.resource, request.client, want.mode, int(granted.token), moment(granted.since),
            request.lease, request.lease, 1, request.owner, request.note, request.id, request.principal,
        ),
    )  # fmt: skip

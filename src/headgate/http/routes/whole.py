"""The whole store over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate import __version__
from headgate.core.history import Entry, Happened
from headgate.core.locks.model import Lock
from headgate.core.tables.describe import machine_data
from headgate.core.tables.states import CHUNK, LOCK, MERRITT_BATCH
from headgate.http.api.handlers import ApiCall, Handlers
from headgate.http.routes.locks import shown_lock
from headgate.operations import whole
from headgate.operations.declaring import Page

handlers = Handlers(whole.declared)


@handlers.of(whole.about)
def about(call: ApiCall) -> dict[str, Any]:
    """The service and its caller."""
    gate, who = call.gate, call.who
    return {
        "version": __version__,
        "store": gate.upkeep.name,
        "tag": gate.upkeep.tag,
        "spelling": "mrt-zk" if gate.queue.tables()[0] is MERRITT_BATCH else "design",
        "ledger": gate.keeps_ledger,
        "inventory": gate.keeps_inventory,
        "guards": gate.guards,
        "token": who.token.name,
        "scopes": who.token.scopes,
        "principal": who.principal,
    }


@handlers.of(whole.status)
def status(call: ApiCall, *, rich: bool) -> dict[str, Any]:
    """Holders as visible to the caller."""
    found = call.gate.status(rich=rich)
    if rich:
        found["holders"] = [shown_lock(call.who.seen(Lock(**each))) for each in found["holders"]]
    return found


@handlers.of(whole.machines)
def machines(call: ApiCall) -> Page[dict[str, Any]]:
    """The queue's tables in the store's spelling."""
    return Page([machine_data(each) for each in (LOCK, CHUNK, *call.gate.queue.tables())])


@handlers.of(whole.history)
def history(call: ApiCall, **which: Any) -> Page[Entry]:
    """Its cursor is the history's own."""
    found = call.gate.history(**which)
    return Page(found, found.next)


@handlers.of(whole.history_counts)
def history_counts(call: ApiCall, *, event: Sequence[str], since: datetime | None) -> Page[Happened]:
    """By hour."""
    return Page(call.gate.history.count(since or datetime.now(UTC) - timedelta(days=1), event))


@handlers.of(whole.reap)
def reap(call: ApiCall, *, of: str, limit: int, by: str) -> int:
    """Of one noun."""
    gate = call.gate
    if of == "locks":
        return gate.locks.expire(limit=limit)
    return gate.ledger.reap(limit=limit, by=by) if of == "ledger" else gate.queue.reap(limit)

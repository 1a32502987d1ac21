"""Getting locks for callers, without a thread for each who waits."""

from __future__ import annotations

import asyncio

from headgate.core.errors import BadValue, StoreUnavailable
from headgate.core.locks import Request, resource_key
from headgate.core.names import check_name, check_note, check_request_id
from headgate.http.auth import Caller
from headgate.http.schemas import LockAsked
from headgate.http.service import Service
from headgate.service.checks import check_lease, check_span
from headgate.service.clock import steady
from headgate.service.identity import new_request_id
from headgate.service.locks import check_wants
from headgate.stores.base import Grant, Ticket
from headgate.wiring import Gate


def request_of(asked: LockAsked, who: Caller, key: str | None, gate: Gate) -> Request:
    """What the store is asked for, if the caller may."""
    if (asked.resource is None) == (asked.resources is None):
        raise BadValue("resource", asked.resource, "or else `resources` is to be named: one of the two")
    resources = asked.resources if asked.resources is not None else {str(asked.resource): asked.mode}
    wants = check_wants(resources)
    for want in wants:
        who.must_reach("lock:acquire", want.resource)
    return Request(
        id=new_request_id() if key is None else check_request_id(key),
        client=check_name("client", asked.client),
        wants=wants,
        lease=check_lease(asked.lease),
        lock_delay=max(check_span("lock_delay", asked.lock_delay), gate.settings.number("lock_delay")),
        reentrant=asked.reentrant,
        owner=check_note("owner", asked.owner)[:255] or who.by(),
        note=check_note("note", asked.note),
        fresh=key is None,
    )


def group_of(ticket: Ticket) -> tuple[str, ...]:
    """Those who wait for the same resources stand behind each other."""
    return ("lock", *(resource_key(want.resource) for want in ticket.request.wants))


async def obtain(service: Service, request: Request, deadline: float) -> Grant:
    """All that is wanted, by the deadline (on steady()); LockRefused otherwise, and nothing is taken."""
    locks, run = service.gate.locks, service.lane.run
    if deadline <= steady():
        return await run(locks.grant, request)
    found = await run(service.gate.store.queue_up, request)
    if not isinstance(found, Ticket):
        return await run(locks.guarded, request, found)
    return await run(locks.guarded, request, await _wait(service, found, deadline))


async def _wait(service: Service, ticket: Ticket, deadline: float) -> Grant:
    """Until the turn has come; a caller that hangs up leaves the queue."""
    store = service.gate.store

    def look() -> Grant | None:
        try:
            return store.take_turn(ticket)
        except StoreUnavailable:  # It may be back before the time to wait is over.
            return None

    try:
        async with service.turns.keeping(ticket):
            grant = await service.turns.wait(group_of(ticket), look, deadline, ticket.number)
        return await service.lane.run(store.give_up, ticket) if grant is None else grant
    except asyncio.CancelledError:
        await asyncio.shield(service.lane.run(store.withdraw, ticket))
        raise

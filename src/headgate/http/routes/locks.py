"""Locks over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse

from headgate.core.errors import BadValue, LockLost, LockRefused, UnknownName
from headgate.core.locks.model import Lock
from headgate.core.locks.model import Request as LockRequest
from headgate.core.locks.parsing import parse_lock_id
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.values.names import check_note
from headgate.core.values.wire import plain
from headgate.gate import Gate
from headgate.http.access.auth import Caller
from headgate.http.api.handlers import LIMITS, SHOWN, ApiCall, Handlers, page, page_after
from headgate.http.waiters import obtaining
from headgate.http.waiters.waiting import asked_to_wait
from headgate.operations import locks
from headgate.operations.declaring import Page
from headgate.service.checks import check_span
from headgate.service.leases.clock import steady
from headgate.service.locks.requests import checked_request
from headgate.service.locks.waiting import PAUSE_SECONDS, waits_outside
from headgate.service.locks.wants import check_wants

handlers = Handlers(locks.declared)
#: For a waiter without a position.
NO_NUMBER = 0


def shown_lock(lock: Lock) -> dict[str, Any]:
    """A lock; its request's id is left out, because it is private to the holder."""
    document: dict[str, Any] = plain(lock)
    del document["request_id"]
    return document


SHOWN[Lock, False] = lambda lock, who: who.shown(lock)
SHOWN[Lock, True] = lambda lock, who: shown_lock(who.seen(lock))


@handlers.of(locks.acquire)
async def acquire(call: ApiCall, *, wait: float, **asked: Any) -> Granted:
    """With `wait`, wait without a thread."""
    wanted = request_of(call.gate, call.who, **asked)
    turns, steps = call.service.turns, call.service.gate.locks.steps
    return await asked_to_wait(call.request, wait, obtaining.obtain(turns, steps, wanted, steady() + wait))


@handlers.of(locks.list_locks)
def list_locks(call: ApiCall, *, claims: bool, after: str | None, limit: int, **which: Any) -> Page[Lock]:
    """Those that the caller may see."""

    def ask(behind: str | None) -> Sequence[Lock]:
        if claims:
            running = call.gate.ledger.claims()
            return [lock for lock in running if behind is None or lock.id > behind][: limit + 1]
        return call.gate.locks.list(**which, after=behind, limit=limit + 1)

    return page(_all_seen(call.who, ask, after, limit), limit, lambda lock: lock.id)


@handlers.of(locks.get)
def get(call: ApiCall, *, lock_id: str) -> Lock:
    """If the caller may see it."""
    lock = call.gate.locks.get(lock_id)
    call.who.must_see("lock", "lock:acquire", lock.resource, lock_id)
    return lock


@handlers.of(locks.unguarded)
def unguarded(call: ApiCall, *, after: str | None, limit: int) -> Page[locks.Unguarded]:
    """Each with the reason."""
    found = [locks.Unguarded(fault.item, fault.what) for fault in call.gate.locks.tending.faults()]
    return page_after(found, after, limit, lambda each: each.lock)


# ---------------------------------------------------------------- waiting, step by step


@handlers.of(locks.queue_up)
def queue_up(call: ApiCall, *, wait: float, **asked: Any) -> Any:
    """Return the ticket, or the locks."""
    del wait
    found = call.gate.locks.steps.queue_up(request_of(call.gate, call.who, **asked))
    if isinstance(found, Ticket):
        return found.number
    return JSONResponse(call.who.shown({"locks": found}), 201)


@handlers.of(locks.take_turn)
async def take_turn(call: ApiCall, *, wait: float, **asked: Any) -> Granted | None:
    """Wait without a thread."""
    service, wanted, until = call.service, _waited_for(call, **asked), steady() + wait

    async def turn() -> Granted | None:
        place = await service.crew.run(_place, service.gate, wanted)
        while place is None and steady() + PAUSE_SECONDS < until:  # A program outside blocks it.
            await asyncio.sleep(PAUSE_SECONDS)
            place = await service.crew.run(_place, service.gate, wanted)
        if not isinstance(place, Ticket):
            return place
        return await obtaining.take_turn(service.turns, service.gate.locks.steps, place, until)

    return await asked_to_wait(call.request, wait, turn()) or None


@handlers.of(locks.give_up)
def give_up(call: ApiCall, **asked: Any) -> Granted:
    """The grant, if it was made meanwhile."""
    wanted = _waited_for(call, **asked)
    place = call.gate.locks.steps.place_of(wanted) or call.gate.locks.steps.queue_up(wanted)
    return call.gate.locks.steps.give_up(place) if isinstance(place, Ticket) else place


@handlers.of(locks.withdraw)
async def withdraw(call: ApiCall, **asked: Any) -> None:
    """Whatever happened."""
    service, wanted = call.service, _waited_for(call, **asked)
    place = await service.crew.run(service.gate.locks.steps.place_of, wanted) or Ticket(NO_NUMBER, wanted)
    await service.crew.run(service.gate.locks.steps.withdraw, wanted, place)


def request_of(
    gate: Gate, who: Caller, *, client: str, resource: str | None, mode: str, resources: dict[str, str] | None,
    lease: float | None, reentrant: bool, note: str, owner: str, lock_delay: float, request_id: str | None,
) -> LockRequest:  # fmt: skip
    """The lock request, if the caller may make it."""
    if (resource is None) == (resources is None):
        raise BadValue("resource", resource, "or `resources` is required: give one of the two")
    wants = check_wants({str(resource): mode} if resources is None else resources, gate.locks.resource_limit)
    for want in wants:
        who.must_reach("lock:acquire", want.resource)
    wanted = checked_request(
        client, wants, lease=lease, reentrant=reentrant, note=note, request_id=request_id,
        lock_delay=max(check_span("lock_delay", lock_delay), gate.settings.seconds("lock_delay")),
        owner=check_note("owner", owner)[:255] or who.by(),
    )  # fmt: skip
    return replace(wanted, outlives=True)


def _waited_for(call: ApiCall, *, request_id: str, ticket: int, wait: float = 0, **asked: Any) -> LockRequest:
    """The request of a waiter. Its request id proves the position; the number in the path proves nothing."""
    del ticket, wait
    return request_of(call.gate, call.who, request_id=call.who.request_id(None, request_id), **asked)


def _place(gate: Gate, wanted: LockRequest) -> Ticket | Granted | None:
    """The position of a request in the queue, or its grant; None: it has neither, because a program outside Headgate
    blocks it.
    """
    try:
        return gate.locks.steps.place_of(wanted) or gate.locks.steps.queue_up(wanted)
    except LockRefused as refused:
        if waits_outside(refused):
            return None
        raise


def _all_seen(
    who: Caller, ask: Callable[[str | None], Sequence[Lock]], after: str | None, limit: int
) -> Sequence[Lock]:
    """A page of visible locks, plus one: reading continues where others' locks leave room."""
    found: list[Lock] = []
    while len(found) <= limit:
        portion = ask(after)
        found += [each for each in portion if who.reach.has("read") or who.reach.covers("lock:acquire", each.resource)]
        if len(portion) <= limit:
            break
        after = portion[-1].id
    return found[: limit + 1]


def _check_own(call: ApiCall, *, lock_id: str, token: int | None = None, **_: Any) -> None:
    """For a token that is limited to some resources: whether the lock is on one of them; otherwise it is reported as
    missing.
    """
    parse_lock_id(lock_id)
    reach = call.who.reach
    if reach.covers("lock:acquire", "") or (token is None and reach.has("admin:force")):
        return
    try:
        reached = reach.covers("lock:acquire", call.gate.locks.get(lock_id).resource)
    except UnknownName:
        reached = False
    if not reached:
        raise LockLost(lock_id, token, "there is no such lock")


LIMITS["lock_id"] = _check_own

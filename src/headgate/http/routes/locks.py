"""Locks over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import Query, Request, Response

from headgate.core.errors import LockLost, LockRefused, UnknownName
from headgate.core.locks import Lock, Waiter, parse_lock_id
from headgate.core.locks import Request as LockRequest
from headgate.http import direct
from headgate.http.auth import Caller, Forcer, Reader, TheGate, TheService, needs
from headgate.http.obtaining import group_of, obtain, request_of
from headgate.http.repeats import BROKEN, GRANTS, HARMLESS, NOTHING, RESULT, under
from headgate.http.schemas import (
    Acted,
    After,
    Granted,
    HandedOver,
    Key,
    Limit,
    LockAsked,
    Page,
    Renewal,
    RequestId,
    Ticketed,
    Tokened,
    Unguarded,
    WaiterAsked,
    answer,
    documented,
    nothing,
    page,
    page_after,
    shown_lock,
)
from headgate.http.waiting import asked_to_wait
from headgate.service.clock import steady
from headgate.service.obtaining import PAUSE_SECONDS, waits_outside
from headgate.stores.base import Grant, Ticket
from headgate.wiring import Gate

router = direct.router("locks")
Holder = Annotated[Caller, needs("lock:acquire")]
Looker = Annotated[Caller, needs("read", "lock:acquire")]
Giver = Annotated[Caller, needs("lock:acquire", "admin:force")]
#: Of a waiter that has no place.
NO_NUMBER = 0
TokenGiven = Annotated[int, Query(ge=1, lt=2**63, description="Token of the grant.")]


@router.post("/locks", GRANTS, status_code=201, responses=documented(201, Granted, "Granted, with a new token."))
async def acquire(
    request: Request, service: TheService, who: Holder, asked: LockAsked, key: Key = None, again: RequestId = None
) -> Response:
    """Acquire locks: all that are named, or none. With `wait`, wait in the queue up to that many seconds.

    409 names the blocking clients and says when to retry.
    """
    wanted = request_of(asked, who, who.request_id(key, again), service.gate)
    grant = await asked_to_wait(request, asked.wait, obtain(service, wanted, steady() + asked.wait))
    return answer(who.shown({"locks": grant}), 201)


@router.get("/locks", responses=documented(200, Page[Lock], "Locks that are held, by id."))
def list_locks(
    gate: TheGate,
    who: Looker,
    resource: str | None = None,
    client: str | None = None,
    mode: str | None = None,
    claims: Annotated[bool, Query(description="Only claims of chunks.")] = False,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List locks with their holders. Running claims of chunks are included."""

    def ask(behind: str | None) -> Sequence[Lock]:
        if claims:
            return [lock for lock in gate.ledger.claims() if behind is None or lock.id > behind][: limit + 1]
        return gate.locks.list(resource, client, mode, after=behind, limit=limit + 1)

    return page(_all_seen(who, ask, after, limit), limit, lambda lock: lock.id, lambda lock: shown_lock(who.seen(lock)))


@router.get("/locks/{lock_id}", responses=documented(200, Lock, "The lock."))
def get(gate: TheGate, who: Looker, lock_id: str) -> Response:
    """Return one lock that is held."""
    return answer(shown_lock(who.seen(_seen(gate, who, lock_id))))


@router.delete("/locks/{lock_id}", status_code=204)
async def release(service: TheService, who: Holder, lock_id: str, token: TokenGiven) -> Response:
    """Release a lock. 409, without any change, if it is not yours."""

    def work() -> None:
        _own(service.gate, who, lock_id, token)
        service.gate.locks.release(lock_id, token)

    await service.crew.run(work)
    service.ring(("lock", lock_id.split("-")[1]))
    return nothing()


@router.post("/locks/{lock_id}/renew", RESULT, responses=documented(200, Lock, "The lease starts again."))
async def renew(service: TheService, who: Holder, lock_id: str, given: Renewal) -> Response:
    """Renew the lease of a lock. 409 if it has expired: an expired lease cannot be renewed."""

    def work() -> Lock:
        _own(service.gate, who, lock_id, given.token)
        return service.gate.locks.renew(lock_id, given.token, lease=given.lease)

    return answer(who.shown(await service.crew.run(work)))


@router.post("/locks/{lock_id}/check", HARMLESS, responses=documented(200, Lock, "The lock is yours."))
def check(gate: TheGate, who: Holder, lock_id: str, given: Tokened) -> Response:
    """Check whether a lock is still yours."""
    _own(gate, who, lock_id, given.token)
    return answer(who.shown(gate.locks.check(lock_id, given.token)))


@router.post("/locks/{lock_id}/upgrade", RESULT, responses=documented(200, Lock, "Exclusive, with a new token."))
def upgrade(gate: TheGate, who: Holder, lock_id: str, given: Tokened) -> Response:
    """Upgrade a lock from shared to exclusive, for the sole holder. Never waits."""
    _own(gate, who, lock_id, given.token)
    return answer(who.shown(gate.locks.upgrade(lock_id, given.token)))


@router.post("/locks/{lock_id}/downgrade", RESULT, responses=documented(200, Lock, "Shared, with the same token."))
def downgrade(gate: TheGate, service: TheService, who: Holder, lock_id: str, given: Tokened) -> Response:
    """Downgrade a lock from exclusive to shared, in one step."""
    _own(gate, who, lock_id, given.token)
    changed = gate.locks.downgrade(lock_id, given.token)
    service.ring(("lock", lock_id.split("-")[1]))
    return answer(who.shown(changed))


@router.post(
    "/locks/{lock_id}/hand-over",
    RESULT,
    responses=documented(200, Lock, ("The lock of the new owner, with a new token.")),
)
def hand_over(gate: TheGate, who: Giver, lock_id: str, given: HandedOver) -> Response:
    """Hand a lock over to another principal. It gets a new token, which only the new owner can read; the former
    holder can no longer use it.
    """
    _own(gate, who, lock_id)
    handed = gate.locks.hand_over(lock_id, to=given.to, reason=given.reason)
    return answer(shown_lock(who.seen(handed)))


@router.post("/locks/{lock_id}/break", BROKEN, responses=documented(200, Lock, "The lock that was broken."))
def break_lock(gate: TheGate, service: TheService, who: Forcer, lock_id: str, act: Acted) -> Response:
    """Break a lock: its token becomes stale, and the reason is recorded."""
    broken = gate.locks.break_lock(lock_id, reason=act.reason, by=who.by(act.by))
    service.ring(("lock", lock_id.split("-")[1]))
    return answer(shown_lock(broken))


@router.get("/guards/missing", responses=documented(200, Page[Unguarded], "By lock id."))
def unguarded(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List persistent locks whose storage guard is missing. The service retries every few seconds."""
    found = sorted(gate.locks.tending.faults(), key=lambda fault: fault.item)
    return page_after(
        found, after, limit, lambda fault: fault.item, lambda fault: {"lock": fault.item, "what": fault.what}
    )


# ---------------------------------------------------------------- waiting, step by step


@router.get("/waiters", responses=documented(200, Page[Waiter], "Earliest first."))
def waiters(
    gate: TheGate, _who: Reader, resource: str | None = None, after: After = None, limit: Limit = 100
) -> Response:
    """List waiters with the resources they wait for."""
    return page_after(sorted(gate.locks.waiters(resource), key=_arrival), after, limit, _arrival)


@router.post(
    "/waiters",
    GRANTS,
    status_code=202,
    responses={**documented(202, Ticketed, "A queue position."), **documented(201, Granted, "Granted at once.")},
)
def queue_up(gate: TheGate, who: Holder, asked: LockAsked, key: Key = None, again: RequestId = None) -> Response:
    """Acquire locks, or join the queue for them. Poll at least every few seconds, or the queue position is lost.

    `POST /locks` with `wait` does all of this in one request.
    """
    found = gate.locks.queue_up(request_of(asked, who, who.request_id(key, again), gate))
    if isinstance(found, Ticket):
        return answer({"ticket": found.number}, 202)
    return answer(who.shown({"locks": found}), 201)


@router.post(
    "/waiters/{ticket}/turn",
    HARMLESS,
    responses=documented(200, Granted, "Granted.", nothing="Still waiting."),
)
async def take_turn(request: Request, service: TheService, who: Holder, ticket: int, asked: WaiterAsked) -> Response:
    """Poll a queue position for up to `wait` seconds, which also keeps it. A position that was lost is replaced by
    one at the end of the queue.
    """
    del ticket
    wanted, until = _waited_for(who, asked, service.gate), steady() + asked.wait

    async def turn() -> Grant | None:
        place = await service.crew.run(_place, service.gate, wanted)
        while place is None and steady() + PAUSE_SECONDS < until:  # A program outside is in the way.
            await asyncio.sleep(PAUSE_SECONDS)
            place = await service.crew.run(_place, service.gate, wanted)
        if not isinstance(place, Ticket):
            return place
        async with service.turns.keeping(place):
            look = lambda: service.gate.locks.take_turn(place)  # noqa: E731 - one line, used once
            return await service.turns.wait(group_of(place), look, until, place.number)

    grant = await asked_to_wait(request, asked.wait, turn())
    return answer(who.shown({"locks": grant})) if grant else nothing()


@router.post("/waiters/{ticket}/give-up", under("locks"), responses=documented(200, Granted, "Granted meanwhile."))
async def give_up(service: TheService, who: Holder, ticket: int, asked: WaiterAsked) -> Response:
    """Leave the queue. 409 names the blocking clients."""
    del ticket
    wanted = _waited_for(who, asked, service.gate)

    def work() -> Grant:
        place = service.gate.locks.place_of(wanted) or service.gate.locks.queue_up(wanted)
        return service.gate.locks.give_up(place) if isinstance(place, Ticket) else place

    return answer(who.shown({"locks": await service.crew.run(work)}))


@router.post("/waiters/{ticket}/withdraw", NOTHING, status_code=204)
async def withdraw(service: TheService, who: Holder, ticket: int, asked: WaiterAsked) -> Response:
    """Leave the queue in any case; a lock that was granted meanwhile is released."""
    del ticket
    wanted = _waited_for(who, asked, service.gate)
    place = await service.crew.run(service.gate.locks.place_of, wanted) or Ticket(NO_NUMBER, wanted)
    await service.crew.run(service.gate.locks.withdraw, wanted, place)
    service.turns.ring(*(("lock", each) for each in group_of(place)[1:]))
    return nothing()


def _arrival(waiter: Waiter) -> str:
    """By when it came, then by its queue position."""
    return f"{waiter.since.timestamp():020.6f} {waiter.ticket:020} {waiter.client}"


def _waited_for(who: Caller, asked: WaiterAsked, gate: Gate) -> LockRequest:
    """What a waiter asked for. Its request id proves the place; the number in the path proves nothing."""
    return request_of(asked, who, who.request_id(None, asked.request_id), gate)


def _place(gate: Gate, wanted: LockRequest) -> Ticket | Grant | None:
    """The place of a request in the queue, or what it was granted meanwhile; None: it has none, since a program outside
    Headgate is in the way.
    """
    try:
        return gate.locks.place_of(wanted) or gate.locks.queue_up(wanted)
    except LockRefused as refused:
        if waits_outside(refused):
            return None
        raise


def _seen(gate: Gate, who: Caller, lock_id: str) -> Lock:
    lock = gate.locks.get(lock_id)
    who.must_see("lock", "lock:acquire", lock.resource, lock_id)
    return lock


def _all_seen(
    who: Caller, ask: Callable[[str | None], Sequence[Lock]], after: str | None, limit: int
) -> Sequence[Lock]:
    """A page of what the caller may see, and one more: it goes on where others' locks leave room in it."""
    found: list[Lock] = []
    while len(found) <= limit:
        portion = ask(after)
        found += [each for each in portion if who.reach.has("read") or who.reach.covers("lock:acquire", each.resource)]
        if len(portion) <= limit:
            break
        after = portion[-1].id
    return found[: limit + 1]


def _own(gate: Gate, who: Caller, lock_id: str, token: int | None = None) -> None:
    """Of a token that is limited to some resources, whether the lock is on one of them; else, as if it were gone."""
    parse_lock_id(lock_id)
    if who.reach.covers("lock:acquire", "") or (token is None and who.reach.has("admin:force")):
        return
    try:
        reached = who.reach.covers("lock:acquire", gate.locks.get(lock_id).resource)
    except UnknownName:
        reached = False
    if not reached:
        raise LockLost(lock_id, token, "there is no such lock")

"""Getting locks for callers, without a thread for each who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headgate.calls.actor import actor
from headgate.core.errors import BadValue
from headgate.core.locks import Request, resource_key
from headgate.core.names import check_name, check_note, check_request_id
from headgate.core.tickets import Grant, Ticket
from headgate.gate import Gate
from headgate.http.auth import Caller
from headgate.http.service import Service
from headgate.http.waiting import Asked, Pause, Place
from headgate.service.checks import check_lease, check_span
from headgate.service.clock import steady
from headgate.service.identity import new_request_id
from headgate.service.locks import check_wants
from headgate.service.waiting import Obtained, Waiting


def request_of(  # noqa: PLR0913 - each is an argument of the operation
    gate: Gate, who: Caller, *, client: str, resource: str | None, mode: str, resources: dict[str, str] | None,
    lease: float | None, reentrant: bool, note: str, owner: str, lock_delay: float, request_id: str | None,
) -> Request:  # fmt: skip
    """What the store is asked for, if the caller may."""
    if (resource is None) == (resources is None):
        raise BadValue("resource", resource, "or `resources` is required: give one of the two")
    wants = check_wants({str(resource): mode} if resources is None else resources, gate.locks.resource_limit)
    for want in wants:
        who.must_reach("lock:acquire", want.resource)
    return Request(
        id=new_request_id() if request_id is None else check_request_id(request_id),
        client=check_name("client", client),
        wants=wants,
        lease=check_lease(lease),
        lock_delay=max(check_span("lock_delay", lock_delay), gate.settings.seconds("lock_delay")),
        reentrant=reentrant,
        owner=check_note("owner", owner)[:255] or who.by(),
        note=check_note("note", note),
        fresh=request_id is None,
        outlives=True,
        principal=who.principal,
        override=actor().override,
    )


def group_of(ticket: Ticket) -> tuple[str, ...]:
    """Those who wait for the same resources stand behind each other."""
    return ("lock", *(resource_key(want.resource) for want in ticket.request.wants))


async def obtain(service: Service, request: Request, deadline: float) -> Grant:
    """All that is wanted, by the deadline (on steady()); LockRefused otherwise, and nothing is taken.

    A caller that hangs up leaves the queue, and gives back what it was granted just then.
    """
    if deadline <= steady():
        return await service.crew.run(service.gate.locks.steps.grant, request)
    place, run = Place(), service.crew.run_to_its_end
    waiting = service.gate.locks.steps.waiting(request, deadline, _waker(place))
    with service.turns.asking(request.id) as asked:
        try:
            grant = await _join(service, waiting, asked) or await _take_turn(service, waiting, place)
            grant = grant or (await run(waiting.give_up)).grant
        except asyncio.CancelledError:
            async with asked.moving:
                if asked.count == 1 and not asked.answered:
                    await run(waiting.withdraw)
            raise
        asked.answered = True
        return grant


async def take_turn(service: Service, ticket: Ticket, deadline: float) -> Grant | None:
    """The grant if the turn of a place comes by the deadline (on steady()), else None; the place is kept."""
    if deadline <= steady():
        return await service.crew.run_to_its_end(service.gate.locks.steps.take_turn, ticket)
    place = Place()
    waiting = service.gate.locks.steps.waiting(ticket.request, deadline, _waker(place), ticket)
    return await _take_turn(service, waiting, place)


async def _join(service: Service, waiting: Waiting, asked: Asked) -> Grant | None:
    """What was granted at once, or None: it has a place in the queue."""
    while waiting.ticket is None:
        async with asked.moving:
            found = await service.crew.run_to_its_end(waiting.step)
        if isinstance(found, Obtained):
            return found.grant
        await asyncio.sleep(found)
    return None


async def _take_turn(service: Service, waiting: Waiting, place: Place) -> Grant | None:
    """What was granted while it waited; None: its time is over."""
    if waiting.ticket is None:
        raise TypeError("it has no place in the queue")

    def step(woken: bool) -> Grant | Pause:  # noqa: FBT001 - as all are called
        found = waiting.step(woken=woken)
        return found.grant if isinstance(found, Obtained) else Pause(found)

    with service.turns.keeping(waiting):
        key, order = group_of(waiting.ticket), waiting.ticket.number
        return await service.turns.take_steps(key, place, order, step, waiting.deadline)


def _waker(place: Place) -> Callable[[], None]:
    """Wakes the place in this event loop, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # It has ended, and nobody waits any more.
            loop.call_soon_threadsafe(place.wake)

    return wake

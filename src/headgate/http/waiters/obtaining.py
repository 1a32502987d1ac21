"""Acquiring locks for callers, without a thread for each waiter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headgate.core.locks.model import Request, resource_key
from headgate.core.locks.tickets import Granted, Ticket
from headgate.http.waiters.waiting import Asked, Pause, Turns, WaitingPlace
from headgate.service.leases.clock import steady
from headgate.service.locks.obtaining import Obtained
from headgate.service.locks.steps import LockSteps
from headgate.service.locks.waiting import LockWait


def group_of(ticket: Ticket) -> tuple[str, ...]:
    """Those who wait for the same resources stand behind each other, except one that may enter a lock of its own."""
    request = ticket.request
    return ("lock", request.id if request.reentrant else "", *(resource_key(want.resource) for want in request.wants))


async def obtain(turns: Turns, steps: LockSteps, request: Request, deadline: float) -> Granted:
    """Acquire all wanted locks by the deadline (on steady()). Otherwise LockRefused, and then nothing is held.

    A caller that disconnects leaves the queue, and releases what it was granted meanwhile.
    """
    if deadline <= steady():
        return await turns.crew.run(steps.grant, request)
    place, run = WaitingPlace(), turns.crew.run_to_its_end
    waiting = steps.waiting(request, deadline, _waker(place))
    with turns.asking(request.id) as asked:
        try:
            grant = await _join(turns, waiting, asked) or await _take_turn(turns, waiting, place)
            grant = grant or (await run(waiting.give_up)).grant
        except asyncio.CancelledError:
            async with asked.moving:
                if asked.count == 1 and not asked.answered:
                    await run(waiting.withdraw)
            raise
        asked.answered = True
        return grant


async def take_turn(turns: Turns, steps: LockSteps, ticket: Ticket, deadline: float) -> Granted | None:
    """The grant if the turn of a position comes by the deadline (on steady()), else None; the position is kept."""
    if deadline <= steady():
        return await turns.crew.run_to_its_end(steps.take_turn, ticket)
    place = WaitingPlace()
    waiting = steps.waiting(ticket.request, deadline, _waker(place), ticket)
    return await _take_turn(turns, waiting, place)


async def _join(turns: Turns, waiting: LockWait, asked: Asked) -> Granted | None:
    """The immediate grant, or None: it has a position in the queue."""
    while waiting.ticket is None:
        async with asked.moving:
            found = await turns.crew.run_to_its_end(waiting.step)
        if isinstance(found, Obtained):
            return found.grant
        await asyncio.sleep(found)
    return None


async def _take_turn(turns: Turns, waiting: LockWait, place: WaitingPlace) -> Granted | None:
    """The grant made while it waited; None: its time is over."""
    if waiting.ticket is None:
        raise TypeError("it has no queue position")

    def step(woken: bool) -> Granted | Pause:  # noqa: FBT001 - as all are called
        found = waiting.step(woken=woken)
        return found.grant if isinstance(found, Obtained) else Pause(found)

    with turns.keeping(waiting):
        key, order = group_of(waiting.ticket), waiting.ticket.number
        return await turns.take_steps(key, place, order, step, waiting.deadline)


def _waker(place: WaitingPlace) -> Callable[[], None]:
    """Wakes the position in this event loop, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # It has ended, and no caller waits any more.
            loop.call_soon_threadsafe(place.wake)

    return wake

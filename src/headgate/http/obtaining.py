"""Getting locks for callers, without a thread for each who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from headgate.core.errors import BadValue, HeadgateError, LockRefused, StoreUnavailable
from headgate.core.locks import Request, resource_key
from headgate.core.names import check_name, check_note, check_request_id
from headgate.gate import Gate
from headgate.http.auth import Caller
from headgate.http.service import Service
from headgate.http.waiting import Asked
from headgate.service.checks import check_lease, check_span
from headgate.service.clock import steady
from headgate.service.identity import new_request_id
from headgate.service.locks import check_wants
from headgate.service.obtaining import PAUSE_SECONDS, waits_outside
from headgate.stores.acting import actor
from headgate.stores.base import Grant, Ticket
from headgate.stores.deadlines import within

T = TypeVar("T")


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
        return await service.crew.run(service.gate.locks.grant, request)
    place = _Place(service.gate, request)
    with service.turns.asking(request.id) as asked:
        try:
            grant = await _wait(service, place, asked, deadline)
        except asyncio.CancelledError:
            async with asked.moving:
                if asked.count == 1 and not asked.answered:
                    await service.crew.run_to_its_end(place.undo)
            raise
        asked.answered = True
        return grant


async def _wait(service: Service, place: _Place, asked: Asked, deadline: float) -> Grant:
    answered = deadline + service.gate.answer_within

    def in_time(call: Callable[..., T]) -> Callable[..., T]:
        """The call, ended at the latest when the caller has to be answered."""

        def limited(*arguments: Any) -> T:
            with within(max(answered - steady(), 0.0)):
                return call(*arguments)

        return limited

    run = service.crew.run_to_its_end
    async with asked.moving:
        found = await run(in_time(place.join))
    while isinstance(found, LockRefused):  # By a program outside Headgate alone.
        if steady() + PAUSE_SECONDS > deadline:
            raise found
        await asyncio.sleep(PAUSE_SECONDS)
        async with asked.moving:
            found = await run(in_time(place.join))
    if not isinstance(found, Ticket):
        return found
    async with service.turns.keeping(found):
        grant = await service.turns.wait(group_of(found), in_time(place.look), deadline, found.number)
    return await run(in_time(place.give_up)) if grant is None else grant


class _Place:
    """A request for locks, and what it has got so far. Its methods are called by threads, one after the other."""

    def __init__(self, gate: Gate, request: Request) -> None:
        self.request = request
        self._gate = gate
        self._got: Grant | Ticket | None = None

    def join(self) -> Grant | Ticket | LockRefused:
        """Held at once, or a place in the queue; a refusal when only a program outside Headgate is in the way."""
        try:
            self._got = self._gate.locks.queue_up(self.request)
        except LockRefused as refused:
            if waits_outside(refused):
                return refused
            raise
        return self._got

    def look(self) -> Grant | None:
        """Whether it is the turn."""
        try:
            grant = self._gate.locks.take_turn(self._ticket)
        except StoreUnavailable:  # It may be back before the time to wait is over.
            return None
        self._got = grant or self._got
        return grant

    def give_up(self) -> Grant:
        """The time is over."""
        self._got = grant = self._gate.locks.give_up(self._ticket)
        return grant

    def undo(self) -> None:
        """As if it had not been asked. What a store that is away cannot do now lapses by itself."""
        with suppress(StoreUnavailable):
            self._gate.locks.withdraw(self.request, self._got if isinstance(self._got, Ticket) else None)
        for lock in self._got if isinstance(self._got, tuple) else ():
            with suppress(HeadgateError):  # A guard that was busy has given it back already.
                self._gate.locks.release(lock)

    @property
    def _ticket(self) -> Ticket:
        if not isinstance(self._got, Ticket):
            raise TypeError("it is no longer waiting")
        return self._got

"""Waiting callers, without a thread each: the store wakes them; of those that wait for the same thing, one polls.

A waiter takes steps in a thread of the crew, and sleeps in between in the event loop: until the store wakes it, until
it is the first of its group, or until its next check is due. Polling covers lost wake-ups and changes that wake nobody,
such as an expiring lease.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from headgate.core.errors import NotAllowed
from headgate.core.locks.tickets import Ticket
from headgate.http.errors import TooMany
from headgate.http.waiters.crew import Crew
from headgate.service.leases.clock import steady
from headgate.service.leases.ending import EndWait
from headgate.service.leases.looking import Looking
from headgate.service.locks.waiting import LockWait

T = TypeVar("T")
#: Seconds after which a caller without room to wait may retry.
LATER_SECONDS = 5
#: With more than this many groups, each polls less often.
GROUPS_AT_FULL_PACE = 50
#: Seconds between two looks at most. A longer pause ends with a lease, and is no longer with many groups.
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pause:
    """A step found nothing: the next one is due after this many seconds, unless the waiter is woken."""

    seconds: float


class Gone(Exception):
    """The caller has disconnected."""


@dataclass(order=True)
class WaitingPlace:
    """A waiter, in the order of the queue."""

    order: int = 0
    #: Set when there is something to do: it was woken, or is now the first.
    called: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    #: The store reports that its turn may have come.
    woken: bool = field(default=False, compare=False)
    gone: bool = field(default=False, compare=False)

    def wake(self) -> None:
        """Its turn may have come."""
        self.woken = True
        self.called.set()


class Group:
    """Waiters for the same thing: the first polls, the others are behind it."""

    def __init__(self) -> None:
        self._places: list[WaitingPlace] = []
        self._came = 0

    @property
    def first(self) -> WaitingPlace | None:
        """The polling waiter; None: there are no waiters left."""
        while self._places and self._places[0].gone:
            heapq.heappop(self._places)
        return self._places[0] if self._places else None

    def enter(self, place: WaitingPlace, order: int | None) -> None:
        """Add a waiter; without an order, after those that came before."""
        self._came += 1
        place.order = self._came if order is None else order
        heapq.heappush(self._places, place)

    def leave(self, place: WaitingPlace) -> None:
        """The next one polls."""
        place.gone = True
        if self.first is not None:
            self.first.called.set()


@dataclass
class Asked:
    """Requests here for the same locks by the same id: from a caller that lost its answer and retries."""

    count: int = 0
    #: One of them was notified that it holds them.
    answered: bool = False
    #: Held while a position is taken, and while it is left.
    moving: asyncio.Lock = field(default_factory=asyncio.Lock)


class Turns:
    """All waiters at this service."""

    def __init__(self, most: int, crew: Crew) -> None:
        self._most = most
        self.crew = crew
        #: How many wait.
        self.waiting = 0
        self._groups: dict[tuple[str, ...], Group] = {}
        #: Waiters for locks: the same position may be requested twice, and two stores may use the same number.
        self._kept: dict[int, LockWait] = {}
        self._asked: dict[str, Asked] = {}

    @property
    def tickets(self) -> list[Ticket]:
        """The positions in lock queues that are kept for callers."""
        return [each.ticket for each in self._kept.values() if each.ticket is not None]

    def must_have_room(self) -> None:
        """TooMany when the maximum number of callers is waiting."""
        if self.waiting >= self._most:
            raise TooMany(f"{self._most:,} requests are waiting already", LATER_SECONDS)

    @contextmanager
    def keeping(self, waiting: LockWait) -> Iterator[None]:
        """Keep a position alive during the block."""
        self._kept[id(waiting)] = waiting
        try:
            yield
        finally:
            del self._kept[id(waiting)]

    @contextmanager
    def asking(self, request_id: str) -> Iterator[Asked]:
        """Request locks by an id, together with other requests with the same id."""
        asked = self._asked.setdefault(request_id, Asked())
        asked.count += 1
        try:
            yield asked
        finally:
            asked.count -= 1
            if not asked.count:
                del self._asked[request_id]

    async def wait(
        self, key: tuple[str, ...], looking: Looking[T], deadline: float, *, again: bool = False
    ) -> T | None:
        """Return the result of a check before the deadline (on steady()); None: nothing was found.

        `again`: it may have received something already, with a lost answer: it does not queue behind others.
        """
        if again or deadline <= steady():
            found = await self.crew.run(looking.look)
            if found is not None or deadline <= steady():
                return found
        place, loop = WaitingPlace(), asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # The loop has ended, and no caller waits any more.
                loop.call_soon_threadsafe(place.called.set)

        def step(_woken: bool) -> T | Pause:  # noqa: FBT001 - as all are called
            found = looking.step(wake)
            return Pause(found) if isinstance(found, float) else found

        try:
            return await self.take_steps(key, place, None, step, deadline)
        finally:
            looking.end()

    async def take_steps(
        self,
        key: tuple[str, ...],
        place: WaitingPlace,
        order: int | None,
        step: Callable[[bool], T | Pause],
        deadline: float,
    ) -> T | None:
        """Return the result of a step before the deadline (on steady()); None: nothing was found.

        `order`: the position in the store's own queue, so that the first waiter there polls, rather than the first to
        arrive here. A step receives whether the store woke the waiter, and returns how long to wait for the next one.
        """
        group = self._groups.setdefault(key, Group())
        group.enter(place, order)
        self.waiting += 1
        try:
            while (left := deadline - steady()) > 0:
                pause = left
                place.called.clear()
                if place.woken or group.first is place:
                    woken, place.woken = place.woken, False
                    found = await self.crew.run_to_its_end(step, woken)
                    if not isinstance(found, Pause):
                        return found
                    pause = self._paced(found.seconds)
                await _heard(place.called, min(pause, deadline - steady()))
            return None
        finally:
            group.leave(place)
            self.waiting -= 1
            if group.first is None:
                self._groups.pop(key, None)

    def _paced(self, pause: float) -> float:
        """The pause of one who looks, as there are many of them."""
        return max(pause, min(pause, LOOK_SECONDS) * len(self._groups) / GROUPS_AT_FULL_PACE)


async def _heard(signal: asyncio.Event, seconds: float) -> None:
    """Only until it is granted."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await signal.wait()
    except TimeoutError:
        return


class Ending(Exception):
    """The service is about to end."""


async def asked_to_wait(request: Request, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; while it waits, only as long as the caller stays connected, and only if there is room for one
    more.
    """
    if not seconds > 0:
        return await work
    request.scope["headgate.waits"] = True
    try:
        request.app.state.service.turns.must_have_room()
    except TooMany:
        work.close()
        raise
    return await while_there(request, work)


async def found_within(
    request: Request, seconds: float, key: tuple[str, ...], looking: Looking[T], *, again: bool = False
) -> T | None:
    """The result of a check, at once or within that many seconds; None: nothing was found. See `Turns.wait`."""
    turns: Turns = request.app.state.service.turns
    work = turns.wait(key, looking, steady() + seconds, again=again)
    return await asked_to_wait(request, seconds, work)


async def followed(request: Request, following: EndWait[T], seconds: float) -> T:
    """The progress of something: within that many seconds if it has ended or changed, or else at their end."""
    # Each one checks separately: one may know more than another.
    await found_within(request, seconds, ("following", str(id(following))), following.looking)
    crew: Crew = request.app.state.service.turns.crew
    return await crew.run(following.now) if following.last is None else following.last


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result. The work is cancelled when the caller disconnects (Gone), the service ends (Ending), or the
    API token is revoked or expires (NotAllowed).
    """
    service, who = request.app.state.service, request.scope["headgate.caller"]
    with service.token_watch.watching(who.token.id, who.session) as token_ended:
        return await _while(request, service.ending, token_ended, work)


async def _while(
    request: Request, service_ending: asyncio.Event, token_ended: asyncio.Future[None], work: Coroutine[Any, Any, T]
) -> T:
    doing: asyncio.Task[T] = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_hung_up(request.receive))
    ending = asyncio.ensure_future(service_ending.wait())
    try:
        ends: set[asyncio.Future[Any]] = {doing, gone, ending, token_ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        if token_ended.done():
            raise NotAllowed("the API token or session of this request ended while it was waiting")
        raise Ending if ending.done() else Gone
    finally:
        gone.cancel()
        ending.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})


async def _hung_up(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""Those who wait, without a thread each: one of those who wait for the same thing looks, the others stand behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from headgate.service.clock import steady
from headgate.stores.base import Ticket

T = TypeVar("T")
#: The shortest and the longest pause between two looks at what nobody here has changed.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.02, 1.0
#: A look is worth at most this part of the time waited so far.
PART = 0.05
#: With more than so many groups, each looks less often.
GROUPS_AT_FULL_PACE = 50


class Gone(Exception):
    """The caller has hung up."""


@dataclass
class Group:
    """Those who wait for the same thing."""

    #: Held by the one who looks; handed on first come, first served.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Set when something was changed here that they may wait for.
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    size: int = 0


class Turns:
    """All who wait at this service."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], Group] = {}
        self._tickets: dict[int, Ticket] = {}

    @property
    def tickets(self) -> list[Ticket]:
        """The places in queues for locks that are kept for callers."""
        return list(self._tickets.values())

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(group.size for group in self._groups.values())

    def ring(self, *keys: tuple[str, ...]) -> None:
        """Something was changed that groups whose key has all words of one of these may wait for."""
        for key, group in self._groups.items():
            if any(set(each) <= set(key) for each in keys):
                group.bell.set()

    @asynccontextmanager
    async def keeping(self, ticket: Ticket) -> AsyncIterator[None]:
        """Keep a place alive meanwhile."""
        self._tickets[ticket.number] = ticket
        try:
            yield
        finally:
            self._tickets.pop(ticket.number, None)

    async def wait(self, key: tuple[str, ...], look: Callable[[], T | None], deadline: float) -> T | None:
        """What a look finds, at the latest by the deadline (on steady()); None: nothing was found."""
        if deadline <= steady():
            return await run_in_threadpool(look)
        group = self._groups.setdefault(key, Group())
        group.size += 1
        try:
            try:
                await asyncio.wait_for(group.turn.acquire(), max(deadline - steady(), 0))
            except TimeoutError:
                return None
            try:
                return await self._look_on(group, look, deadline)
            finally:
                group.turn.release()
        finally:
            group.size -= 1
            if not group.size:
                self._groups.pop(key, None)

    async def _look_on(self, group: Group, look: Callable[[], T | None], deadline: float) -> T | None:
        began = steady()
        while True:
            group.bell.clear()
            found = await run_in_threadpool(look)
            left = deadline - steady()
            if found is not None or left <= 0:
                return found
            pause = min(max((steady() - began) * PART, SHORTEST_SECONDS), LONGEST_SECONDS)
            pause *= max(1.0, len(self._groups) / GROUPS_AT_FULL_PACE)
            try:
                await asyncio.wait_for(group.bell.wait(), min(pause, left))
            except TimeoutError:
                continue


class Ending(Exception):
    """The service is about to end."""


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; the work is cancelled when the caller hangs up (Gone) or the service ends (Ending)."""
    doing: asyncio.Task[T] = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_hung_up(request.receive))
    ending = asyncio.ensure_future(request.app.state.service.ending.wait())
    try:
        await asyncio.wait({doing, gone, ending}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
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

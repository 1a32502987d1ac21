"""What the routes share: the gate, those who wait, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.concurrency import run_in_threadpool

from headgate.core.errors import HeadgateError
from headgate.http.limits import SignIns
from headgate.http.metrics import Metrics
from headgate.http.waiting import Turns
from headgate.telemetry import event
from headgate.wiring import Gate

#: Calls to the store that run side by side.
THREADS = 16
#: Waiters whose places are kept for them are heard of this often.
SIGN_OF_LIFE_SECONDS = 3.0
#: What the last day brought is read on this often, so that little of a busy hour is missed.
ACTIVITY_SECONDS = 20.0


class Service:
    """One running service."""

    def __init__(self, gate: Gate) -> None:
        #: Everything that may be asked.
        self.gate = gate
        self.turns = Turns()
        self.sign_ins = SignIns()
        self.metrics = Metrics(lambda: self.gate)
        #: Set when the service is about to end: streams and those who wait are let go.
        self.ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Streams of events that are open.
        self.streams = 0

    def ring(self, *keys: tuple[str, ...]) -> None:
        """Something was changed that callers may wait for. From any thread."""
        if self._loop is not None and self.turns.waiting:
            self._loop.call_soon_threadsafe(self.turns.ring, *keys)

    def end(self) -> None:
        """Those who wait are let go. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ending.set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the app runs."""
        import anyio.to_thread

        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        self.ending = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        keepers = [asyncio.create_task(each) for each in (self._keep_places(), self._keep_activity())]
        try:
            yield
        finally:
            self.ending.set()
            for keeper in keepers:
                keeper.cancel()
                with suppress(asyncio.CancelledError):
                    await keeper

    async def _keep_activity(self) -> None:
        """Know what the last day brought before a page asks for it."""
        while True:
            try:
                await run_in_threadpool(self.gate.activity.day)
            except HeadgateError as error:
                event("http.activity_not_read", why=str(error))
            await asyncio.sleep(ACTIVITY_SECONDS)

    async def _keep_places(self) -> None:
        """Tell the store that those who wait here live: one statement for all of them."""
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_SECONDS)
            tickets = self.turns.tickets
            if not tickets:
                continue
            try:
                await run_in_threadpool(self.gate.store.keep_places, tickets)
            except HeadgateError as error:  # It may be back before the places lapse.
                event("http.places_not_kept", why=str(error))

"""Shared by the routes: the gate, the waiters, and the metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool

from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.gate import Gate
from headgate.http.limits.bodies import Bodies
from headgate.http.limits.bounds import Limits, RequestPace
from headgate.http.limits.sign_ins import SignIns
from headgate.http.limits.uploads import Uploads
from headgate.http.metrics import Metrics
from headgate.http.repeats import Repeats
from headgate.http.waiters.background import repeat
from headgate.http.waiters.crew import Crew
from headgate.http.waiters.feed import Feed
from headgate.http.waiters.token_watch import TokenWatch
from headgate.http.waiters.waiting import Turns

#: Number of concurrent calls to the store.
THREADS = 16
#: Seconds after which the store counts as unavailable, and the number of concurrent checks.
READY_SECONDS, MOST_PINGS = 2.5, 4
#: Seconds from the start to the first maintenance: callers come first.
FIRST_SECONDS = 0.5
#: How often events of the store are counted.
FOLLOWED_SECONDS = 10.0
#: Number of objects that are read concurrently.
MOST_READERS = 2
#: How often signs of life are sent for waiters whose positions are kept.
SIGN_OF_LIFE_SECONDS = 3.0
#: How often storage guards are compared with the listed locks.
GUARD_SECONDS = 2.0
#: Tokens and sessions of those who wait are read this often: a wait ends within about this time after its token does.
ENDED_SECONDS = 1.0
#: How often the events of the last day are read, so that little of a busy hour is missed.
ACTIVITY_SECONDS = 20.0


class Service:
    """One running service."""

    def __init__(self, gate: Gate, limits: Limits | None = None) -> None:
        #: All operations.
        self.gate = gate
        #: The limits and rates.
        self.limits = limits or Limits.of(gate.settings)
        self.bodies = Bodies(self.limits)
        self.pace = RequestPace(gate.settings)
        self.submissions = RequestPace(gate.settings, "submit_limit", "batches")
        #: The threads for fast calls to the store.
        self.crew = Crew(gate.upkeep.side_by_side)
        self.turns = Turns(self.limits.waiting, self.crew)
        self.sign_ins = SignIns()
        self.repeats = Repeats(lambda: self.gate.repeats)
        self.token_watch = TokenWatch(lambda: self.gate.tokens, lambda: self.gate.sessions)
        self.feed = Feed(lambda: self.gate)
        self.metrics = Metrics(lambda: self.gate)
        #: Set when the service is about to end: streams and waiters are released.
        self.ending = asyncio.Event()
        #: Why it could not start.
        self.failed: HeadgateError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Number of open event streams, in total and by token.
        self.streams = 0
        self.streams_by: Counter[str] = Counter()
        #: Files that are being submitted.
        self.uploads = Uploads(self.limits)
        #: The check whether the store answers runs separately from all other calls.
        self._pings = CapacityLimiter(MOST_PINGS)
        #: Requests that read whole objects have their own threads.
        self.readers = CapacityLimiter(MOST_READERS)

    async def ping(self) -> None:
        """StoreUnavailable when the store does not answer in time, however busy the other threads are."""
        upkeep = self.gate.upkeep
        try:
            async with asyncio.timeout(READY_SECONDS):
                await to_thread.run_sync(upkeep.ping, limiter=self._pings, abandon_on_cancel=True)
        except TimeoutError:
            raise StoreUnavailable(
                upkeep.name, f"it did not answer within {READY_SECONDS:g} s", outcome="none"
            ) from None

    def end(self) -> None:
        """Waiters are released. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ending.set)

    def measured(self) -> bytes:
        """The metrics for Prometheus."""
        self.metrics.waiting.set(self.turns.waiting)
        self.metrics.streams.set(self.streams)
        self.metrics.follow()
        return self.metrics.page()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the app runs."""
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        self.ending = asyncio.Event()
        self.feed = Feed(lambda: self.gate)  # It belongs to this loop.
        self._loop = asyncio.get_running_loop()
        try:
            await run_in_threadpool(self.gate.upkeep.bridge_outage)
            await run_in_threadpool(self.gate.locks.tending.start)
        except HeadgateError as error:  # The server only reports that it could not start.
            self.failed = error
            raise
        own = CapacityLimiter(1)
        works = (
            # In a separate thread, so that no position lapses because other calls take long.
            repeat(SIGN_OF_LIFE_SECONDS, partial(self._keep_places, own), "http.places_not_kept"),
            # What the last day brought is known before a page asks for it.
            repeat(ACTIVITY_SECONDS, self._keep_activity, "http.activity_not_read", FIRST_SECONDS),
            # What happens is counted, whether or not somebody asks for it.
            repeat(FOLLOWED_SECONDS, self._follow, "http.not_followed", FIRST_SECONDS),
            # Storage guards live as long as their locks, even if other processes release these.
            repeat(GUARD_SECONDS, self._tend_guards, "http.guards_not_tended"),
            repeat(ENDED_SECONDS, self.token_watch.look, "http.tokens_not_read"),
            self.feed.run(self.ending),
        )
        tasks = [asyncio.create_task(each) for each in works]
        try:
            yield
        finally:
            self.ending.set()
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            self.crew.close()

    async def _keep_activity(self) -> None:
        await run_in_threadpool(self.gate.history.activity.day)

    async def _follow(self) -> None:
        await run_in_threadpool(self.metrics.follow)

    async def _tend_guards(self) -> None:
        await run_in_threadpool(self.gate.locks.tending.tend)

    async def _keep_places(self, own: CapacityLimiter) -> None:
        """Report to the store that this service and its waiters are alive, with one statement for all."""
        await to_thread.run_sync(self.gate.upkeep.sign_of_life, self.turns.tickets, limiter=own)

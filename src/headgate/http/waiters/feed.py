"""Streams of events: one reader of the histories for all of them."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool

from headgate.core.access.sights import Sight
from headgate.core.errors import Unavailable
from headgate.core.history import Entry
from headgate.core.values.wire import plain
from headgate.gate import Gate
from headgate.http.waiters.background import attempt
from headgate.http.waiters.following import FeedMark, newer, newest
from headgate.service.leases.clock import steady

#: Seconds between two reads of the histories, and between two signs of life on a silent stream.
PAUSE_SECONDS, SILENCE_SECONDS = 0.5, 15.0
#: Number of events that wait for a stream with a slow reader. Beyond that, it reads the histories itself until it has
#: caught up.
MOST_BEHIND = 10_000
#: Number of streams that read the histories themselves concurrently.
MOST_LATE = 2
#: A sign of life.
SILENCE = ": nothing happened\n\n"


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a history, serialised once for all streams."""

    #: The number of its history, and its id there.
    history: int
    id: int
    entry: Entry
    text: str


class FeedListener:
    """One stream, with the events that it has not sent yet."""

    def __init__(self, mark: FeedMark, sight: Sight | None = None) -> None:
        #: The filter for what its reader may see; None: everything.
        self._sight = sight
        #: How far each history has been sent.
        self._sent = list(mark.ids)
        self._waiting: deque[FeedEntry] = deque()
        self._rung = asyncio.Event()
        self._silent_since = steady()
        #: True when it must read the histories itself: it starts earlier than the others, or its reader is slow.
        self.behind = False
        self._over = False

    @property
    def mark(self) -> FeedMark:
        """Its position."""
        return FeedMark(tuple(self._sent))

    def put(self, news: Iterable[FeedEntry]) -> None:
        """Something happened."""
        self._waiting.extend(news)
        if len(self._waiting) > MOST_BEHIND:
            self._waiting.clear()
            self.behind = True
        self._rung.set()

    def end(self) -> None:
        """Stop sending."""
        self._over = True
        self._rung.set()

    def is_over(self) -> bool:
        """Whether sending has stopped."""
        return self._over

    def has_reached(self, mark: FeedMark) -> bool:
        """Whether everything up to that mark was sent."""
        return all(own >= other for own, other in zip(self._sent, mark.ids, strict=True))

    def ring_if_silent(self, now: float) -> None:
        """Send a sign of life, if nothing else was sent for some time."""
        if self._is_silent(now):
            self._rung.set()

    def _is_silent(self, now: float) -> bool:
        return now - self._silent_since > SILENCE_SECONDS

    async def texts(self) -> list[str]:
        """Wait, and return what has to be sent: events, or a sign of life."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            news = list(self._waiting)
            self._waiting.clear()
            found = self.unsent(news)
            if found or self._over or self.behind or self._is_silent(steady()):
                self._silent_since = steady()
                return found or [SILENCE]
            # An event that the caller may not see; not even its time is revealed.

    def unsent(self, news: Iterable[FeedEntry]) -> list[str]:
        """The texts of unsent events, which count as sent from now on."""
        found = []
        for each in news:
            if each.id > self._sent[each.history]:
                self._sent[each.history] = each.id
                if self._sight is not None and not self._sight.entry(each.entry):
                    continue
                found.append(f"id: {self.mark}\n{each.text}")
        return found


class Feed:
    """Reads the histories while there are listeners, and sends the events to all of them."""

    def __init__(self, gate: Callable[[], Gate]) -> None:
        self._gate = gate
        self._listeners: set[FeedListener] = set()
        #: How far the histories were read; None: there are no listeners.
        self._mark: FeedMark | None = None
        self._starting = asyncio.Lock()
        #: Streams that start long ago read much: only a few at a time, separate from the threads of others.
        self._late = CapacityLimiter(MOST_LATE)
        self._joined = asyncio.Event()
        self._closed = False

    async def start(self) -> FeedMark:
        """Return the position at which a new stream starts. The store is not queried while others listen."""
        async with self._starting:
            if self._mark is None:
                self._mark = await run_in_threadpool(newest, self._gate())
            return self._mark

    @contextmanager
    def listening(self, mark: FeedMark, sight: Sight | None = None) -> Iterator[FeedListener]:
        """Listen from that position on, to visible events."""
        listener = FeedListener(mark, sight)
        listener.behind = mark != self._mark
        if self._closed:
            listener.end()
        self._listeners.add(listener)
        self._joined.set()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def stream(self, listener: FeedListener) -> AsyncIterator[str]:
        """The texts of a stream, for as long as it lasts."""
        yield f"id: {listener.mark}\nretry: 1000\n: from here on\n\n"
        while not listener.is_over():
            for text in await (self._catch_up(listener) if listener.behind else listener.texts()):
                if listener.is_over():
                    return
                yield text

    async def run(self, ending: asyncio.Event) -> None:
        """Read on, and send events to the listeners, until the service ends."""
        while not ending.is_set():
            if not self._listeners:
                self._mark = None
                self._joined.clear()
                await _first_of(self._joined.wait(), ending.wait())
                continue
            await _first_of(ending.wait(), asyncio.sleep(PAUSE_SECONDS))
            await attempt(self._read_on, "http.events_not_read")
            now = steady()
            for each in self._listeners:
                each.ring_if_silent(now)
        self._closed = True
        for each in tuple(self._listeners):
            each.end()

    async def _read_on(self) -> None:
        begun = await self.start()
        found = await run_in_threadpool(newer, self._gate(), begun)
        if found:
            news = list(_news(begun, found))
            self._mark = found[-1][0]
            for each in self._listeners:
                each.put(news)

    async def _catch_up(self, listener: FeedListener) -> list[str]:
        """Events that the others were already sent, but this one was not. Events that the others are sent meanwhile are
        queued for it.

        It stays behind while the histories show less than the others were sent, because a gap in their ids is waited
        for.
        """
        listener.behind, begun = False, listener.mark
        try:
            told = await self.start()
            found = await to_thread.run_sync(newer, self._gate(), begun, limiter=self._late)
        except Unavailable:
            listener.behind = True
            await asyncio.sleep(PAUSE_SECONDS)
            return []
        texts = listener.unsent(_news(begun, found))
        if not listener.has_reached(told):
            listener.behind = True
            await asyncio.sleep(PAUSE_SECONDS)
        return texts


def _news(begun: FeedMark, found: Iterable[tuple[FeedMark, Entry]]) -> Iterator[FeedEntry]:
    """Each entry with its history: the one whose position has advanced."""
    for mark, entry in found:
        history = next(n for n, (old, new) in enumerate(zip(begun.ids, mark.ids, strict=True)) if old != new)
        begun = mark
        yield FeedEntry(history, entry.id, entry, _text(entry))


def _text(entry: Entry) -> str:
    return f"event: {entry.noun}\ndata: {json.dumps(plain(entry), ensure_ascii=False)}\n\n"


async def _first_of(*works: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()

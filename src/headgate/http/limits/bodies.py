"""Request bodies: read into memory, with limits on size and time.

A short body needs no room: it has to arrive as fast as a request's headers, so that renewals and reports are read
regardless of other traffic. Longer bodies share a budget, of which one API token gets a part.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.types import Message, Receive, Scope

from headgate.http.errors import TooLarge, TooMany, TooSlow
from headgate.http.limits.bounds import Limits, subtract
from headgate.http.waiters.waiting import Gone
from headgate.service.leases.clock import steady

#: Routes whose bodies contain long lists.
LARGE = re.compile(r"/v1/(batches/[^/]+/jobs|inventory/recordings|datasets/[^/]+/publish|custody)")
#: Size of a body that needs no room in the budget.
SHORT = 16_384
#: Size of a body that takes a while to parse, and number of these that are parsed concurrently.
LONG, MOST_PARSED = 50_000, 2
#: Seconds after which a caller without room for its body may retry.
LATER_SECONDS = 5
#: Number of intervals in which the speed of a body is measured.
STEPS = 10
#: The key for a request's share of the budget in its scope.
HELD = "headgate.body"
T = TypeVar("T")


@dataclass(slots=True)
class BodyShare:
    """One request's share of the budget."""

    whose: str
    #: Number of bytes that it holds.
    size: int = 0
    #: It is being read, and is a long one.
    being_read: bool = False


class Bodies:
    """All bodies that are held in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Number of bytes of all long ones, and of each token's.
        self._held = 0
        self._held_by: Counter[str] = Counter()
        #: Number of long ones that are being read, by token.
        self._read_by: Counter[str] = Counter()
        #: Few threads parse long ones: each needs much memory, and the threads of other callers stay free.
        self._parsers = CapacityLimiter(MOST_PARSED)

    async def read(self, scope: Scope, receive: Receive, whose: str) -> bytes:
        """The whole body. It is attributed to `whose` until `free` is called for its request.

        TooLarge, TooMany or TooSlow, and Gone when the caller disconnects. `whose` is empty for unknown callers, who
        may only send short bodies.
        """
        if not has_body(scope):
            return b""
        most, limit = self._most(scope["path"], whose)
        length = declared_length(scope)
        if length > most:
            raise TooLarge(most, limit)
        held = scope[HELD] = BodyShare(whose)
        if length > SHORT:
            self._begin_long(held, length)
        try:
            body = b"".join([part async for part in self._parts(self.paced(scope, receive), held, most, limit)])
        finally:
            self._end_long(held)
        return body

    async def _parts(self, receive: Receive, held: BodyShare, most: int, limit: str) -> AsyncIterator[bytes]:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise TooLarge(most, limit)
            if size > SHORT:
                self._charge(held, size)
            yield part
            more = message.get("more_body", False)

    async def parse(self, body: bytes, call: Callable[..., T], *arguments: Any) -> T:
        """The result of a function for a body; for a long one it runs in a thread, so that others do not wait."""
        if len(body) <= LONG:
            return call(*arguments)
        return await to_thread.run_sync(call, *arguments, limiter=self._parsers)

    def free(self, scope: Scope) -> None:
        """A request has ended: its body is released."""
        held: BodyShare | None = scope.get(HELD)
        if held is not None and held.size:
            self._held -= held.size
            subtract(self._held_by, held.whose, held.size)
            held.size = 0

    def paced(self, scope: Scope, receive: Receive, limit: str = "body_time") -> Receive:
        """Receives a body; TooSlow when nothing arrives for a while, when too little arrived in the last interval, or
        when the total time exceeds that limit.
        """
        return _Paced(receive, self._limits, 0 if declared_length(scope) > SHORT else SHORT, limit)

    def _most(self, path: str, whose: str) -> tuple[int, str]:
        """Maximum size of a body, and the name of that limit."""
        if not whose:
            return SHORT, "size of a form"
        if not path.startswith("/v1/"):
            return min(self._limits.form, self._limits.body_limit), "size of a form"
        if LARGE.fullmatch(path):
            return self._limits.large_body_limit, "large_body_limit"
        return self._limits.body_limit, "body_limit"

    def _begin_long(self, held: BodyShare, length: int) -> None:
        """A long body begins, if there is room for the announced number of bytes."""
        most = self._limits.bodies_per_token
        if self._read_by[held.whose] >= most:
            why = f"this API token is already sending {most:,} large bodies"
            raise TooMany(why, LATER_SECONDS, "bodies_per_token", most)
        self._must_fit(held, length)
        held.being_read = True
        self._read_by[held.whose] += 1

    def _end_long(self, held: BodyShare) -> None:
        if held.being_read:
            held.being_read = False
            subtract(self._read_by, held.whose)

    def _charge(self, held: BodyShare, size: int) -> None:
        """Count bytes of a body that have arrived and are held."""
        if not held.being_read:
            self._begin_long(held, size)
        self._must_fit(held, size)
        more, held.size = size - held.size, size
        self._held += more
        self._held_by[held.whose] += more

    def _must_fit(self, held: BodyShare, size: int) -> None:
        more, limits = size - held.size, self._limits
        if self._held_by[held.whose] + more > limits.body_memory_per_token:
            most = limits.body_memory_per_token
            why = f"this API token is sending too much at the same time: at most {most:,} bytes are accepted"
            raise TooMany(why, LATER_SECONDS, "body_memory_per_token", most)
        if self._held + more > limits.body_memory:
            most = limits.body_memory
            raise TooMany(
                f"too much is being sent at the same time: at most {most:,} bytes are accepted",
                LATER_SECONDS,
                "body_memory",
                most,
            )


class _Paced:
    """Receives a body at a minimum speed."""

    def __init__(self, receive: Receive, limits: Limits, short: int, limit: str) -> None:
        self._receive, self._limits = receive, limits
        #: Number of bytes that have to arrive as fast as headers.
        self._short = short
        #: The limit of the total time, and that time.
        self._limit = limit
        self._seconds: float = getattr(limits, limit)
        self._began = steady()
        self._size, self._done = 0, False
        #: The bytes that arrived in the window, by interval; and their sum.
        self._window: deque[tuple[int, int]] = deque()
        self._recent = 0

    async def __call__(self) -> Message:
        """The next part."""
        if self._done:
            return await self._receive()
        left, limit, value = self._time_left()
        try:
            async with asyncio.timeout(left):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(limit, value) from None
        self._add(len(message.get("body", b"")))
        self._done = not message.get("more_body", False)
        if not self._done:
            self._must_flow()
        return message

    def _time_left(self) -> tuple[float, str, float]:
        """Seconds for the next part, and the limit that it would violate."""
        limits, took = self._limits, steady() - self._began
        if self._size < self._short:
            return limits.head_seconds - took, "seconds for a short body", limits.head_seconds
        if self._seconds - took < limits.body_seconds:
            return self._seconds - took, self._limit, self._seconds
        return limits.body_seconds, "seconds without a byte", limits.body_seconds

    def _add(self, size: int) -> None:
        step = self._limits.body_seconds / STEPS
        now = int(steady() / step)
        if not self._window or self._window[-1][0] != now:
            self._window.append((now, 0))
        self._window[-1] = now, self._window[-1][1] + size
        self._size += size
        self._recent += size
        while self._window[0][0] < now - STEPS:
            self._recent -= self._window.popleft()[1]

    def _must_flow(self) -> None:
        limits, took = self._limits, steady() - self._began
        if took > self._seconds:
            raise TooSlow(self._limit, self._seconds)
        if took > limits.body_seconds and self._recent < limits.body_seconds * limits.body_rate:
            raise TooSlow("bytes a second", limits.body_rate)


def has_body(scope: Scope) -> bool:
    """Without these headers a request has no body, as in HTTP/1.1."""
    return any(
        key == b"transfer-encoding" or (key == b"content-length" and value != b"0") for key, value in scope["headers"]
    )


def declared_length(scope: Scope) -> int:
    """Number of bytes of a body according to the request; 0: unknown."""
    found = next((value for key, value in scope["headers"] if key == b"content-length"), b"0")
    return int(found)


def is_short(scope: Scope) -> bool:
    """Whether a body is known to be short."""
    return 0 < declared_length(scope) <= SHORT


def with_body(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then everything after it."""
    given = False

    async def receive_on() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_on

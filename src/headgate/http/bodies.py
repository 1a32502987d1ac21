"""Bodies of requests: read into memory, but never too much of it, and never for too long."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope

from headgate.http.errors import TooLarge, TooMany, TooSlow
from headgate.http.limits import Limits
from headgate.http.waiting import Gone
from headgate.service.clock import steady

#: Routes whose bodies list many things.
LARGE = re.compile(r"/v1/(batches/[^/]+/jobs|inventory/(recordings|intakes)|messages|datasets/[^/]+/publish|custody)")
#: Bytes of a body that takes a while to be looked through.
LONG = 50_000
T = TypeVar("T")


class Bodies:
    """All bodies that are held in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Bytes of all of them.
        self._held = 0

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """The whole body, for as long as it is needed."""
        if not has_body(scope):
            yield b""
            return
        most = self._most(scope["path"])
        if _length(scope) > most:
            raise TooLarge(most)
        parts: list[bytes] = []
        size, more = 0, True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message.get("body", b"")
                size += len(part)
                self._held += len(part)
                if size > most:
                    raise TooLarge(most)
                if self._held > self._limits.bodies:
                    raise TooMany("too much is being sent at once")
                parts.append(part)
                more = message.get("more_body", False)
            yield b"".join(parts)
        finally:
            self._held -= size

    def _most(self, path: str) -> int:
        if not path.startswith("/v1/"):
            return min(self._limits.form, self._limits.body)
        return self._limits.large_body if LARGE.fullmatch(path) else self._limits.body

    def paced(self, receive: Receive) -> Receive:
        """Receives a body; TooSlow when nothing comes for a while, or too little."""
        limits, began, size, done = self._limits, steady(), 0, False

        async def receive_on() -> Message:
            nonlocal size, done
            if done:
                return await receive()
            try:
                async with asyncio.timeout(limits.body_seconds):
                    message = await receive()
            except TimeoutError:
                raise TooSlow from None
            size += len(message.get("body", b""))
            done = not message.get("more_body", False)
            took = steady() - began
            if not done and took > limits.body_seconds and size < took * limits.body_rate:
                raise TooSlow
            return message

        return receive_on


async def by_length(body: bytes, call: Callable[..., T], *arguments: Any) -> T:
    """What a call makes of a body; of a long one by a thread, so that nobody else waits for it."""
    return await run_in_threadpool(call, *arguments) if len(body) > LONG else call(*arguments)


def has_body(scope: Scope) -> bool:
    """Without these a request has none, as HTTP/1.1 has it."""
    return any(
        key == b"transfer-encoding" or (key == b"content-length" and value != b"0") for key, value in scope["headers"]
    )


def _length(scope: Scope) -> int:
    found = next((value for key, value in scope["headers"] if key == b"content-length"), b"0")
    return int(found)

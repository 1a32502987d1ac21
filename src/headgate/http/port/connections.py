"""Limits of connections: number, speed and time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headgate.core.problems import TYPE
from headgate.http.access.auth import ADMITTED
from headgate.http.errors import AWAY_SECONDS
from headgate.http.limits.bounds import Limits
from headgate.telemetry import event


def whole_answer(status: int, word: str, detail: str, *headers: str) -> bytes:
    """The answer to input that never becomes a request: a problem, like every other error."""
    title = word.replace("-", " ")
    body = json.dumps({"type": TYPE + word, "title": title, "status": status, "detail": detail})
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/problem+json", f"Content-Length: {len(body)}", "Connection: close", *headers,
    )  # fmt: skip
    return "\r\n".join((*head, "", body)).encode()


#: The answer to a connection beyond the limit.
FULL = whole_answer(503, "unavailable", "too many connections are open", f"Retry-After: {AWAY_SECONDS}")
#: How long a client may continue sending after it was answered.
LINGER_SECONDS = 2.0


class Lingering:
    """A transport that is closed in two steps while the client is still sending: the answer is sent first.

    If a socket is closed before all received data was read, its system sends a reset, and a client that receives one
    often cannot read the answer any more.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_sending = is_sending
        #: Set while the rest of the request is read and discarded.
        self.timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.timer is not None or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing() or not self._is_sending():
            self._transport.close()
            return
        self.timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()


class Bounded(H11Protocol):
    """Ends a connection whose request makes no progress; and if there are too many, the one that has been open longest
    without a request of a known caller, so that unknown callers cannot keep others out.
    """

    limits = Limits()
    #: Connections that may be closed to make room, the longest open first.
    strangers: ClassVar[dict[Bounded, None]] = {}
    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._lingering = Lingering(transport, lambda: self.conn.their_state in (h11.SEND_BODY, h11.ERROR))
        super().connection_made(self._lingering)  # type: ignore[arg-type]
        if len(self.connections) > self.limits.connections and not self._make_room():
            event("http.too_many_connections", open=len(self.connections))
            transport.write(FULL)
            transport.close()
            return
        self.strangers[self] = None
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._lingering.timer is not None:
            return
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, despite its annotation.
        if cycle is not None and not cycle.response_complete:
            self._forget_head()
        elif self._head_timer is None:
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """Answer input that is not HTTP, or whose head is too large; the framework's message does not say which."""
        del msg
        if len(self.conn.trailing_data[0]) > self.limits.head:
            detail = f"the request's line and headers are larger than {self.limits.head} bytes"
        else:
            detail = "this is not an HTTP/1.1 request"
        self.transport.write(whole_answer(400, "bad-request", detail))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self.strangers.pop(self, None)
        if self._lingering.timer is not None:
            self._lingering.timer.cancel()
        super().connection_lost(exc)
        self._forget_answer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.strangers.pop(self, None)
        if not self.transport.is_closing():
            self.strangers[self] = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_answer()
        self._answer_timer = self.loop.call_later(self.limits.answer_seconds, self._end, "answer")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_answer()

    def _make_room(self) -> bool:
        """End another connection; False: all of them are working for known callers."""
        while self.strangers:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]  # A working one returns when its answer is complete.
            if not oldest.is_at_work():
                oldest.give_way()
                return True
        return False

    def give_way(self) -> None:
        """Close this connection to make room for another."""
        event("http.made_room", address=self.client[0] if self.client else "")
        self.transport.abort()

    def is_at_work(self) -> bool:
        """Whether it has a request of an admitted caller."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete and ADMITTED in cycle.scope

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._end, "head")

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _forget_answer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _end(self, part: str) -> None:
        event("http.too_slow", part=part, address=self.client[0] if self.client else "")
        self._head_timer = None
        self.transport.abort()


def bounded(limits: Limits) -> type[Bounded]:
    """The protocol that enforces these limits."""
    return type("BoundedProtocol", (Bounded,), {"limits": limits, "strangers": {}})

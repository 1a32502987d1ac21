"""Connections with bounds: how many, how slow, how long."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headgate.http.auth import ADMITTED
from headgate.http.errors import AWAY_SECONDS, TYPE
from headgate.http.limits import Limits
from headgate.telemetry import event

_FULL = json.dumps(
    {"type": f"{TYPE}unavailable", "title": "unavailable", "status": 503, "detail": "too many connections are open"}
).encode()
#: What one too many is told.
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nConnection: close\r\n"
    b"Retry-After: %d\r\nContent-Length: %d\r\n\r\n%b" % (AWAY_SECONDS, len(_FULL), _FULL)
)


class Bounded(H11Protocol):
    """Ends a connection on which a request does not get on; and where there are too many, the one that has been open
    longest without a request of somebody who is known: strangers keep nobody out by staying.
    """

    limits = Limits()
    #: Connections that may have to make room, the longest open first.
    strangers: ClassVar[dict[Bounded, None]] = {}
    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._make_room():
            event("http.too_many_connections", open=len(self.connections))
            transport.write(FULL)
            transport.close()
            return
        self.strangers[self] = None
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever its annotation says.
        if cycle is not None and not cycle.response_complete:
            self._forget_head()
        elif self._head_timer is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self.strangers.pop(self, None)
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
        """End another connection; False: all of them are at work for somebody who is known."""
        while self.strangers:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]  # One at work comes back when its answer is complete.
            if not oldest.is_at_work():
                oldest.give_way()
                return True
        return False

    def give_way(self) -> None:
        """End, since another one came."""
        event("http.made_room", address=self.client[0] if self.client else "")
        self.transport.abort()

    def is_at_work(self) -> bool:
        """Whether it has a request of somebody who was admitted."""
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
    """The protocol that keeps these limits."""
    return type("BoundedProtocol", (Bounded,), {"limits": limits, "strangers": {}})

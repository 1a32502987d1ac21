"""Request middleware: the request id, the line in the log, and closing a connection whose body was not read."""

from __future__ import annotations

import itertools
import re
import secrets
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.http.access.auth import ADMITTED
from headgate.http.errors import problem_of
from headgate.http.limits.bodies import has_body, is_short
from headgate.http.service import Service
from headgate.service.leases.clock import steady
from headgate.telemetry import event

REQUEST_ID = re.compile(r"[\x21-\x7e]{1,100}")


class Around:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        #: Requests without an id are numbered, after a mark that distinguishes one run of the service from another.
        self._mark, self._numbers = f"{secrets.token_urlsafe(6)}-", itertools.count(1)
        seconds = service.gate.settings.seconds("hsts")
        self._hsts = [(b"strict-transport-security", f"max-age={seconds:.0f}".encode())] if seconds else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _header(scope, b"x-request-id")
        request_id = given if given and REQUEST_ID.fullmatch(given) else f"{self._mark}{next(self._numbers):x}"
        scope["headgate.request"] = request_id
        began, status = steady(), 0
        incoming = Incoming(receive) if has_body(scope) and not is_short(scope) else None

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = _added(request_id, message["headers"])
                added += self._transport(scope)
                if incoming is not None and not incoming.is_complete:  # The rest of it is not awaited.
                    added.append((b"connection", b"close"))
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        try:
            await self._app(scope, incoming or receive, send_on)
        except (
            Exception
        ) as error:  # Here rather than in the framework, whose answer would have no id, and no line in the log.
            broken = problem_of(error, request_id)
            if status:
                raise
            await broken(scope, receive, send_on)
        finally:
            self._service.bodies.free(scope)
            self._log(scope, request_id, status, steady() - began)

    def _transport(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """HSTS, if the request came over TLS. Browsers apply it to every port, so it is not sent on localhost."""
        if scope["scheme"] != "https" or _header(scope, b"host").partition(":")[0] == "localhost":
            return []
        return self._hsts

    def _log(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route, waits = getattr(scope.get("route"), "path", "none"), scope.get("headgate.waits")
        self._service.metrics.count_request(scope["method"], route, status, None if waits else seconds)
        event(
            "http.request",
            request=request_id, method=scope["method"], route=route, path=scope["path"], status=status,
            milliseconds=round(seconds * 1000, 1), token=scope.get(ADMITTED, ""),
            address=(scope.get("client") or ("",))[0],
        )  # fmt: skip


class Incoming:
    """Receives a request, and tracks whether all of its body has arrived."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_complete = False

    async def __call__(self) -> Message:
        """The next part."""
        message = await self._receive()
        self.is_complete = not message.get("more_body", False)
        return message


def _added(request_id: str, there: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers of every answer: caches store nothing unless the answer allows it."""
    kept = any(name == b"cache-control" for name, _ in there)
    return [
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *(() if kept else ((b"cache-control", b"no-store"),)),
    ]


def _header(scope: Scope, name: bytes) -> str:
    found: Any = next((value for key, value in scope["headers"] if key == name), b"")
    return str(found.decode("latin-1"))

"""Around every request: its id, its line in the log, and its size."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.core.errors import BadValue, NotAllowed
from headgate.http.auth import must_be_known
from headgate.http.bodies import Bodies, by_length, has_body
from headgate.http.errors import TooLarge, TooMany, TooSlow, problem_of
from headgate.http.service import Service
from headgate.http.waiting import Gone
from headgate.service.clock import steady
from headgate.telemetry import event

#: Where files come in.
UPLOADS = "/v1/uploads"
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,100}")
#: Routes where it must be plain what was asked, also to who checked the body before it came here.
STRICT = re.compile(r"/v1/(tokens|custody|master-wraps|master-keys|.*/(break|force|forget|status|delete|removals))")


class Around:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._bodies = Bodies(service.limits)
        #: Requests without an id are numbered, behind a mark that tells one life of the service from another.
        self._mark, self._numbers = f"{secrets.token_urlsafe(6)}-", itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _header(scope, b"x-request-id")
        request_id = given if given and REQUEST_ID.fullmatch(given) else f"{self._mark}{next(self._numbers):x}"
        scope["headgate.request"] = request_id
        began, status = steady(), 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *_added(request_id, message["headers"])]}
            await send(message)

        try:
            await self._bounded(scope, receive, send_on)
        except Exception as error:  # Here, not by the framework: its answer would have no id, and no line in the log.
            broken = problem_of(error, request_id)
            if status:
                raise
            await broken(scope, receive, send_on)
        finally:
            self._tell(scope, request_id, status, steady() - began)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body first: no thread waits for a slow caller, and none sends without end."""
        paced = self._bodies.paced(receive)
        if scope["path"] == UPLOADS:  # It goes to disk as it comes.
            await self._app(scope, paced, send)
            return
        try:
            if has_body(scope) and scope["path"].startswith("/v1/"):
                await must_be_known(Request(scope))
            async with self._bodies.read(scope, paced) as body:
                if STRICT.fullmatch(scope["path"]) and body:
                    await by_length(body, refuse_doubles, body)
                await self._app(scope, _with_body(body, receive), send)
        except (BadValue, Gone, NotAllowed, TooLarge, TooMany, TooSlow) as error:
            await self._refuse(error, scope, receive, send)

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """What is left of the body is not waited for: the connection ends."""
        if not isinstance(error, Gone):
            answer = problem_of(error)
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)

    def _tell(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route, waits = getattr(scope.get("route"), "path", "none"), scope.get("headgate.waits")
        self._service.metrics.tell_request(scope["method"], route, status, None if waits else seconds)
        event(
            "http.request",
            request=request_id, method=scope["method"], route=route, path=scope["path"], status=status,
            milliseconds=round(seconds * 1000, 1), token=scope.get("headgate.token", ""),
            address=(scope.get("client") or ("",))[0],
        )  # fmt: skip


def refuse_doubles(body: bytes) -> None:
    """BadValue for JSON with a key twice: who reads it elsewhere may have seen the other one."""

    def pairs(found: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in found:
            if name in seen:
                raise BadValue("body", name, "is in it twice")
            seen.add(name)

    with suppress(ValueError, RecursionError):  # What is no JSON is refused by who reads it.
        json.loads(body, object_pairs_hook=pairs)


def _with_body(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then whatever comes after it."""
    given = False

    async def receive_on() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_on


def _added(request_id: str, there: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Nothing is kept by a cache, but for what says so itself."""
    kept = any(name == b"cache-control" for name, _ in there)
    return [
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *(() if kept else ((b"cache-control", b"no-store"),)),
    ]


def _header(scope: Scope, name: bytes) -> str:
    found: Any = next((value for key, value in scope["headers"] if key == name), b"")
    return str(found.decode("latin-1"))

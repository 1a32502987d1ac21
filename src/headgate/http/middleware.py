"""Around every request: its id, its line in the log, its size, and repeats of it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.core.errors import BadValue, NotAllowed
from headgate.core.names import REQUEST_ID_LENGTH
from headgate.http.auth import must_be_known
from headgate.http.bodies import Bodies, by_length, has_body
from headgate.http.errors import TooLarge, TooMany, TooSlow, problem, problem_of
from headgate.http.service import Service
from headgate.http.waiting import Gone
from headgate.service.clock import steady
from headgate.telemetry import event

#: Where files come in.
UPLOADS = "/v1/uploads"
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,100}")
#: Routes where the store itself recognises a repeat by its key, for as long as what it gave is held.
NATIVE = re.compile(r"/v1/(locks|waiters|batches|batches/next|ingest-jobs/next|jobs/[^/]+/next|jobs/.+/claim)")
#: Routes where it must be plain what was asked, also to who checked the body before it came here.
STRICT = re.compile(r"/v1/(tokens|custody|master-wraps|master-keys|.*/(break|force|forget|status|delete|removals))")
#: Answers that are kept for repeats, and their bytes.
MOST_KEPT, MOST_BYTES = 10_000, 100_000_000


class Around:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._repeats = Repeats(app)
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
                await self._repeats(scope, _with_body(body, receive), send, body)
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


@dataclass
class Kept:
    """An answer that is given, or was."""

    #: Of the body that it answers.
    digest: bytes
    messages: list[Message] = field(default_factory=list)
    #: Set when it is whole.
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def size(self) -> int:
        """Bytes of it."""
        return sum(len(message.get("body", b"")) for message in self.messages)


class Repeats:
    """POSTs that are sent again with the same Idempotency-Key are answered again, not done again.

    Kept in memory, for good answers alone. Where the store itself recognises a repeat it is left to do so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        #: What is being done, and what was answered, with its bytes.
        self._doing: dict[tuple[str, ...], Kept] = {}
        self._kept: OrderedDict[tuple[str, ...], Kept] = OrderedDict()
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        """One request, or its answer once more."""
        key = _header(scope, b"idempotency-key")
        if len(key) > REQUEST_ID_LENGTH:
            await problem(422, f"Idempotency-Key has more than {REQUEST_ID_LENGTH} characters")(scope, receive, send)
            return
        if scope["method"] != "POST" or not key or NATIVE.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        who = _header(scope, b"authorization"), _header(scope, b"cookie")
        place = (*who, f"{scope['path']}?{scope['query_string'].decode()}", key)
        digest = hashlib.sha256(body).digest()
        while doing := self._doing.get(place):
            await doing.whole.wait()
        kept = self._kept.get(place)
        if kept is None:
            await self._keep(place, Kept(digest), scope, receive, send)
        elif kept.digest != digest:
            await problem(422, "this Idempotency-Key was used with another body; use a new one")(scope, receive, send)
        else:
            for message in kept.messages:
                await send(message)

    async def _keep(self, place: tuple[str, ...], kept: Kept, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_keep(message: Message) -> None:
            kept.messages.append(message)
            await send(message)

        self._doing[place] = kept
        try:
            await self._app(scope, receive, send_and_keep)
        finally:
            del self._doing[place]
            kept.whole.set()
        if 200 <= kept.messages[0]["status"] < 300:
            self._kept[place] = kept
            self._size += kept.size
        while len(self._kept) > MOST_KEPT or self._size > MOST_BYTES:
            self._size -= self._kept.popitem(last=False)[1].size


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

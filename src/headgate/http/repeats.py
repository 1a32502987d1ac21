"""Repeated requests with the same Idempotency-Key: executed once, on whichever replica they arrive.

The store writes a record in the transaction of the effect, under the principal and the key. A repeat finds it and gets
the stored answer; if the service died before the answer was stored, the answer is built from the recorded result.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from headgate.calls.idempotency import Kept, Keyed, Repeated, answering, own_ids, record_id
from headgate.core.errors import AlreadyDone, HeadgateError, KeyInUse, KeyReused, Unavailable
from headgate.core.values.names import check_request_id
from headgate.http.errors import TooLarge
from headgate.service.repeats import RepeatRecords

KEY_HEADER = "idempotency-key"
#: Parts of answers that are never stored: sealed copies of secrets.
NEVER_KEPT = "sealed"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The answer of a POST route to a repeat whose answer was not stored."""

    #: The status of its success answer.
    status: int = 200
    #: The name of the recorded result in the answer; empty: it is the whole answer; None: it cannot be built from the
    #: result.
    part: str | None = None
    #: The rest of the answer, besides that part.
    beside: Mapping[str, Any] = field(default_factory=dict)
    #: The store recognises the request by its id: the repeat is executed again, and gets the same result.
    by_store: bool = False
    #: A call that returns nothing has changed nothing, and leaves no record.
    finds: bool = False
    #: The answer contains a secret: the repeat is refused, with the id of what was created.
    secret: bool = False
    #: The keys that are left out of a recorded result.
    without: str = ""
    #: The body is a file, which is written to disk as it arrives; the record is written afterwards.
    file: bool = False
    #: False: the request changes nothing, or a repeat has no further effect.
    recorded: bool = True


#: The answer is the list that the transaction returned.
LIST = Repeat(part="items", beside={"next": None})
#: Repeating it does no harm.
HARMLESS = Repeat(recorded=False)


class Repeats:
    """The requests with an Idempotency-Key of one service."""

    def __init__(self, records: Callable[[], RepeatRecords]) -> None:
        self._records = records
        #: Records of requests that this process is executing.
        self._running: set[str] = set()

    async def answer(self, request: Request, repeat: Repeat, call: Callable[[], Awaitable[Response]]) -> Response:
        """Execute a request, or repeat its answer.

        Raises KeyInUse while the first one is running here, KeyReused when the first one was a different request, and
        AlreadyDone when its answer cannot be repeated.
        """
        key = check_request_id(request.headers[KEY_HEADER])
        principal: str = request.scope["headgate.caller"].principal
        digest = "" if repeat.file else digest_of(request, await request.body())
        keyed = Keyed(record_id(principal, key), principal, digest, secrets.token_hex(16), finds=repeat.finds)
        with self._only(keyed.id, key):
            if repeat.file:
                return await self._file(_Asked(key, keyed, repeat), request, call)
            return await self._once(_Asked(key, keyed, repeat), call)

    async def _once(self, asked: _Asked, call: Callable[[], Awaitable[Response]]) -> Response:
        found = await run_in_threadpool(self._records().find, asked.keyed.id)
        if found is not None:
            if known := asked.again(found):
                return known
            asked.keyed.kept, asked.keyed.nonce = True, found.nonce  # Executed again: the store recognises it.
        try:
            with answering(asked.keyed):
                response = await call()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if known := await self._first_one(asked, error):
                return known
            if asked.keyed.kept and found is None:
                await run_in_threadpool(self._records().drop, asked.keyed.id)
            raise
        if not (asked.repeat.finds and response.status_code == 204):
            await self._keep(asked, response)
        return response

    async def _file(self, asked: _Asked, request: Request, call: Callable[[], Awaitable[Response]]) -> Response:
        """The same for a file. Its digest is known only when all of it has arrived."""
        content: FileDigest = request.scope[FileDigest.PLACE]
        found = await run_in_threadpool(self._records().find, asked.keyed.id)
        if found is None:
            response = await call()
            asked.keyed.digest = digest_of(request, content.bytes)
            await self._keep(asked, response)
            return response
        async for _ in request.stream():
            content.must_fit(request.app.state.service.gate.settings.number("upload_limit"))
        asked.keyed.digest = digest_of(request, content.bytes)
        if known := asked.again(found):
            return known
        raise AlreadyDone(asked.key, "", "its answer was not kept")

    async def _first_one(self, asked: _Asked, error: Exception) -> Response | None:
        """The answer of another attempt that was first; None when there is none."""
        if asked.keyed.kept or not isinstance(error, HeadgateError) or isinstance(error, Unavailable):
            return None
        found = await run_in_threadpool(self._records().find, asked.keyed.id)
        known = None if found is None else asked.again(found)
        if known is None and isinstance(error, Repeated):
            raise KeyInUse(asked.key) from error
        return known

    async def _keep(self, asked: _Asked, response: Response) -> None:
        """Store an answer, unless it is secret."""
        if not asked.repeat.secret:
            text = _without_sealed(bytes(response.body).decode())
            await run_in_threadpool(self._records().keep_answer, asked.keyed, response.status_code, text)

    def _only(self, record: str, key: str) -> _Only:
        if record in self._running:
            raise KeyInUse(key)
        return _Only(self._running, record)


class _Only:
    """While a request is carried out."""

    def __init__(self, running: set[str], record: str) -> None:
        self._running, self._record = running, record

    def __enter__(self) -> None:
        self._running.add(self._record)

    def __exit__(self, *_: object) -> None:
        self._running.discard(self._record)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with its key."""

    key: str
    keyed: Keyed
    repeat: Repeat

    def again(self, found: Kept) -> Response | None:
        """The answer to a repeat; None when the store has to find it by the request's id."""
        if found.digest != self.keyed.digest:
            raise KeyReused(self.key)
        repeat = self.repeat
        if found.status is not None:
            return _json(found.status, found.answer)
        if repeat.by_store:
            return None
        result = own_ids(self.keyed.principal, json.loads(found.result)) if found.result else ""
        if repeat.secret:
            raise AlreadyDone(self.key, result, "its answer contained a secret, which is not stored")
        if repeat.part is None or (not found.result and repeat.status != 204):
            raise AlreadyDone(self.key, result, "its answer was not kept")
        if repeat.without and isinstance(result, dict):
            result.pop(repeat.without, None)
        content = {repeat.part: result, **repeat.beside} if repeat.part else result
        return _json(repeat.status, "" if repeat.status == 204 else json.dumps(content, ensure_ascii=False))


class FileDigest:
    """The digest of a file that is written to disk as it arrives."""

    #: Its key in the scope of a request.
    PLACE = "headgate.file"

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._hash, self._size = hashlib.sha256(), 0

    async def __call__(self) -> Message:
        """Receive the next part."""
        message = await self._receive()
        part = message.get("body", b"")
        self._hash.update(part)
        self._size += len(part)
        return message

    @property
    def bytes(self) -> bytes:
        """Of everything that has arrived so far."""
        return self._hash.digest()

    def must_fit(self, most: float) -> None:
        """TooLarge when more has arrived than is accepted."""
        if self._size > most:
            raise TooLarge(int(most), "upload_limit")


def digest_of(request: Request, body: bytes) -> str:
    """SHA-256 of everything that defines a request: a repeat with the same key has to be equal. The scopes are part of
    it, so that an answer is not repeated to a token of the same principal without these scopes.
    """
    scopes = " ".join(sorted(request.scope["headgate.caller"].token.scopes))
    where = request.scope["path"], request.scope["query_string"].decode("latin-1")
    head = "\0".join((request.method, *where, scopes, ""))
    return hashlib.sha256(head.encode() + body).hexdigest()


def _json(status: int, text: str) -> Response:
    return Response(text.encode(), status, media_type="application/json") if text else Response(status_code=status)


def _without_sealed(text: str) -> str:
    if f'"{NEVER_KEPT}"' not in text:
        return text
    return json.dumps(_pruned(json.loads(text)), ensure_ascii=False)


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _pruned(each) for name, each in value.items() if name != NEVER_KEPT}
    return [_pruned(each) for each in value] if isinstance(value, list) else value

"""What happens, as it happens: server-sent events out of the history, which can be taken up where they broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from headgate.core.errors import NotAllowed, Unavailable
from headgate.core.history import Entry
from headgate.core.wire import plain
from headgate.http import direct
from headgate.http.auth import Reader, TheService
from headgate.http.errors import TooMany
from headgate.http.following import Mark, newer, newest, parse_mark
from headgate.http.service import Service
from headgate.service.clock import steady

router = direct.router("whole")
#: Between two looks, and between two signs of life.
PAUSE_SECONDS, SILENCE_SECONDS = 0.5, 15.0


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A stream."}},
)
async def events(
    service: TheService, who: Reader, last: Annotated[str | None, Header(alias="Last-Event-ID")] = None
) -> StreamingResponse:
    """Everything that happens from now on, one history entry an event. With `Last-Event-ID`: from there on."""
    mark = await run_in_threadpool(newest, service.gate) if last is None else parse_mark(service.gate, last)
    if service.streams >= service.limits.streams:
        raise TooMany(f"{service.limits.streams} streams are open already", 10)
    return Counted(service, mark, who.token.id)


class Counted(StreamingResponse):
    """A stream that is counted from the moment that it is allowed."""

    def __init__(self, service: Service, mark: Mark, token_id: str) -> None:
        super().__init__(_stream(service, mark, token_id), media_type="text/event-stream")
        self._service = service
        service.streams += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._service.streams -= 1


async def _stream(service: Service, mark: Mark, token_id: str) -> AsyncIterator[str]:
    told = steady()
    yield f"id: {mark}\nretry: 1000\n: from here on\n\n"
    while not service.ending.is_set():
        try:
            found = await run_in_threadpool(_newer, service, mark, token_id)
        except NotAllowed:  # Nothing more is told to who may not be told any more.
            return
        for told_so_far, entry in found:
            yield _text(told_so_far, entry)
        mark = found[-1][0] if found else mark
        if not found and steady() - told > SILENCE_SECONDS:
            yield ": nothing happened\n\n"
        if found or steady() - told > SILENCE_SECONDS:
            told = steady()
        await _pause(service)


async def _pause(service: Service) -> None:
    try:
        await asyncio.wait_for(service.ending.wait(), PAUSE_SECONDS)
    except TimeoutError:
        return


def _newer(service: Service, mark: Mark, token_id: str) -> list[tuple[Mark, Entry]]:
    """A store that is away is asked again later."""
    try:
        service.gate.tokens.check(token_id)
        return newer(service.gate, mark)
    except Unavailable:
        return []


def _text(mark: Mark, entry: Entry) -> str:
    return f"id: {mark}\nevent: {entry.noun}\ndata: {json.dumps(plain(entry), ensure_ascii=False)}\n\n"

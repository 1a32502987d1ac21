"""What happens, as it happens: server-sent events out of the history, which can be taken up where they broke off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headgate.http import direct
from headgate.http.auth import Reader, TheService
from headgate.http.errors import TooMany
from headgate.http.following import Mark, parse_mark
from headgate.http.service import Service

router = direct.router("whole")


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A stream."}},
)
async def events(
    service: TheService, who: Reader, last: Annotated[str | None, Header(alias="Last-Event-ID")] = None
) -> StreamingResponse:
    """Everything that happens from now on, one history entry an event. With `Last-Event-ID`: from there on.

    The stream ends when its API token is revoked or expires.
    """
    mark = await service.feed.start() if last is None else parse_mark(service.gate, last)
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
    with service.feed.listening(mark) as listener, service.token_watch.watching(token_id) as ended:
        ended.add_done_callback(lambda _: listener.end())
        async for text in service.feed.stream(listener):
            yield text

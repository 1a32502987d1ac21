"""Events as they happen: server-sent events from the history, which can be resumed after an interruption."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headgate.http.access.auth import Caller
from headgate.http.api.handlers import ApiCall, Handlers
from headgate.http.errors import TooMany
from headgate.http.limits.bounds import subtract
from headgate.http.service import Service
from headgate.http.waiters.following import FeedMark, parse_mark
from headgate.operations import events

handlers = Handlers(events.declared)
#: Seconds after which a caller without room for a stream may retry.
LATER_SECONDS = 10


@handlers.of(events.follow)
async def follow(call: ApiCall, *, last: str | None) -> StreamingResponse:
    """From now on, or from where it was interrupted."""
    service, who = call.service, call.who
    mark = await service.feed.start() if last is None else parse_mark(service.gate, last)
    _must_have_room(service, who.token.id)
    return Counted(service, mark, who)


def _must_have_room(service: Service, token_id: str) -> None:
    """TooMany when the maximum number of streams is open, in total or for this token."""
    limits = service.limits
    if service.streams >= limits.streams_at_once:
        most = limits.streams_at_once
        raise TooMany(f"{most:,} event streams are already open", LATER_SECONDS, "streams_at_once", most)
    if service.streams_by[token_id] >= limits.streams_per_token:
        most = limits.streams_per_token
        why = f"this API token already has {most:,} event streams open"
        raise TooMany(why, LATER_SECONDS, "streams_per_token", most)


class Counted(StreamingResponse):
    """A stream that is counted from its admission on."""

    def __init__(self, service: Service, mark: FeedMark, who: Caller) -> None:
        super().__init__(_stream(service, mark, who), media_type="text/event-stream")
        self._service, self._token_id = service, who.token.id
        service.streams += 1
        service.streams_by[self._token_id] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._service.streams -= 1
            subtract(self._service.streams_by, self._token_id)


async def _stream(service: Service, mark: FeedMark, who: Caller) -> AsyncIterator[str]:
    watching = service.token_watch.watching(who.token.id, who.session)
    with service.feed.listening(mark, who.reach.sight) as listener, watching as ended:
        ended.add_done_callback(lambda _: listener.end())
        async for text in service.feed.stream(listener):
            yield text

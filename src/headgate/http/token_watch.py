"""API tokens that are revoked, or expire, while requests of theirs wait: one look at the store for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from headgate.core.errors import HeadgateError
from headgate.service.tokens import Tokens
from headgate.telemetry import event

#: Between two looks: what waits for longer than this ends within about so many seconds of its token.
LOOK_SECONDS = 1.0


class TokenWatch:
    """The tokens of those who wait at this service."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens
        #: By the token's id: how many wait, and what tells them that it has ended.
        self._watched: dict[str, tuple[int, asyncio.Future[None]]] = {}

    @contextmanager
    def watching(self, token_id: str) -> Iterator[asyncio.Future[None]]:
        """While somebody waits: done when the token has ended. All who wait by the same token share it."""
        count, ended = self._watched.get(token_id, (0, None))
        ended = ended or asyncio.get_running_loop().create_future()
        self._watched[token_id] = count + 1, ended
        try:
            yield ended
        finally:
            count, kept = self._watched.get(token_id, (0, ended))
            if kept is ended and count > 1:
                self._watched[token_id] = count - 1, ended
            elif kept is ended:
                self._watched.pop(token_id, None)

    async def run(self) -> None:
        """Look now and then, while somebody waits."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._watched:
                continue
            try:
                ended = await run_in_threadpool(self._tokens().ended, tuple(self._watched))
            except HeadgateError as error:  # It is asked again.
                event("http.tokens_not_read", why=str(error))
                continue
            for each in ended:
                _count, told = self._watched.pop(each, (0, None))
                if told is not None and not told.done():
                    told.set_result(None)

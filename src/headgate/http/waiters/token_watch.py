"""API tokens and browser sessions that end while their requests wait: one query of the store for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from headgate.service.access.sessions import BrowserSessions
from headgate.service.access.tokens import Tokens

#: A waiting caller: the id of its token, and the digest of its browser session; empty: none.
Who = tuple[str, str]


class TokenWatch:
    """The tokens and sessions of the waiters at this service."""

    def __init__(self, tokens: Callable[[], Tokens], sessions: Callable[[], BrowserSessions]) -> None:
        self._tokens = tokens
        self._sessions = sessions
        #: The number of waiters, and the event that notifies them of the end of their token or session.
        self._watched: dict[Who, tuple[int, asyncio.Future[None]]] = {}

    @contextmanager
    def watching(self, token_id: str, session: str) -> Iterator[asyncio.Future[None]]:
        """While callers wait: completes when the token or the session has ended. All waiters with the same one share
        it.
        """
        who = token_id, session
        count, ended = self._watched.get(who, (0, None))
        ended = ended or asyncio.get_running_loop().create_future()
        self._watched[who] = count + 1, ended
        try:
            yield ended
        finally:
            count, kept = self._watched.get(who, (0, ended))
            if kept is ended and count > 1:
                self._watched[who] = count - 1, ended
            elif kept is ended:
                self._watched.pop(who, None)

    async def look(self) -> None:
        """Notify those who wait by what has ended."""
        if not self._watched:
            return
        for each in await run_in_threadpool(self._ended, tuple(self._watched)):
            _count, told = self._watched.pop(each, (0, None))
            if told is not None and not told.done():
                told.set_result(None)

    def _ended(self, watched: Sequence[Who]) -> list[Who]:
        tokens = self._tokens().ended({token_id for token_id, _ in watched})
        sessions = self._sessions().ended({session for _, session in watched if session})
        return [who for who in watched if who[0] in tokens or who[1] in sessions]

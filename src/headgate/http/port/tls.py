"""A port that speaks TLS. Plain http is also answered, quickly, with an error."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from headgate.core.problems import TYPE
from headgate.http.limits.bounds import Limits
from headgate.telemetry import event

#: The first byte of every TLS connection.
HANDSHAKE = b"\x16"
#: Seconds to keep reading from a refused caller, so that the answer arrives before the connection ends.
LINGER_SECONDS, LINGER_BYTES = 1.0, 65_536
#: When no connection can be accepted, for example because too many files are open, it is retried after this time.
AGAIN_SECONDS = 1.0
_PROBLEM = json.dumps(
    {
        "type": f"{TYPE}bad-request",
        "title": "bad-request",
        "status": 400,
        "detail": "plain http was sent to a TLS port; use https",
    }
).encode()
#: The answer to plain http.
PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_PROBLEM), _PROBLEM)
)


class TlsListener:
    """Accepts connections on a listening socket, and passes those with TLS to a protocol."""

    def __init__(
        self, listening: socket.socket, context: ssl.SSLContext, protocol: Callable[[], asyncio.Protocol],
        limits: Limits,
    ) -> None:  # fmt: skip
        listening.settimeout(0)
        self._listening = listening
        self._context = context
        self._protocol = protocol
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        #: Connections that have not sent anything yet, or are in the handshake.
        self._greeting: dict[asyncio.Task[None], None] = {}
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Stop accepting connections."""
        for task in (self._accepting, *self._greeting):
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when all its tasks have ended."""
        await asyncio.gather(self._accepting, *self._greeting, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listening)
            except OSError as error:
                event("http.not_accepted", why=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if len(self._greeting) >= self._limits.connections:
                event("http.too_many_connections", open=len(self._greeting))
                oldest = next(iter(self._greeting))  # Silent connections must not keep others out.
                del self._greeting[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._greet(connection))
            self._greeting[task] = None
            task.add_done_callback(partial(self._forget, connection))

    def _forget(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._greeting.pop(task, None)
        if task.cancelled():  # Possibly before it began.
            connection.close()

    async def _greet(self, connection: socket.socket) -> None:
        """Look at the first byte, and do the handshake or refuse."""
        handed_on = False
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                first = await self._first_byte(connection)
                if first == HANDSHAKE:
                    await self._loop.connect_accepted_socket(self._protocol, connection, ssl=self._context)
                    handed_on = True
                elif first:
                    event("http.plain_on_tls")
                    await self._refuse(connection)
        except (OSError, TimeoutError) as error:  # There is nobody to answer.
            event("http.no_handshake", why=str(error) or "it took too long")
        finally:
            if not handed_on:
                connection.close()

    async def _first_byte(self, connection: socket.socket) -> bytes:
        """Without taking it. Empty: the other side has closed the connection."""
        while True:
            try:
                return connection.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                readable = asyncio.Event()
                self._loop.add_reader(connection, readable.set)
                try:
                    await readable.wait()
                finally:
                    self._loop.remove_reader(connection)

    async def _refuse(self, connection: socket.socket) -> None:
        await self._loop.sock_sendall(connection, PLAIN)
        connection.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES
        with suppress(TimeoutError):  # Closing with unread bytes would destroy the answer.
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and (got := await self._loop.sock_recv(connection, 8192)):
                    left -= len(got)

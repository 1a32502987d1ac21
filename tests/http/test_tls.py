"""The TLS port: clients that speak another protocol, clients that send nothing, and shutdown."""

import json
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import pytest

from headgate import Gate
from headgate.http.limits.bounds import Limits
from headgate.http.port.server import GRACE_SECONDS, Server
from headgate.http.service import Service

HEAD_SECONDS = 0.5


@pytest.fixture
def server(gate: Gate, certificate: tuple[str, str]) -> Iterator[Server]:
    """A service that does TLS itself, with short time limits."""
    server = Server(Service(gate, Limits(head_seconds=HEAD_SECONDS)), "127.0.0.1:0", certificate)
    server.start()
    yield server
    server.stop()


def connected(server: Server) -> socket.socket:
    host, port = server.url.removeprefix("https://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def all_of(connection: socket.socket) -> bytes:
    """Everything that is sent until the other side closes the connection."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"DELETE /v1/locks/1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/batches HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000,
        b"P",
    ],
    ids=["get", "delete", "with a body", "one byte"],
)
def test_plain_http_is_refused_and_the_connection_ends(server: Server, sent: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Connection: close" in head
    document: dict[str, Any] = json.loads(body)
    assert (document["status"], "use https" in document["detail"]) == (400, True)


def test_a_silent_connection_blocks_nobody(gate: Gate, certificate: tuple[str, str]) -> None:
    server = Server(Service(gate, Limits(connections=3)), "127.0.0.1:0", certificate)
    server.start()
    trusted = ssl.create_default_context(cafile=certificate[0])
    try:
        with ExitStack() as stack:
            crowd = [stack.enter_context(connected(server)) for _ in range(6)]
            crowd[-1].sendall(b"\x16\x03")
            with httpx2.Client(base_url=server.url, verify=trusted, trust_env=False) as client:
                assert client.get("/healthz").status_code == 200
            assert all_of(crowd[0]) == b"", "the one that has been silent longest is let go"
    finally:
        server.stop()


def test_an_incomplete_handshake_is_dropped_and_others_are_served(server: Server, certificate: tuple[str, str]) -> None:
    with connected(server) as silent, connected(server) as half, connected(server) as gone:
        half.sendall(b"\x16\x03")
        gone.close()
        trusted = ssl.create_default_context(cafile=certificate[0])
        with (
            httpx2.Client(base_url=server.url, verify=trusted, trust_env=False) as client,
            ThreadPoolExecutor(8) as many,
        ):
            assert {*many.map(lambda _: client.get("/healthz").status_code, range(16))} == {200}
        assert (all_of(silent), all_of(half)) == (b"", b"")


def test_a_service_stops_while_a_handshake_is_incomplete(gate: Gate, certificate: tuple[str, str]) -> None:
    server = Server(Service(gate), "127.0.0.1:0", certificate)
    server.start()
    with connected(server) as silent:
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < GRACE_SECONDS
        with suppress(ConnectionResetError):  # It may not have been accepted yet.
            assert all_of(silent) == b""

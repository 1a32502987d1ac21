"""A web server on loopback that serves files, and misbehaves on request. Each path has its own behaviour."""

from __future__ import annotations

import hashlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

#: Answers one request in its own way.
Act = Callable[["Handler"], None]


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Origin:
    """The server: its files, and the requests that it got."""

    scheme: str = "http"
    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    #: Behaviours for a path, each used once, in order; after them the file is served normally.
    acts: dict[str, list[Act]] = field(default_factory=dict)
    #: Behaviours that are used for every request.
    always: dict[str, Act] = field(default_factory=dict)
    #: The behaviour for all other paths; None: they are served normally.
    default: Act | None = None
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Set at the end, so that waiting behaviours return.
    closing: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def add(self, path: str, content: bytes, *acts: Act) -> str:
        self.files[path] = content
        self.acts[path] = list(acts)
        return self.url(path)

    def asked(self, path: str) -> list[Seen]:
        with self.lock:
            return [each for each in self.seen if each.path == path]

    def act(self, seen: Seen) -> Act | None:
        with self.lock:
            self.seen.append(seen)
            waiting = self.acts.get(seen.path)
            return self.always.get(seen.path) or (waiting.pop(0) if waiting else None) or self.default


class Handler(BaseHTTPRequestHandler):
    """Serves ranges, tags and lengths correctly, unless a behaviour overrides it."""

    protocol_version = "HTTP/1.1"
    origin: Origin

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        act = self.origin.act(Seen(self.command, self.path, dict(self.headers), body))
        if act is not None:
            act(self)
        elif self.path in self.origin.files:
            self.serve(self.origin.files[self.path])
        else:
            self.answer(404)

    def __getattr__(self, name: str) -> Any:
        """All methods are handled alike."""
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def serve(self, content: bytes) -> None:
        begin = self.range_begin(content)
        if begin >= len(content) and begin:
            self.answer(416)
            return
        extra = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if begin else {}
        self.head(206 if begin else 200, len(content) - begin, {"ETag": tag(content), **extra})
        if self.command != "HEAD":
            self.wfile.write(content[begin:])

    def range_begin(self, content: bytes) -> int:
        wanted = self.headers.get("Range", "")
        same = self.headers.get("If-Range", tag(content)) == tag(content)
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and same else 0

    def head(self, status: int, length: int | None, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.head(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def cut(self) -> None:
        """Reset the connection."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that disconnect are part of the tests."""


def tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'  # noqa: S324 - a name for the content


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


# ---------------------------------------------------------------- behaviours


def status(code: int, **headers: str) -> Act:
    return lambda handler: handler.answer(code, b"no", {key.replace("_", "-"): value for key, value in headers.items()})


def redirect(target: str, code: int = 302) -> Act:
    return status(code, Location=target)


def cut_at(place: int) -> Act:
    """Announce the whole length, send up to this byte of the file, and reset."""

    def act(handler: Handler) -> None:
        content = handler.origin.files[handler.path]
        begin = handler.range_begin(content)
        extra = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if begin else {}
        handler.head(206 if begin else 200, len(content) - begin, {"ETag": tag(content), **extra})
        handler.wfile.write(content[begin:place])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_WR)

    return act


def reset(handler: Handler) -> None:
    handler.cut()


def promise(length: int, body: bytes) -> Act:
    """Announce one length, send another, and close."""

    def act(handler: Handler) -> None:
        handler.head(200, length, {"Connection": "close"})
        handler.wfile.write(body)
        handler.close_connection = True

    return act


def endless(block: bytes = bytes(65536), **headers: str) -> Act:
    """Send endlessly, without a length."""

    def act(handler: Handler) -> None:
        handler.head(200, None, {"Connection": "close", **headers})
        handler.close_connection = True
        try:
            while not handler.origin.closing.is_set():
                handler.wfile.write(block)
        except OSError:
            return

    return act


def drip(pause: float = 0.02) -> Act:
    """Send one byte at a time."""

    def act(handler: Handler) -> None:
        handler.head(200, 1_000_000)
        handler.close_connection = True
        try:
            while not handler.origin.closing.wait(pause):
                handler.wfile.write(b"x")
        except OSError:
            return

    return act


def drip_headers(pause: float = 0.02) -> Act:
    def act(handler: Handler) -> None:
        handler.close_connection = True
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not handler.origin.closing.wait(pause):
                handler.wfile.write(b"x")
        except OSError:
            return

    return act


def silence(handler: Handler) -> None:
    """Send half of the file, then nothing more."""
    content = handler.origin.files[handler.path]
    handler.head(200, len(content), {"ETag": tag(content)})
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.close_connection = True
    handler.origin.closing.wait()


@contextmanager
def serving(host: str = "127.0.0.1", certificate: Path | None = None) -> Iterator[Origin]:
    origin = Origin(scheme="https" if certificate else "http")
    handler = type("OriginHandler", (Handler,), {"origin": origin})
    server = _Server((host, 0), handler)
    if certificate:
        server.socket = server_context(certificate).wrap_socket(server.socket, server_side=True)
    origin.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield origin
    finally:
        origin.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()

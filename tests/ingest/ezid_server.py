"""A stand-in for EZID on loopback: its text protocol, word for word, and network faults."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from headgate.ingest.formats.ark import mint
from headgate.ingest.formats.ezid import EzidAnswer, EzidRequest

USER, PASSWORD = "apitest", "pass:word"

#: The HTTP status of an answer by its first words, as in EZID.
_STATUSES = (
    ("success:", 200),
    ("error: bad request", 400),
    ("error: unauthorized", 401),
    ("error: forbidden", 403),
    ("error: method not allowed", 405),
    ("error: concurrency limit exceeded", 503),
)


class EzidServer(ThreadingHTTPServer):
    """Knows one account and the shoulders it may use."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.shoulders = ["ark:/99999/fk4"]
        #: The metadata of each identifier.
        self.known: dict[str, dict[str, str]] = {}
        #: The number of minted identifiers.
        self.minted = 0
        #: Every request: method, path with query, body.
        self.seen: list[tuple[str, str, str]] = []
        #: Faults for the next requests, in order: busy, lost, deaf, page, error, or other text.
        self.faults: list[str] = []
        #: The Retry-After header of the fault busy.
        self.retry_after = ""
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address on which it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str, query: dict[str, str], body: str) -> tuple[str, bool]:
        """The status line, and whether the request creates an identifier."""
        with self._lock:
            if path.startswith("/shoulder/"):
                return self._mint(method, path.removeprefix("/shoulder/"), query, body), True
            if path.startswith("/id/"):
                return self._identifier(method, path.removeprefix("/id/"), query, body), method == "PUT"
            return "error: bad request - no such resource", False

    def _mint(self, method: str, shoulder: str, query: dict[str, str], body: str) -> str:
        metadata = read_as_ezid(body)
        if method != "POST":
            return "error: method not allowed"
        if query:
            return f"error: bad request - unrecognized URL query parameter '{next(iter(query))}'"
        if metadata is None:
            return "error: bad request - ANVL parse error"
        if shoulder not in self.shoulders:
            return "error: forbidden"
        self.minted += 1
        name = str(mint(shoulder, self.minted, b"ezid"))
        self.known[name] = metadata
        return f"success: {name}"

    def _identifier(self, method: str, name: str, query: dict[str, str], body: str) -> str:
        metadata = read_as_ezid(body)
        if metadata is None:
            return "error: bad request - ANVL parse error"
        if set(query) - {"update_if_exists"} or query.get("update_if_exists", "no") not in ("yes", "no"):
            return "error: bad request - unrecognized URL query parameter"
        if not any(name.startswith(shoulder) for shoulder in self.shoulders):
            return "error: forbidden"
        if method != "PUT" and name not in self.known:
            return "error: bad request - no such identifier"
        if method == "PUT" and name in self.known and query.get("update_if_exists") != "yes":
            return "error: bad request - identifier already exists"
        self.known.setdefault(name, {}).update(metadata)
        return f"success: {name}"


class _Handler(BaseHTTPRequestHandler):
    server: EzidServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Do nothing: the tests read the recorded requests."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.seen.append((self.command, self.path, body))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault == "deaf":
            self._hang_up()
        elif fault == "busy":
            self._reply("error: concurrency limit exceeded", extra={"Retry-After": self.server.retry_after})
        elif fault == "error":
            self._reply("error: internal server error")
        elif fault == "page":
            self._send(502, b"<html><body>Bad Gateway</body></html>", "text/html", {})
        elif fault and fault != "lost":
            self._reply(fault)
        else:
            self._really(body, lost=fault == "lost")

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _really(self, body: str, *, lost: bool) -> None:
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode():
            self._reply("error: unauthorized", extra={"WWW-Authenticate": 'Basic realm="EZID"'})
            return
        if self.headers.get("Content-Type", "").lower() not in ("text/plain", "text/plain; charset=utf-8"):
            self._reply("error: bad request - If specified, Content-Type must be text/plain and encoding must be UTF-8")
            return
        parts = urlsplit(self.path)
        status, creates = self.server.answer(self.command, unquote(parts.path), dict(parse_qsl(parts.query)), body)
        if lost:
            self._hang_up()
        else:
            self._reply(status, creates=creates)

    def _reply(self, status: str, *, creates: bool = False, extra: dict[str, str] | None = None) -> None:
        number = next((number for start, number in _STATUSES if status.startswith(start)), 500)
        word, _, text = status.partition(":")
        # EZID writes its status line as ANVL, without a line end.
        encoded = re.sub("[%\r\n]", lambda found: f"%{ord(found[0]):02X}", text.strip())
        self._send(
            201 if number == 200 and creates else number,
            f"{word}: {encoded}".encode(),
            "text/plain; charset=utf-8",
            extra or {},
        )

    def _send(self, number: int, body: bytes, kind: str, extra: dict[str, str]) -> None:
        self.send_response(number)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **extra}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def ezid_server() -> Iterator[EzidServer]:
    """A server that runs for the duration of the block."""
    server = EzidServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(request: EzidRequest) -> EzidAnswer:
    """A transport without guards, for a server on loopback."""
    parts = urlsplit(request.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(request.method, path, request.body, dict(request.headers))
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return EzidAnswer(answer.status, headers, answer.read())
    except http.client.HTTPException as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    finally:
        connection.close()


def read_as_ezid(text: str) -> dict[str, str] | None:
    """The rules of EZID's server, written again as one expression for each rule; None: it answers with an error."""
    # A continued line is joined to the line before it; comments are removed.
    lines = [line for line in re.split("\r\n?|\n", text) if not line.startswith("#")]
    joined: list[list[str]] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line[:1].isspace():
            if not before or not joined:
                return None
            joined[-1].append(line)
        elif line:
            joined.append([line])
    found: dict[str, str] = {}
    for first, *rest in joined:
        label, colon, value = first.partition(":")
        parts = [label, value, *rest]
        if not colon or any(re.search("%(?![0-9A-Fa-f]{2})", part) for part in parts):
            return None
        plain = [re.sub("%(..)", lambda hit: chr(int(hit[1], 16)), part).strip() for part in parts]
        if not plain[0] or plain[0] in found:
            return None
        found[plain[0]] = " ".join(filter(None, plain[1:]))
    return found

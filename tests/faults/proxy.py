"""A TCP proxy that cuts connections at a chosen message: before it arrives, or after it had its effect."""

import re
import socket
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.servers import free_port

TO_SERVER, TO_CLIENT = "to server", "to client"


@dataclass(slots=True)
class Cut:
    """Which message is not passed on. What follows it is cut too."""

    #: To the server: the request never arrives. To the client: it was carried out, and the answer is lost.
    direction: str
    #: The first message from now on is 1.
    number: int
    #: True: all connections end, and new ones are refused, until `open` is called.
    stays_away: bool = False
    #: True: the connection stays open at both ends, and nothing passes any more.
    silent: bool = False


class Proxy:
    """Passes everything on, until told to cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._port = free_port()
        self.url = re.sub(rf":{parts.port}\b", f":{self._port}", url)
        self._guard = threading.Lock()
        self._cut: Cut | None = None
        #: Messages since it was armed, by direction.
        self.seen: Counter[str] = Counter()
        self._refusing = False
        self._open: list[socket.socket] = []
        #: Sockets from which nothing is passed on, though they stay open; and whether new ones are such, too.
        self._silent: set[socket.socket] = set()
        self._silences_all = False
        #: Set when the cut has been made.
        self.fired = threading.Event()
        self._desk = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._serve, daemon=True).start()

    def arm(self, cut: Cut | None) -> None:
        """Cut there, once; None: only count."""
        with self._guard:
            self._cut, self.seen = cut, Counter()
            self.fired.clear()

    def disarm(self) -> None:
        with self._guard:
            self._cut = None

    def open(self) -> None:
        """Let connections in again, and let new ones pass."""
        self._refusing = self._silences_all = False

    def silence(self, *, new_ones: bool) -> None:
        """Pass nothing on any more on all connections, which stay open; on `new_ones` neither, until `open`."""
        self._silences_all = new_ones
        self._silent.update(self._open)

    def close(self) -> None:
        self._desk.close()
        self._end(self._open)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._desk.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open += [client, server]
        if self._silences_all:
            self._silent.update((client, server))
        for source, target, direction in ((client, server, TO_SERVER), (server, client, TO_CLIENT)):
            threading.Thread(target=self._pump, args=(source, target, direction), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                if source in self._silent:
                    continue
                if self._is_cut(direction, (source, target)):
                    if source not in self._silent:
                        break
                    continue
                target.sendall(data)
        self._end([source, target])

    def _is_cut(self, direction: str, ends: tuple[socket.socket, socket.socket]) -> bool:
        with self._guard:
            self.seen[direction] += 1
            cut = self._cut
            if cut is None or cut.direction != direction or self.seen[direction] < cut.number:
                return False
            self._cut = None
            if cut.stays_away:
                self._refusing = True
                self._end(self._open)
            if cut.silent:
                self._silent.update(ends)
            self.fired.set()
            return True

    def _end(self, sockets: list[socket.socket]) -> None:
        for each in list(sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

"""The TCP proxy of the tests: it stands between a client and a server, and breaks the network between them.

    with Proxy("postgresql://127.0.0.1:5432/db") as proxy:   # or a pair (host, port)
        connect(proxy.url)
        proxy.hold()                  # silence: connections stay open, nothing passes, connects hang
        proxy.hold(TO_CLIENT)         # the same in one direction: requests arrive, answers do not
        proxy.cut()                   # every connection ends, new ones are closed at once
        proxy.reset()                 # every connection ends with a reset; new ones pass
        proxy.silence(new_ones=False) # the connections that are open stay open, and nothing passes on them ever again
        proxy.strand(CLIENT)          # half-open: the server's side ends, the client's side stays open and silent
        proxy.switch(url)             # another server is behind the same address
        proxy.slow(0.2)               # every message is this much later
        proxy.heal()                  # everything passes again; what was held is delivered late

A held connection differs from a lost network in one respect: the kernel goes on acknowledging what it receives, so
TCP's own timers see nothing. Only a deadline of the caller's own ends such a call.
"""

import ctypes
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from tests.servers import free_port

#: The directions in which bytes flow.
TO_SERVER, TO_CLIENT = "to server", "to client"
BOTH = (TO_SERVER, TO_CLIENT)
#: The sides of a half-open connection: the one named stays open.
CLIENT, SERVER = "client", "server"
#: Operations of ZooKeeper's protocol, by their numbers.
CREATE, MULTI, CREATE2 = 1, 14, 15
#: Connections that fill the kernel's queue of a listener that never accepts: any further connect hangs.
STUFFERS = 4


@dataclass(slots=True)
class Cut:
    """A message that is not forwarded. Its connection ends there."""

    #: To the server: the request never arrives. To the client: it was carried out, and the answer is lost.
    direction: str
    #: Counted from the moment of arming; the first message is 1.
    number: int
    #: True: all connections end, and new ones are closed at once, until `heal` is called.
    stays_away: bool = False
    #: True: the connection stays open at both ends, and nothing more is forwarded on it.
    silent: bool = False


@dataclass(slots=True, eq=False)
class Link:
    """One connection through the proxy."""

    client: socket.socket
    server: socket.socket
    #: The side that stays open after the other one ended; empty while both are open.
    stranded: str = ""
    #: True: open at both ends, and nothing more is forwarded, even after healing.
    silent: bool = False
    #: Numbers of the requests whose answers are to be lost.
    doomed: list[int] = field(default_factory=list)


class Proxy:
    """Forwards everything by default. Many connections; each direction can be broken separately."""

    def __init__(self, target: str | tuple[str, int], alter: Callable[[bytes], bytes] | None = None) -> None:
        """`alter` changes the bytes that flow to the server, and must keep their number."""
        self._target = _address(target)
        self._alter = alter
        self.port = free_port()
        self.url = re.sub(rf":{self._target[1]}\b", f":{self.port}", target) if isinstance(target, str) else ""
        self._guard = threading.Condition()
        self._held: set[str] = set()
        self._refusing = False
        self._delay = 0.0
        self._cut: Cut | None = None
        self._links: set[Link] = set()
        self._stuffers: list[socket.socket] = []
        self._closed = False
        #: Messages since `arm`, by direction.
        self.seen: Counter[str] = Counter()
        #: The effects of the faults: messages held or lost, connections ended or refused.
        self.hits = 0
        #: Set when the armed cut has been made.
        self.fired = threading.Event()
        self._reachable = threading.Event()
        self._reachable.set()
        self._desk = socket.create_server(("127.0.0.1", self.port), backlog=128)
        threading.Thread(target=self._serve, daemon=True).start()

    # ------------------------------------------------------------------ faults

    def hold(self, *directions: str, connects: bool = False) -> None:
        """Silence in these directions (both, if none is named). With `connects`, new connections still open."""
        with self._guard:
            self._held = set(directions or BOTH)
        if not connects:
            self._stuff()

    def cut(self) -> None:
        """End every connection, and close new ones at once."""
        self._refusing = True
        self._end_all()

    def reset(self) -> None:
        """End every connection with a reset; new ones pass."""
        self._end_all(reset=True)

    def strand(self, side: str) -> None:
        """Leave every connection half-open: that side stays open and receives nothing; the other side ends."""
        with self._guard:
            links = [link for link in self._links if not link.stranded]
            self.hits += len(links)
            for link in links:
                link.stranded = side
        for link in links:
            _close(link.server if side == CLIENT else link.client)

    def silence(self, *, new_ones: bool) -> None:
        """Forward nothing more on open connections. `new_ones`: neither on new ones, until `heal`."""
        with self._guard:
            self.hits += len(self._links)
            for link in self._links:
                link.silent = True
        if new_ones:
            self.hold(connects=True)

    def switch(self, target: str | tuple[str, int]) -> None:
        """Forward to another server from now on, at the same address; connections to the old one end."""
        self._target = _address(target)
        self._end_all()

    def slow(self, seconds: float) -> None:
        """Forward every message this much later."""
        self._delay = seconds

    def heal(self, *, reset: bool = False) -> None:
        """Forward everything again. Held messages are delivered, or with `reset` lost with their connection."""
        if reset:
            self._end_all(reset=True)
        self._refusing, self._delay = False, 0.0
        for stuffer in self._stuffers:
            stuffer.close()
        if self._stuffers and not self._closed:
            self._desk.listen(128)
        self._reachable.set()
        with self._guard:
            self._held = set()
            self._guard.notify_all()

    def arm(self, cut: Cut | None) -> None:
        """Count messages from now on, and make this cut once; None: only count."""
        with self._guard:
            self._cut, self.seen = cut, Counter()
            self.fired.clear()

    def disarm(self) -> None:
        """Disarm the cut."""
        with self._guard:
            self._cut = None

    def close(self) -> None:
        """End every connection, and stop listening."""
        self._closed = True
        self._reachable.set()
        _close(self._desk)
        self.heal(reset=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ connections

    def _serve(self) -> None:
        with suppress(OSError):
            while not self._closed:
                self._reachable.wait()
                client, caller = self._desk.accept()
                if caller in self._stuffed():
                    client.close()
                elif self._refusing:
                    self.hits += 1
                    client.close()
                else:
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        for end in (client, server):
            with suppress(OSError):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(client, server)
        with self._guard:
            self._links.add(link)
        for direction in BOTH:
            threading.Thread(target=self._pump, args=(link, direction), daemon=True).start()

    def _pump(self, link: Link, direction: str) -> None:
        source, target = (link.client, link.server) if direction == TO_SERVER else (link.server, link.client)
        with suppress(OSError, EOFError):
            while data := self._read(source):
                if not link.silent and self._passes(link, direction, data):
                    self._wait(direction)
                    target.sendall(self._alter(data) if self._alter and direction == TO_SERVER else data)
                elif not link.silent:
                    break
        # While the direction is held the end is not forwarded either.
        self._wait(direction)
        if not link.stranded:
            self._end(link)

    def _read(self, source: socket.socket) -> bytes:
        """The next message; everything that arrives at once counts as one."""
        return source.recv(1 << 20)

    def _passes(self, link: Link, direction: str, _data: bytes) -> bool:
        """Whether a message is forwarded; if it is not, its connection ends or is silent."""
        with self._guard:
            self.seen[direction] += 1
            self.hits += direction in self._held
            cut = self._cut
            if cut is None or cut.direction != direction or self.seen[direction] < cut.number:
                return True
            self._cut = None
            self._refusing = self._refusing or cut.stays_away
            link.silent = cut.silent
        if cut.stays_away:
            self._end_all()
        self.fired.set()
        return False

    def _wait(self, direction: str) -> None:
        with self._guard:
            self._guard.wait_for(lambda: direction not in self._held)
        if self._delay:
            time.sleep(self._delay)

    # ------------------------------------------------------------------ ends

    def _stuff(self) -> None:
        """Accept no connection, and fill the kernel's queue, so that it drops further attempts to connect."""
        self._reachable.clear()
        self._desk.listen(0)
        self._stuffers = [socket.socket() for _ in range(STUFFERS)]
        for stuffer in self._stuffers:
            stuffer.setblocking(False)
            stuffer.connect_ex(("127.0.0.1", self.port))

    def _stuffed(self) -> set[tuple[str, int]]:
        found = set()
        for stuffer in self._stuffers:
            with suppress(OSError):
                found.add(stuffer.getsockname())
        return found

    def _end_all(self, *, reset: bool = False) -> None:
        with self._guard:
            links = list(self._links)
            self.hits += len(links)
        for link in links:
            self._end(link, reset=reset)

    def _end(self, link: Link, *, reset: bool = False) -> None:
        with self._guard:
            self._links.discard(link)
        for each in (link.client, link.server):
            _close(each, reset=reset)


class FrameProxy(Proxy):
    """A proxy in front of ZooKeeper: a message is a frame, and the answer to one kind of request can be lost."""

    def __init__(self, target: str | tuple[str, int]) -> None:
        self._lose: int | None = None
        self._skip = 0
        #: Set when the answer has been lost.
        self.lost = threading.Event()
        super().__init__(target)

    def lose_answer_to(self, kind: int, skip: int = 0) -> None:
        """The next request of that kind, after this many, reaches the server; its answer and connection are lost."""
        self.lost.clear()
        self._skip = skip
        self._lose = kind

    def lose_nothing(self) -> None:
        """Lose no more answers."""
        self._lose = None

    def cut_when_lost(self) -> None:
        """Cut as soon as the answer has been lost."""
        self.lost.wait()
        self.cut()

    def _read(self, source: socket.socket) -> bytes:
        head = _read_exactly(source, 4)
        return head + _read_exactly(source, struct.unpack("!i", head)[0])

    def _passes(self, link: Link, direction: str, data: bytes) -> bool:
        if direction == TO_SERVER:
            self._note(link, data)
        elif struct.unpack_from("!i", data, 4)[0] in link.doomed:
            self._end(link)
            self.lost.set()
            return False
        return super()._passes(link, direction, data)

    def _note(self, link: Link, frame: bytes) -> None:
        """Remember the request whose answer is to be lost. The first frame of a session is no request."""
        number, kind = struct.unpack_from("!ii", frame, 4)
        if number > 0 and kind == self._lose:
            self._skip -= 1
            if self._skip < 0:
                self._lose = None
                link.doomed.append(number)


def _address(target: str | tuple[str, int]) -> tuple[str, int]:
    if isinstance(target, tuple):
        return target
    parts = urlsplit(target)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _close(end: socket.socket, *, reset: bool = False) -> None:
    """Close it, and wake the thread that reads from it, which closing alone does not do."""
    with suppress(OSError):
        if reset and end.fileno() >= 0:
            # Connecting to no family is how Linux resets a connection at once, no matter who else uses the descriptor.
            ctypes.CDLL(None).connect(end.fileno(), bytes(16), 16)
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data

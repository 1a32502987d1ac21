"""A proxy before ZooKeeper that knows its frames, and can lose the answer to just one request."""

import contextlib
import socket
import struct
import threading
from typing import Self

CREATE, MULTI, CREATE2 = 1, 14, 15


class Proxy:
    """Listens on a port of its own, and hands on to the server."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._links: set[tuple[socket.socket, socket.socket]] = set()
        self._guard = threading.Lock()
        self._open = True
        self._lose: int | None = None
        self._skip = 0
        self.lost = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer_to(self, kind: int, skip: int = 0) -> None:
        """The next request of that kind, after so many, reaches the server; its answer and connection are lost."""
        self.lost.clear()
        self._skip = skip
        self._lose = kind

    def lose_nothing(self) -> None:
        """All goes well again."""
        self._lose = None

    def cut(self) -> None:
        """Nobody gets through, until `mend`."""
        self._open = False
        with self._guard:
            for link in list(self._links):
                self._close(link)

    def cut_when_lost(self) -> None:
        """As soon as the answer that is to be lost is lost."""
        self.lost.wait()
        self.cut()

    def freeze(self) -> None:
        """Nothing is handed on, and nothing is closed, until `mend`."""
        self._flowing.clear()

    def mend(self) -> None:
        self._open = True
        self._flowing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._flowing.set()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self._open:
                    client.close()
                    continue
                self._link(client)

    def _link(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._server)
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = (client, server)
        with self._guard:
            self._links.add(link)
        doomed: list[int] = []
        threading.Thread(target=self._requests, args=(link, doomed), daemon=True).start()
        threading.Thread(target=self._answers, args=(link, doomed), daemon=True).start()

    def _requests(self, link: tuple[socket.socket, socket.socket], doomed: list[int]) -> None:
        client, server = link
        with contextlib.suppress(OSError, EOFError):
            greeting = read_frame(client)
            self._flowing.wait()
            server.sendall(greeting)
            while True:
                frame = read_frame(client)
                number, kind = struct.unpack_from("!ii", frame, 4)
                if kind == self._lose:
                    self._skip -= 1
                    if self._skip < 0:
                        self._lose = None
                        doomed.append(number)
                self._flowing.wait()
                server.sendall(frame)
        self._drop(link)

    def _answers(self, link: tuple[socket.socket, socket.socket], doomed: list[int]) -> None:
        client, server = link
        with contextlib.suppress(OSError, EOFError):
            client.sendall(read_frame(server))
            while True:
                frame = read_frame(server)
                if struct.unpack_from("!i", frame, 4)[0] in doomed:
                    self._drop(link)
                    self.lost.set()
                    return
                client.sendall(frame)
        self._drop(link)

    def _drop(self, link: tuple[socket.socket, socket.socket]) -> None:
        with self._guard:
            self._close(link)

    def _close(self, link: tuple[socket.socket, socket.socket]) -> None:
        self._links.discard(link)
        for each in link:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def read_frame(connection: socket.socket) -> bytes:
    head = read_exactly(connection, 4)
    return head + read_exactly(connection, struct.unpack("!i", head)[0])


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data

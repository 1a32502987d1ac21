"""A call over HTTP ends within its time limit, which covers all attempts and all their phases."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headgate.client import connection
from headgate.client.connection import ServiceConnection
from headgate.core.errors import StoreUnavailable
from headgate.stores.options import StoreOptions

#: The limit of a call, and the extra time that the client allows for the round trip.
ANSWER_WITHIN = 1.0
ALL_SECONDS = ANSWER_WITHIN + connection.ALLOWANCE_SECONDS

#: What the server does with one connection; `over` is set when the test ends.
Treatment = Callable[[socket.socket, threading.Event], None]


def reset_late(link: socket.socket, over: threading.Event) -> None:
    """Send no answer, and reset the connection half-way to the limit."""
    link.recv(65536)
    over.wait(ALL_SECONDS / 2)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def keep_silent(link: socket.socket, over: threading.Event) -> None:
    """Send no answer."""
    link.recv(65536)
    over.wait()


def trickle(link: socket.socket, over: threading.Event) -> None:
    """Send the answer one byte at a time, forever."""
    link.recv(65536)
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while not over.wait(0.1):
        link.sendall(b" ")


def take_and_leave(link: socket.socket, over: threading.Event) -> None:
    """Read the request, and close both the connection and the server."""
    link.recv(65536)


class Listener:
    """A server that treats its first connection in one way, and the second in another."""

    def __init__(self, *treatments: Treatment) -> None:
        self.over = threading.Event()
        self.connections = 0
        self._treatments = treatments
        self._desk = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._desk.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for number, treatment in enumerate(self._treatments, start=1):
            link, _ = self._desk.accept()
            self.connections += 1
            if number == len(self._treatments):
                self._desk.close()
            threading.Thread(target=self._treat, args=(treatment, link), daemon=True).start()

    def _treat(self, treatment: Treatment, link: socket.socket) -> None:
        with link:
            try:
                treatment(link, self.over)
            except OSError:  # The client has disconnected.
                return

    def close(self) -> None:
        self.over.set()
        self._desk.close()


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    with ExitStack() as made:

        def start(*treatments: Treatment) -> Listener:
            listener = Listener(*treatments)
            made.callback(listener.close)
            return listener

        yield start


@pytest.mark.parametrize(
    "treatments", [(reset_late, keep_silent), (trickle,)], ids=["two silent attempts", "an answer that never ends"]
)
def test_a_call_ends_at_its_limit_however_it_is_delayed(
    listen: Callable[..., Listener], treatments: tuple[Treatment, ...]
) -> None:
    listener = listen(*treatments)
    asking = ServiceConnection(listener.url, "", StoreOptions(answer_within=ANSWER_WITHIN))
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as raised:
        asking.send("POST", "locks", body={}, request_id="r-1")
    seconds = time.monotonic() - began
    asking.close()
    assert listener.connections == len(treatments)
    assert raised.value.outcome == "unknown"
    assert ALL_SECONDS - 0.1 < seconds < ALL_SECONDS + 0.5


def test_a_request_that_may_have_taken_effect_is_not_reported_as_never_sent(listen: Callable[..., Listener]) -> None:
    """The answer to the first attempt is lost, and the second finds no server: the outcome is unknown."""
    listener = listen(take_and_leave)
    asking = ServiceConnection(listener.url, "", StoreOptions(answer_within=ANSWER_WITHIN))
    with pytest.raises(StoreUnavailable) as raised:
        asking.send("POST", "locks", body={}, request_id="r-1")
    asking.close()
    assert raised.value.outcome == "unknown"

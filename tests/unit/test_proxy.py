"""The proxy of the fault tests does what it documents, seen from both sides."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.proxy import CLIENT, SERVER, TO_CLIENT, TO_SERVER, Proxy
from tests.waiting import until

#: How long to listen for silence; a message that passed would arrive at once.
SILENCE = 0.2


class Echo:
    """A server that keeps what it receives, and answers with it."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.ended = threading.Event()
        self._desk = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._desk.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                threading.Thread(target=self._answer, args=(self._desk.accept()[0],), daemon=True).start()
        except OSError:
            return

    def _answer(self, client: socket.socket) -> None:
        try:
            while data := client.recv(100):
                self.received.append(data)
                client.sendall(data)
        except OSError:
            pass
        self.ended.set()
        client.close()

    def close(self) -> None:
        self._desk.shutdown(socket.SHUT_RDWR)
        self._desk.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.address) as proxy:
        yield proxy


Dial = Callable[[], socket.socket]


@pytest.fixture
def dial(proxy: Proxy) -> Iterator[Dial]:
    """Connects through the proxy; connections are closed at the end of the test."""
    made: list[socket.socket] = []

    def connect() -> socket.socket:
        made.append(socket.create_connection(("127.0.0.1", proxy.port), timeout=10))
        return made[-1]

    yield connect
    for each in made:
        each.close()


def silent(client: socket.socket) -> bool:
    client.settimeout(SILENCE)
    try:
        return client.recv(100) == b"never"
    except TimeoutError:
        client.settimeout(10)
        return True


def said(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def test_everything_is_forwarded_on_many_connections(dial: Dial) -> None:
    clients = [dial() for _ in range(50)]
    assert [said(each, b"%d" % number) for number, each in enumerate(clients)] == [b"%d" % n for n in range(50)]


def test_traffic_delayed_in_both_directions_arrives_late(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.hold()
    client.sendall(b"two")
    assert silent(client)
    assert echo.received == [b"one"]
    proxy.heal()
    assert client.recv(100) == b"two"
    assert proxy.hits == 1


def test_only_answers_are_held(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.hold(TO_CLIENT)
    client.sendall(b"two")
    until(lambda: echo.received == [b"one", b"two"], "the request to arrive")
    assert silent(client)
    proxy.heal()
    assert client.recv(100) == b"two"


def test_only_requests_are_held(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.hold(TO_SERVER)
    client.sendall(b"two")
    assert silent(client)
    assert echo.received == [b"one"]


def test_delayed_traffic_can_be_lost_with_its_connection(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.hold()
    client.sendall(b"two")
    until(lambda: proxy.hits, "the message to be held")
    proxy.heal(reset=True)
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    assert said(dial(), b"three") == b"three"
    assert echo.received == [b"one", b"three"]


def test_connecting_hangs_while_nothing_is_forwarded(proxy: Proxy, dial: Dial) -> None:
    proxy.hold()
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=SILENCE)
    proxy.heal()
    assert said(dial(), b"again") == b"again"


def test_new_connections_can_be_accepted_and_held(proxy: Proxy, dial: Dial) -> None:
    proxy.hold(connects=True)
    assert silent(dial())


def test_a_cut_closes_open_connections_and_refuses_new_ones(proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.cut()
    assert client.recv(100) == b""
    assert dial().recv(100) == b""
    proxy.heal()
    assert said(dial(), b"again") == b"again"


def test_a_reset_is_a_reset_on_both_sides(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    assert echo.ended.wait(10)
    assert said(dial(), b"again") == b"again"


def test_a_connection_is_half_open_at_the_client(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.strand(CLIENT)
    assert echo.ended.wait(10)
    client.sendall(b"two")
    assert silent(client)
    assert said(dial(), b"again") == b"again"


def test_a_connection_is_half_open_at_the_server(echo: Echo, proxy: Proxy, dial: Dial) -> None:
    client = dial()
    assert said(client, b"one") == b"one"
    proxy.strand(SERVER)
    assert client.recv(100) == b""
    assert not echo.ended.wait(SILENCE)

"""Unavailable is never reported as refused, and the same gate works again when the server is back."""

from collections.abc import Callable, Iterator

import pytest

import headgate
from headgate import Gate, LockRefused, Refused, StoreUnavailable, Unavailable
from tests.contract.steps import LONG, Gates, failure, holders, queue_behind
from tests.servers import PrivateServer
from tests.waiting import until

R = "mysql://db1/core"
SERVERS = ["postgresql", "mariadb", "zookeeper"]

Start = Callable[[str], PrivateServer]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, module_private_server: Start) -> PrivateServer:
    """A server that these tests stop and restart."""
    return module_private_server(request.param)


@pytest.fixture
def gates(server: PrivateServer) -> Iterator[Gates]:
    if not server.running:
        server.restart()
    # ZooKeeper is retried for five seconds by default; the tests need not wait that long for each refusal.
    gates = Gates(server.fresh() + ("?patience=3" if server.kind == "zookeeper" else ""))
    yield gates
    if not server.running:
        server.restart()
    gates.close()


def test_a_stopped_server_is_unavailable_and_never_refused(gates: Gates, server: PrivateServer) -> None:
    gate = gates.open()
    lock = gate.locks.acquire("a", R, "write")
    server.stop()
    asked: list[Callable[[], object]] = [
        lambda: gate.locks.acquire("b", R, "write"),
        lambda: gate.locks.acquire_all("b", {R: "read", "other": "read"}),
        lambda: gate.locks.check(lock),
        lambda: gate.locks.release(lock),
        lambda: gate.locks.renew(lock),
        gate.locks.list,
        gate.history,
        gate.status,
        gate.store.ping,
    ]
    for ask in asked:
        with pytest.raises(StoreUnavailable) as error:
            ask()
        assert not isinstance(error.value, Refused)
        assert isinstance(error.value, Unavailable)
        assert str(server.port) in error.value.store
    with pytest.raises(StoreUnavailable):
        headgate.connect(gates.url)
    server.restart()
    # The same gate, the same lock, and no trace of the requests meanwhile.
    until(lambda: answers(gate), "the gate to work again")
    assert gate.locks.check(lock).token == lock.token
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", R, "write")
    gate.locks.release(lock)
    gate.locks.acquire("b", R, "write")


def test_a_server_that_was_killed_loses_no_grant(gates: Gates, server: PrivateServer) -> None:
    gate = gates.open()
    lock = gate.locks.acquire("a", R, "write", lease=LONG)
    persistent = gate.locks.acquire("a", "persistent", "write")
    server.kill()
    server.restart()
    until(lambda: answers(gate), "the gate to work again")
    assert gate.locks.check(persistent).token == persistent.token
    gate.locks.release(persistent)
    again = gate.locks.acquire("a", "persistent", "write")
    assert again.token > persistent.token
    with pytest.raises(LockRefused):
        gates.open().locks.acquire("b", R, "write")
    gate.locks.release(lock)


def test_waiters_keep_waiting_across_a_restart(gates: Gates, server: PrivateServer) -> None:
    gate = gates.open()
    lock = gate.locks.acquire("a", R, "write")
    waiting = queue_behind(gates.open(), "b", R, "write", wait=60)
    server.restart()
    until(lambda: answers(gate), "the gate to work again")
    gate.locks.release(lock)
    mine = waiting.result(timeout=60)
    assert mine.token > lock.token
    assert holders(gate, R) == [("b", "exclusive")]


def test_waiting_for_a_server_that_stays_away_ends_with_unavailable(gates: Gates, server: PrivateServer) -> None:
    gate = gates.open()
    gate.locks.acquire("a", R, "write")
    waiting = queue_behind(gates.open(), "b", R, "write", wait=3)
    server.stop()
    assert isinstance(failure(waiting), StoreUnavailable)


def test_a_retry_with_the_same_request_id_takes_nothing_twice(gates: Gates, server: PrivateServer) -> None:
    """The behaviour of a client whose answer was lost: it retries, whatever happened to the first request."""
    gate = gates.open()
    lock = gate.locks.acquire("a", R, "write", request_id="mine")
    server.restart()
    until(lambda: answers(gate), "the gate to work again")
    again = gate.locks.acquire("a", R, "write", request_id="mine")
    assert (again.id, again.token) == (lock.id, lock.token)
    assert len(gate.locks.list()) == 1


def test_a_held_lock_survives_a_short_restart(gates: Gates, server: PrivateServer) -> None:
    gate = gates.open()
    with gate.locks.held("a", R, lease=60) as lock:
        server.restart()
        until(lambda: answers(gate), "the gate to work again")
        lock.check()
        assert gate.locks.check(lock).alive
    assert gate.locks.list() == []


def answers(gate: Gate) -> bool:
    try:
        gate.locks.list()
    except StoreUnavailable:
        return False
    return True


def test_a_server_that_does_not_listen_is_unavailable() -> None:
    for url in (
        "postgresql://nobody@127.0.0.1:1/none",
        "mysql://nobody@127.0.0.1:1/none",
        "zookeeper://127.0.0.1:1/none",
    ):
        with pytest.raises(StoreUnavailable):
            headgate.connect(url)

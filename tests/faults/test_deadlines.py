"""Every call ends by its deadline: clients stopped in a transaction, answers that never come, half-open connections."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

import headgate
from headgate import Gate, HeadgateError, Lock, StoreUnavailable
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.stores.sql.database import pool
from tests.faults.processes import Zygote
from tests.proxy import TO_CLIENT, Cut, Proxy
from tests.shared_servers import Servers
from tests.waiting import until

R = "stuck:resource"
#: The setting in these tests, and the time that a busy machine may add.
ANSWER, MARGIN = 1.5, 4.0
#: A server ends a silent transaction after 5 s; the goal is 10.
SERVER_ENDS_SECONDS = 10.0 + MARGIN


class Late(AssertionError):
    """A call took longer than allowed."""


def answered(call: Callable[[], object], wait: float = 0.0) -> object:
    """The result of a call, or its error, returned in time."""
    began = time.monotonic()
    try:
        result = call()
    except HeadgateError as error:
        result = error
    took = time.monotonic() - began
    if took > wait + ANSWER + MARGIN:
        raise Late(f"it took {took:.1f} s")
    return result


def unavailable(call: Callable[[], object], wait: float = 0.0) -> StoreUnavailable:
    """The error of a call that cannot succeed, and that ended in time."""
    error = answered(call, wait)
    assert isinstance(error, StoreUnavailable), repr(error)
    return error


def connect(url: str, **settings: str) -> Gate:
    return headgate.connect(url, answer_within=str(ANSWER), **settings)


def prepare(gate: Gate) -> None:
    """A ledger with something to claim."""
    gate.ledger.define_dataset("raw")
    gate.ledger.define_dataset("made")
    gate.ledger.define_job("make", inputs=["raw"], outputs=["made"])
    gate.ledger.publish("raw", ["1", "2"])


# ---------------------------------------------------------------- stopped within a transaction


def test_a_client_stopped_in_a_transaction_blocks_nobody_beyond_the_deadline(sql_url: str, processes: Zygote) -> None:
    """The same through a service. A server ends the transaction; a file is free when its process continues or dies."""
    with connect(sql_url) as gate:
        prepare(gate)
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        token = gate.tokens.new("a test", ["admin"]).token
        with connect(server.url, token=token) as remote:
            stopped = processes.spawn("tests.faults.stopper:hold_rows", url=sql_url, resource=R, job="make")
            assert stopped.channel.receive() == {"kind": "inside"}
            os.kill(stopped.pid, signal.SIGSTOP)
            assert unavailable(lambda: gate.locks.acquire("a", R, "write")).outcome == "none"
            assert unavailable(lambda: remote.locks.acquire("a", R, "write")).outcome == "none"
            # Waiters get the resource when the server has ended the transaction, or they get an error in time.
            wait = 0.5
            waited = answered(lambda: gate.locks.acquire("a", R, "write", wait=wait), wait)
            if isinstance(waited, Lock):  # On a slow machine the server has ended it by now.
                gate.locks.release(waited)
        server.stop()
        if sql_url.startswith("sqlite"):
            os.kill(stopped.pid, signal.SIGKILL)
        until(lambda: is_taken(gate), "the resource to work again", SERVER_ENDS_SECONDS)


def is_taken(gate: Gate) -> bool:
    """Whether a lock could be taken and released."""
    try:
        gate.locks.release(gate.locks.acquire("b", R, "write"))
    except HeadgateError:
        return False
    return True


# ---------------------------------------------------------------- silent connections


@pytest.fixture(params=["postgresql", "mariadb"])
def direct_url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    """A fresh store on a server."""
    url = servers.fresh(request.param)
    yield url
    servers.drop(request.param, url)


@pytest.fixture
def proxy(direct_url: str) -> Iterator[Proxy]:
    """A proxied connection to that store that can fall silent."""
    proxy = Proxy(direct_url)
    yield proxy
    proxy.close()


def test_a_lost_answer_ends_the_call_and_what_it_took_is_released(proxy: Proxy, direct_url: str) -> None:
    """The server grants a persistent lock, and the answer never arrives."""
    with connect(proxy.url) as gate, connect(direct_url) as other:
        gate.locks.release(gate.locks.acquire("a", R, "write"))
        proxy.arm(Cut(TO_CLIENT, 1, silent=True))
        error = unavailable(lambda: gate.locks.acquire("a", R, "write"))
        assert proxy.fired.is_set()
        assert error.outcome == "unknown"
        assert error.request_id
        # The lock may be released at once, so that only the history shows that it was granted.
        until(lambda: [each.event for each in other.history(R)][:2] == ["release", "grant"], "the lock to go")
        assert other.locks.list() == []
        # The connection is discarded, and the gate works.
        gate.locks.release(gate.locks.acquire("a", R, "write"))


def test_a_repeat_with_the_same_id_gets_the_lock_whose_answer_was_lost(proxy: Proxy) -> None:
    with connect(proxy.url) as gate:
        gate.store.ping()
        proxy.arm(Cut(TO_CLIENT, 1, silent=True))
        error = unavailable(lambda: gate.locks.acquire("a", R, "write", request_id="mine"))
        assert (error.outcome, error.request_id) == ("unknown", "mine")
        lock = gate.locks.acquire("a", R, "write", request_id="mine")
        assert gate.locks.check(lock).client == "a"


def test_a_half_open_idle_connection_is_noticed_and_replaced(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(proxy.url) as gate:
        gate.locks.release(gate.locks.acquire("a", R, "write"))
        proxy.silence(new_ones=False)
        monkeypatch.setattr(pool, "IDLE_SECONDS", 0.0)  # As if it had been idle for a long time.
        assert answered(lambda: gate.locks.acquire("b", R, "write")) == gate.locks.list()[0]


def test_a_store_that_fell_silent_ends_every_call_in_time(proxy: Proxy) -> None:
    with connect(proxy.url) as gate:
        prepare(gate)
        lock = gate.locks.acquire("a", R, "write")
        claim = gate.ledger.find_next("make", lease=600)
        assert claim is not None
        proxy.silence(new_ones=True)
        calls: list[tuple[Callable[[], object], float]] = [
            (lambda: gate.locks.acquire("b", R, "write"), 0),
            (lambda: gate.locks.acquire("b", R, "write", wait=0.5), 0.5),
            (lambda: gate.locks.release(lock), 0),
            (lambda: gate.locks.check(lock), 0),
            (lambda: gate.ledger.find_next("make"), 0),
            (lambda: gate.ledger.status("raw"), 0),
            (lambda: gate.ledger.status("raw", dataid="1"), 0),
            (lambda: gate.ledger.success(claim), 0),
            (lambda: gate.queue.acquire_job("pending"), 0),
            (lambda: gate.queue.submit("profile", "me", "file:///payload"), 0),
            (lambda: headgate.connect(proxy.url, answer_within=str(ANSWER)), 0),
        ]
        with ThreadPoolExecutor(len(calls)) as threads:
            for ended in [threads.submit(unavailable, call, wait) for call, wait in calls]:
                ended.result()
        proxy.heal()
        until(lambda: answers(gate), "the gate to work again")
        gate.ledger.success(claim)
        gate.locks.release(lock)


def answers(gate: Gate) -> bool:
    try:
        gate.root.ping()
    except StoreUnavailable:
        return False
    return True


def test_a_service_reports_an_unavailable_store_within_three_seconds(proxy: Proxy) -> None:
    with headgate.connect(proxy.url) as gate:
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        with httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            assert client.get("/readyz").status_code == 200
            proxy.silence(new_ones=True)
            for _ in range(2):
                began = time.monotonic()
                assert client.get("/readyz").status_code == 503
                assert time.monotonic() - began < 3 + MARGIN
            proxy.heal()
            until(lambda: client.get("/readyz").status_code == 200, "the store to be back")
        server.stop()


def test_a_client_is_not_blocked_by_a_service_that_fell_silent(tmp_path: Path) -> None:
    with connect(f"sqlite:///{tmp_path}/headgate.sqlite") as gate:
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        way = Proxy(server.url)
        with connect(way.url, token=gate.tokens.new("a test", ["admin"]).token) as remote:
            lock = remote.locks.acquire("a", R, "write")
            way.silence(new_ones=True)
            assert unavailable(remote.locks.list).outcome == "none"
            assert unavailable(lambda: remote.locks.check(lock)).outcome == "unknown"
            assert unavailable(lambda: remote.locks.acquire("b", R, "write", wait=0.5), 0.5).request_id
            way.heal()
            until(lambda: answers(remote), "the service to answer again")
            remote.locks.release(lock)
            # A grant whose answer is lost is released, through the service too. On another resource: the request of
            # "b" may have arrived late.
            other = f"{R}/other"
            way.arm(Cut(TO_CLIENT, 1, silent=True))
            assert unavailable(lambda: remote.locks.acquire("c", other, "write")).outcome == "unknown"
            until(lambda: [each.event for each in gate.history(other)] == ["release", "grant"], "it to be freed")
        way.close()
        server.stop()

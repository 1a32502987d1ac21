"""A caller that waits at the service is woken by the store itself, whichever process releases."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import headgate
from headgate import Gate
from headgate.http.server import Server
from headgate.http.service import Service
from headgate.stores.sql import waiting
from tests.shared_servers import Servers
from tests.waiting import until

PATIENCE, NEVER = 60.0, 1000.0
R = "data:raw/1"


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "zookeeper"])
def gates(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[tuple[Gate, Gate]]:
    """Two that share a store, and no connection; it wakes them, or they look again after the test."""
    kind = str(request.param)
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    there = url if kind == "sqlite" else servers.fresh(kind)
    settings = {"coordination_url": there} if kind == "zookeeper" else {"url": there}
    with headgate.connect(**{"url": url, **settings}) as one, headgate.connect(**{"url": url, **settings}) as other:
        yield one, other
    if kind != "sqlite":
        servers.drop(kind, there)


def test_a_waiting_caller_is_woken_by_a_release_elsewhere(
    gates: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LISTENING_PAUSE", NEVER)
    monkeypatch.setattr(waiting, "SHORTEST", NEVER)
    served, other = gates
    held = other.locks.acquire("holder", R, "exclusive")
    server = Server(Service(served), "127.0.0.1:0")
    server.start()
    answers: list[httpx2.Response] = []

    def wait() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        asked = {"client": "waiter", "resource": R, "wait": PATIENCE}
        answers.append(httpx2.post(f"{server.url}/v1/locks", json=asked, headers=headers, timeout=2 * PATIENCE))

    try:
        token = served.tokens.new("a test", ["lock:acquire"]).token
        asking = threading.Thread(target=wait)
        asking.start()
        until(lambda: server.service.turns.waiting == 1, "the caller to wait")
        until(lambda: other.locks.waiters(R), "its place in the queue")
        other.locks.release(held)
        asking.join(PATIENCE / 2)
        assert [each.status_code for each in answers] == [201]
    finally:
        server.stop()

"""A grant or claim whose answer arrives late: the caller counts the same lease as the store, or less."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate
from headgate import Claim, Gate
from headgate.client.connection import ServiceConnection
from headgate.http.port.server import Server
from headgate.service.leases.clock import steady
from headgate.service.queue.use_cases import Queue
from tests.proxy import TO_CLIENT, Proxy
from tests.waiting import until

PATIENCE = 60.0


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.url) as found:
        yield found


def answer_after(seconds: float, proxy: Proxy) -> None:
    ends = steady() + seconds
    until(lambda: steady() > ends, "the answer to be late")
    proxy.heal()


late_answers = pytest.mark.parametrize(
    ("lease", "late"),
    [(20.0, 1.0), (2.0, 1.0), (1.0, 1.5)],
    ids=["a small part of the lease", "half the lease", "longer than the lease"],
)


@late_answers
def test_a_waiter_subtracts_the_time_that_its_answer_took(
    gate: Gate, server: Server, proxy: Proxy, lease: float, late: float
) -> None:
    resource = f"late:{lease}"
    held = gate.locks.acquire("holder", resource, "exclusive")
    remote = headgate.connect(proxy.url, token=gate.tokens.new("remote", ["admin"]).token)
    seen: list[tuple[float, float]] = []

    def wait() -> None:
        with remote.locks.held("waiter", resource, wait=PATIENCE, lease=lease) as hold:
            counted_on = hold.deadline or 0.0
            seen.append((counted_on, steady() + (gate.locks.get(hold.id).expires_in or 0.0)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: server.service.turns.waiting == 1, "the caller to wait")
    proxy.hold(TO_CLIENT, connects=True)
    gate.locks.release(held)
    until(lambda: gate.locks.list(resource=resource, client="waiter"), "the grant")
    answer_after(late, proxy)
    waiting.join(PATIENCE)
    remote.close()
    ((counted_on, ends),) = seen
    assert counted_on <= ends


@late_answers
def test_a_wait_for_a_chunk_includes_the_time_of_the_response(
    gate: Gate, server: Server, proxy: Proxy, lease: float, late: float
) -> None:
    raw, tidy, job = f"raw {lease}", f"tidy {lease}", f"clean {lease}"
    gate.ledger.define({raw: {}, tidy: {}}, {job: {"inputs": [raw], "outputs": [tidy], "max_crashes": 0}})
    remote = headgate.connect(proxy.url, token=gate.tokens.new("remote", ["admin"]).token)
    seen: list[tuple[float, float]] = []

    def wait() -> None:
        claim = remote.ledger.find_next(job, wait=PATIENCE, lease=lease)
        assert claim is not None
        counted_on = steady() + claim.expires_in
        (row,) = gate.ledger.status(tidy, job, claim.dataid)
        assert row.token == claim.token
        seen.append((counted_on, steady() + (row.expires_in or 0.0)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: server.service.turns.waiting == 1, "the caller to wait")
    proxy.hold(TO_CLIENT, connects=True)
    gate.ledger.publish(raw, "1")
    until(lambda: gate.ledger.status(tidy, job, "1"), "the claim")
    answer_after(late, proxy)
    waiting.join(PATIENCE)
    remote.close()
    ((counted_on, ends),) = seen
    assert counted_on <= ends


def test_a_worker_that_waits_for_a_chunk_sends_one_request(
    gate: Gate, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.ledger.define({"orders": {}}, {"count": {"inputs": ["orders"]}})
    asked: list[tuple[str, ...]] = []
    real = ServiceConnection._ask

    def spy(self: ServiceConnection, method: str, path: tuple[str, ...], *given: Any, **more: Any) -> Any:
        asked.append(path)
        return real(self, method, path, *given, **more)

    with headgate.connect(server.url, token=gate.tokens.new("remote", ["admin"]).token) as remote:
        monkeypatch.setattr(ServiceConnection, "_ask", spy)
        found: list[Claim | None] = []
        waiting = threading.Thread(target=lambda: found.append(remote.ledger.find_next("count", wait=5, lease=600)))
        waiting.start()
        until(lambda: server.service.turns.waiting == 1, "the caller to wait")
        gate.ledger.publish("orders", "1")
        waiting.join(PATIENCE)
    assert [claim and claim.dataid for claim in found] == ["1"]
    assert asked == [("jobs", "count", "next")]


@late_answers
def test_a_consumer_subtracts_the_time_that_its_answer_took(
    gate: Gate, server: Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, lease: float, late: float
) -> None:
    remote = headgate.connect(proxy.url, token=gate.tokens.new("remote", ["admin"]).token)
    began: list[float] = []
    seen: list[tuple[float, float]] = []

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the service's own queue that starts a lease."""

        def call(*given: Any, **named: Any) -> Any:
            found = method(*given, **named)
            if found is not None:
                began.append(steady())
            return found

        return call

    def wait() -> None:
        item = remote.queue.acquire_batch("pending", lease=lease, wait=PATIENCE)
        assert item
        with remote.queue.kept(item) as hold:
            seen.append((hold.deadline or 0.0, began[-1] + lease))

    remote.queue.tables()  # It takes the signatures of `Queue` when it is imported.
    monkeypatch.setattr(Queue, "acquire_batch", noted(Queue.acquire_batch))
    monkeypatch.setattr(Queue, "renew", noted(Queue.renew))
    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: server.service.turns.waiting == 1, "the caller to wait")
    proxy.hold(TO_CLIENT, connects=True)
    gate.queue.submit("p", "somebody", "https://example.org/a.checkm")
    until(lambda: began, "the grant")
    until(lambda: steady() > began[0] + late, "the answer to be late")
    proxy.heal()
    waiting.join(PATIENCE)
    remote.close()
    ((counted_on, ends),) = seen
    assert counted_on <= ends

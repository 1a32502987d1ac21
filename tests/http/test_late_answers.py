"""A grant whose answer comes late: who waited for it counts on no more of its lease than the store does."""

import threading
from collections.abc import Iterator

import pytest

import headgate
from headgate import Gate
from headgate.http.server import Server
from headgate.service.clock import steady
from tests.proxy import TO_CLIENT, Proxy
from tests.waiting import until

PATIENCE = 60.0


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.url) as found:
        yield found


@pytest.mark.parametrize(
    ("lease", "late"),
    [(20.0, 1.0), (2.0, 1.0), (1.0, 1.5)],
    ids=["a small part of the lease", "half the lease", "longer than the lease"],
)
def test_a_waiter_counts_the_time_that_its_answer_took(
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
    ends = steady() + late
    until(lambda: steady() > ends, "the answer to be late")
    proxy.heal()
    waiting.join(PATIENCE)
    remote.close()
    ((counted_on, ends),) = seen
    assert counted_on <= ends

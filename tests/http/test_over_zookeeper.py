"""A service whose locks and queue are on ZooKeeper: leases alone decide how long its clients keep what they hold."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import Gate, ItemLost
from headgate.http.port.server import Server
from headgate.http.service import Service
from tests.contract.queue_steps import batch_with_jobs, new_batch, retaken
from tests.shared_servers import Servers
from tests.waiting import until

R = "file:///data/orders"

HOLDER = """
import sys, headgate
gate = headgate.connect(sys.argv[1], token=sys.argv[2])
with gate.locks.held("holder", sys.argv[3], lease=float(sys.argv[4])) as lock:
    print(lock.id, flush=True)
    sys.stdin.readline()
    lock.check()
    print("still held", flush=True)
"""


class Office:
    """A service that can be restarted, on the same port."""

    def __init__(self, connect: Callable[[], Gate]) -> None:
        self._connect = connect
        self._listen = "127.0.0.1:0"
        self.start()
        self.url = self._server.url
        self._listen = self.url.removeprefix("http://")
        self.token = self.gate.tokens.new("a test", ["admin"]).token

    def start(self) -> None:
        self.gate = self._connect()
        self._server = Server(Service(self.gate), self._listen)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()
        self.gate.close()

    def client(self) -> Gate:
        return headgate.connect(self.url, token=self.token)

    def holder(self, lease: float) -> "subprocess.Popen[str]":
        """A client's process that holds the resource."""
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, self.url, self.token, R, str(lease)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout
        assert process.stdout.readline(), "it holds nothing"
        return process


@pytest.fixture(params=["design", "mrt-zk"])
def spelling(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def zookeeper(servers: Servers) -> Iterator[str]:
    url = servers.fresh("zookeeper")
    yield url
    servers.drop("zookeeper", url)


@pytest.fixture
def open_office(tmp_path: Path, zookeeper: str) -> Iterator[Callable[..., Office]]:
    opened: list[Office] = []

    def open_one(spelling: str = "design") -> Office:
        def connect() -> Gate:
            coordination = f"{zookeeper}?spelling={spelling}"
            return headgate.connect(f"sqlite:///{tmp_path}/headgate.sqlite", coordination_url=coordination)

        opened.append(Office(connect))
        return opened[-1]

    yield open_one
    for each in opened:
        each.stop()


def test_locks_of_a_killed_client_are_free_after_their_lease(open_office: Callable[..., Office]) -> None:
    office = open_office()
    with office.holder(lease=1.5) as process, office.client() as next_one:
        process.kill()
        lock = next_one.locks.acquire("next", R, "write", wait=30)
        assert lock.token == 2
        assert [entry.event for entry in office.gate.history(resource=R)][:2] == ["grant", "expire"]


def test_a_client_continues_across_a_restart_of_the_service(open_office: Callable[..., Office]) -> None:
    """It restarts within the lease, and the lock is held for longer than the lease."""
    office = open_office()
    with office.holder(lease=4) as process:
        end = time.monotonic() + 4.5
        office.stop()
        office.start()
        until(lambda: time.monotonic() > end, "more than a lease to pass")
        output, _ = process.communicate("go on\n", timeout=60)
    assert output == "still held\n"
    assert process.returncode == 0
    events = [entry.event for entry in reversed(office.gate.history(resource=R))]
    assert events == ["grant", "release"]


def test_a_lock_that_is_never_renewed_ends_although_the_service_runs(open_office: Callable[..., Office]) -> None:
    office = open_office()
    with office.client() as client:
        client.locks.acquire("a", R, "write", lease=0.5)
        until(lambda: not client.locks.list(resource=R), "the lease to run out")
        assert client.locks.acquire("b", R, "write").token == 2


TAKE: dict[str, Callable[[Gate, float], Any]] = {
    "batch": lambda gate, lease: gate.queue.acquire_batch("pending", lease=lease),
    "ingest job": lambda gate, lease: gate.queue.acquire_job("pending", lease=lease),
}


@pytest.mark.parametrize("what", TAKE)
def test_an_item_that_is_not_renewed_is_free_after_its_lease(
    open_office: Callable[..., Office], what: str, spelling: str
) -> None:
    office, take = open_office(spelling), TAKE[what]
    new_batch(office.gate.queue) if what == "batch" else batch_with_jobs(office.gate.queue)
    with office.client() as client:
        dead = take(client, 1.0)
        assert dead
        assert office.gate.queue.faults() == []
        assert take(client, 1.0) is None
        again = retaken(lambda: take(client, 30.0))
        assert (again.id, again.token > dead.token) == (dead.id, True)
        with pytest.raises(ItemLost):
            client.queue.renew(dead)
        assert office.gate.queue.reap() == 0


def test_an_item_survives_a_restart_of_the_service_and_is_reaped_when_nobody_reports_it(
    open_office: Callable[..., Office], spelling: str
) -> None:
    office = open_office(spelling)
    batch_with_jobs(office.gate.queue, 2)
    with office.client() as client:
        kept, dead = (TAKE["ingest job"](client, lease) for lease in (60.0, 1.0))
        office.stop()
        office.start()
        assert client.queue.renew(kept) == 60.0
        until(lambda: not office.gate.queue.job(dead.id).worker, "the lease to run out")
        assert office.gate.queue.reap() == 1
        assert office.gate.queue.reap() == 0
        assert client.queue.fire(kept, "accept").state == "estimating"
        assert office.gate.queue.faults() == []


def test_the_next_consumer_is_woken_when_the_lease_of_an_item_expires(
    open_office: Callable[..., Office], zookeeper: str
) -> None:
    """A daemon beside the service, which sleeps until there is something to do."""
    office = open_office()
    batch_with_jobs(office.gate.queue)
    with office.client() as client, headgate.connect(zookeeper) as daemon:
        dead = TAKE["ingest job"](client, 1.0)
        assert daemon.queue.acquire_job("pending", lease=5) is None
        daemon.queue.await_work([], ["pending"], 60)
        job = daemon.queue.acquire_job("pending", lease=5)
        assert job
        assert (job.id, job.token > dead.token) == (dead.id, True)

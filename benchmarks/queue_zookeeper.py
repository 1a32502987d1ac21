"""The queue on ZooKeeper: against the bare calls, against kazoo's LockingQueue, with many pending, with newcomers.

The bare calls are the same operations by kazoo alone, without any check or decision: the reads of one job together,
one multi that takes it, one that moves it. Only the ratios mean anything.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

import headgate
from benchmarks.harness import Step, compare, table
from tests.servers import ZooKeeper

FEW, MANY = 3_000, 100_000
#: The maximum duration of the rounds of a comparison.
TAKEN = 3_000
CONSUMERS = 8
NEWCOMERS = 5
BARE_TARGET, PEER_TARGET, MANY_TARGET, NEWCOMER_SECONDS = 0.75, 2.0, 0.7, 2.0
#: The memory of the server: a hundred thousand jobs are nearly a million nodes.
HEAP = "-Xmx3g"


class LargeZooKeeper(ZooKeeper):
    """With room for a hundred thousand jobs."""

    def _command(self) -> list[str]:
        return [HEAP if word.startswith("-Xmx") else word for word in super()._command()]


def fill(url: str, count: int) -> float:
    """Create a batch of this many pending jobs. Returns the seconds that it took."""
    began = time.perf_counter()
    with headgate.connect(url) as gate:
        gate.queue.submit("bench", "bench", "https://example.org/x")
        batch = gate.queue.acquire_batch("pending")
        assert batch
        gate.queue.create_jobs(batch, ({"payload_url": f"https://example.org/{n}"} for n in range(count)))
        gate.queue.fire(batch, "start")
    return time.perf_counter() - began


def our_step(url: str) -> Step:
    """Acquire a pending job and move it on, through the Python API."""
    queue = headgate.connect(url).queue

    def step() -> None:
        job = queue.acquire_job("pending", lease=10)
        assert job, "there are too few jobs"
        queue.fire(job, "accept")

    return step


class BareCalls:
    """The same operations, one after another through the list as it was at the beginning."""

    def __init__(self, hosts: str, root: str) -> None:
        from kazoo.client import KazooClient

        self._client = client = KazooClient(hosts)
        client.start()
        self._root, self._own = root, f"{root}/headgate/queue"
        self._names = iter(sorted(client.get_children(f"{root}/jobs/states/pending")))
        self._batch = client.get_children(f"{root}/batches")[0]
        client.ensure_path("/bare/history")
        client.ensure_path(f"{self._own}/arrivals/estimating/05")

    def step(self) -> None:
        """Read, take, move."""
        name = next(self._names)
        path, owner = f"{self._root}/jobs/{name[3:]}", f"{self._own}/owners/{name[3:]}"
        asked = [self._client.get_async(f"{path}/{part}") for part in ("status", "configuration", "identifiers")]
        asked += [self._client.exists_async(f"{path}/{part}") for part in ("lock", "space_needed")]
        (status, stat), *_ = [each.get() for each in asked]
        taking = self._client.transaction()
        taking.create(f"{path}/lock", ephemeral=True)
        taking.create(owner, b'{"worker":"bench","lease":10}', ephemeral=True)
        taking.set_data(f"{path}/status", status, stat.version)
        taking.commit()
        self._move(name, path, owner, status, stat.version + 1)

    def _move(self, name: str, path: str, owner: str, status: bytes, version: int) -> None:
        moved = json.dumps({**json.loads(status), "status": "estimating"}).encode()
        moving = self._client.transaction()
        moving.check("/bare/history", 0)
        moving.set_data(f"{path}/status", moved, version)
        moving.delete(f"{path}/lock")
        moving.delete(owner)
        moving.delete(f"{self._root}/jobs/states/pending/{name}")
        moving.create(f"{self._root}/jobs/states/estimating/{name}")
        moving.set_data(f"{self._own}/arrivals/estimating/05", name[3:].encode())
        told = f"/bare/history/{self._batch}.{name[3:]}.accept.1..0123456789:"
        moving.create(told, b'{"client":"bench"}', sequence=True)
        assert not [each for each in moving.commit() if isinstance(each, Exception)]


def locking_queue_step(hosts: str, count: int) -> Step:
    """kazoo's own queue with locks: one item taken and consumed."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts)
    client.start()
    queue = client.LockingQueue("/peer")
    for start in range(0, count, 500):
        queue.put_all([b"https://example.org/%d" % number for number in range(start, start + 500)])

    def step() -> None:
        assert queue.get(10) is not None
        assert queue.consume()

    return step


def against_bare(places: Places) -> str:
    """One consumer with 3,000 pending, against the same operations by kazoo alone, and against its queue."""
    ours, bare = places.filled(FEW + TAKEN), places.filled(FEW + TAKEN)
    contestants = {
        "ours": our_step(ours), "bare": BareCalls(places.hosts, places.root(bare)).step,
        "peer": locking_queue_step(places.hosts, FEW + TAKEN),
    }  # fmt: skip
    found = compare(contestants, rounds=5, seconds=0.7)
    rows = []
    for name, target in (("bare", BARE_TARGET), ("peer", PEER_TARGET)):
        ratio = found["ours"].ratio_to(found[name])
        shown = {"bare": "the bare calls", "peer": "kazoo's LockingQueue"}[name]
        rows.append((shown, found["ours"].rate, found[name].rate, ratio, target, verdict(ratio >= target)))
    return table(
        "Acquire + move, one consumer, steps per second", ("against", "ours", "it", "ratio", "target", ""), rows
    )


def with_many_pending(places: Places) -> str:
    """One consumer with 100,000 pending against one with 3,000."""
    few, many = places.filled(FEW + TAKEN), places.many
    found = compare({"few": our_step(few), "many": our_step(many)}, rounds=5, seconds=0.7)
    ratio = found["many"].ratio_to(found["few"])
    row = (found["few"].rate, found["many"].rate, ratio, MANY_TARGET, verdict(ratio >= MANY_TARGET))
    header = (f"with {FEW:,}", f"with {MANY:,}", "ratio", "target", "")
    return table("Acquire + move by the number that is pending, steps per second", header, [row])


def with_newcomers(places: Places) -> str:
    """Eight consumers on 100,000 pending jobs, and an arriving job with higher priority: how long it waits."""
    rows: list[Sequence[object]] = []
    for consumers in (1, CONSUMERS):
        waits = newcomers(places.many, consumers)
        worst = max(waits)
        rows.append((consumers, statistics.median(waits), worst, NEWCOMER_SECONDS, verdict(worst <= NEWCOMER_SECONDS)))
    header = ("consumers", "median s", "worst s", "at most", "")
    return table(f"A job of better priority among {MANY:,} pending: seconds until it is taken", header, rows)


def newcomers(url: str, consumers: int) -> list[float]:
    """The seconds that each of some urgent jobs waited."""
    context = get_context("spawn")
    stop, ready = context.Event(), context.Semaphore(0)
    crowd = [context.Process(target=_consume, args=(url, ready, stop), daemon=True) for _ in range(consumers)]
    for process in crowd:
        process.start()
    for _ in crowd:
        ready.acquire(timeout=120)
    try:
        return [_newcomer(url) for _ in range(NEWCOMERS)]
    finally:
        stop.set()
        for process in crowd:
            process.join()


def _consume(url: str, ready: Any, stop: Any) -> None:
    step = our_step(url)
    step()
    ready.release()
    while not stop.is_set():
        step()


def _newcomer(url: str) -> float:
    with headgate.connect(url) as gate:
        gate.queue.submit("bench", "bench", "https://example.org/urgent")
        batch = gate.queue.acquire_batch("pending")
        assert batch
        began = time.perf_counter()
        gate.queue.create_jobs(batch, [{"payload_url": "https://example.org/urgent", "priority": 1}])
        gate.queue.fire(batch, "start")
        job = gate.queue.job_ids(batch.id, "batch-processing")[0]  # type: ignore[arg-type]
        while gate.queue.job(job).state == "pending" and time.perf_counter() - began < 30:
            threading.Event().wait(0.01)
        return time.perf_counter() - began


def verdict(met: bool) -> str:  # noqa: FBT001 - what it shows
    """Whether a figure meets its target."""
    return "ok" if met else "MISSED"


class Places:
    """Stores on one server."""

    def __init__(self, server: LargeZooKeeper) -> None:
        self._server = server
        self.hosts = server.url.removeprefix("zookeeper://")
        self._many = ""

    def filled(self, count: int) -> str:
        """A new store with this many pending jobs."""
        url = self._server.fresh()
        fill(url, count)
        return url

    def root(self, url: str) -> str:
        """Its folder."""
        return "/" + url.rpartition("/")[2]

    @property
    def many(self) -> str:
        """A store with a hundred thousand pending jobs, made once."""
        if not self._many:
            self._many = self._server.fresh()
            seconds = fill(self._many, MANY)
            print(f"{MANY:,} jobs of one batch were made in {seconds:.0f} s", flush=True)
        return self._many


PARTS = {"bare": against_bare, "many": with_many_pending, "newcomers": with_newcomers}


def main(arguments: Sequence[str] = ()) -> None:
    """Print the requested tables, or all."""
    with ExitStack() as stack:
        server = LargeZooKeeper()
        stack.callback(server.discard)
        server.start()
        places = Places(server)
        for name in arguments or PARTS:
            print(PARTS[name](places), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make bench-latency`: how long one call takes, in milliseconds, and how long a waiter takes to notice a release.

The median is that of the best of many short rounds: on a shared machine the others measure its other work. The 99th
percentile is that of all calls.
Raw is the bare driver doing the same number of trips and syncs, in rounds between ours.
"""

from __future__ import annotations

import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2

import headgate
from benchmarks import http, ledger, locks
from benchmarks.harness import Step, table
from benchmarks.places import Places, places
from headgate import Gate
from headgate.service.locks.use_cases import Locks

ROUNDS = 40
CALLS = 20
WAKES = 3
#: A waiter in the queue is asleep after this time.
ASLEEP_SECONDS = 0.02
#: A waiter for a chunk or an item, which has no queue position, is asleep after this time: on MariaDB after a pause.
NEWS_SECONDS = 0.6
#: Rounds of wake-ups through the service, and their maximum ratio to those without it.
WOKEN_ROUNDS, WOKEN_TARGET = 10, 2.0
#: Chunks to claim: more than all rounds need.
CHUNKS = 2 * ROUNDS * CALLS


#: The seconds that a call took.
Timed = Callable[[], float]


def timed(step: Step) -> Timed:
    """A call with its duration."""

    def run() -> float:
        began = time.perf_counter()
        step()
        return time.perf_counter() - began

    return run


def quantiles(measure: Timed, calls: int = CALLS) -> tuple[float, float]:
    """In milliseconds: the median of the best of some rounds, and the 99th percentile of all calls."""
    rounds = [[1000 * measure() for _ in range(calls)] for _ in range(ROUNDS)]
    times = sorted(each for found in rounds for each in found)
    return min(map(statistics.median, rounds)), times[int(len(times) * 0.99)]


def pairs(where: Places) -> str:
    """Acquire and release, claim and report: the time of both calls together."""
    stores: dict[str, tuple[Callable[[], str], Step]] = {
        "SQLite": (lambda: where.sqlite("truncate"), locks.raw_sqlite(where.file(), "truncate")),
        "PostgreSQL": (where.postgresql, locks.raw_postgresql(where.postgresql())),
        "MariaDB": (where.mariadb, locks.raw_mariadb(where.mariadb())),
        "ZooKeeper": (where.zookeeper, locks.raw_zookeeper(locks.hosts_of(where.zookeeper()))),
    }
    rows: list[Sequence[object]] = []
    for name, (new_store, raw) in stores.items():
        url = new_store()
        claims: tuple[object, object] = ("-", "-")
        if name != "ZooKeeper":
            claims = quantiles(timed(ledger.our_pair(ledger.define(new_store(), CHUNKS))))
        ours, bare = quantiles(timed(locks.our_pair(url))), quantiles(timed(raw))
        woken = quantiles(wake_up(headgate.connect(url).locks, headgate.connect(url).locks), WAKES)
        rows.append((name, *ours, *bare, *claims, *woken))
    header = ("store", "lock+release", "p99", "raw", "p99", "claim+report", "p99", "woken after", "p99")
    return table("One client, milliseconds", header, rows)


def wake_up(holding: Locks, waiting: Locks) -> Timed:
    """From a release until the waiting thread has the resource; both on their own connections."""

    def run() -> float:
        resource = f"bench:{secrets.token_hex(4)}"
        held = holding.acquire("holder", resource, "exclusive")
        woken: list[float] = []

        def wait() -> None:
            lock = waiting.acquire("waiter", resource, "exclusive", wait=30)
            woken.append(time.perf_counter())
            waiting.release(lock)

        thread = threading.Thread(target=wait)
        thread.start()
        while not holding.waiters():
            time.sleep(0.002)
        time.sleep(ASLEEP_SECONDS)
        released = time.perf_counter()
        holding.release(held)
        thread.join()
        return woken[0] - released

    return run


def over_http(where: Places) -> str:
    """The same pair through the service, by the Python client."""
    rows: list[Sequence[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, url in (("SQLite", where.sqlite("truncate")), ("PostgreSQL", where.postgresql())):
            with http.service(Path(folder), url) as whom:
                remote = headgate.connect(f"http://127.0.0.1:{whom.port}", token=whom.token).locks
                rows.append((name, *quantiles(timed(locks.pair_of(remote)))))
    return table("Through the service, milliseconds", ("store", "lock+release", "p99"), rows)


def woken_by(act: Step, wait: Step) -> Timed:
    """From a change by one process until a thread that waits for it has it, after it has waited a moment."""

    def run() -> float:
        woken: list[float] = []

        def waiting() -> None:
            wait()
            woken.append(time.perf_counter())

        thread = threading.Thread(target=waiting)
        thread.start()
        time.sleep(NEWS_SECONDS)
        began = time.perf_counter()
        act()
        thread.join()
        return woken[0] - began

    return run


def chunk_and_item(url: str, there: Gate, whom: http.Contestant) -> dict[str, tuple[Timed, Timed]]:
    """The same for a chunk that is published and a batch that is submitted: by the library, and through the service."""
    here = headgate.connect(url)
    asking = httpx2.Client(
        base_url=f"http://127.0.0.1:{whom.port}/v1", headers={"Authorization": f"Bearer {whom.token}"}, timeout=60
    )

    def publish() -> None:
        there.ledger.publish("raw", secrets.token_hex(6))

    def submit() -> None:
        there.queue.submit("p", "somebody", f"https://example.org/{secrets.token_hex(4)}")

    there.ledger.define({"raw": {}, "out": {}}, {"clean": {"inputs": ["raw"], "outputs": ["out"]}})
    return {
        "chunk": (
            woken_by(publish, lambda: _got(here.ledger.find_next("clean", wait=30))),
            woken_by(publish, lambda: _got(asking.post("/jobs/clean/next", json={"wait": 30}).json())),
        ),
        "item": (
            woken_by(submit, lambda: _got(here.queue.acquire_batch("pending", wait=30))),
            woken_by(submit, lambda: _got(asking.post("/batches/next?state=pending", json={"wait": 30}).json())),
        ),
    }


def _got(found: object) -> None:
    assert found, "nothing came"


def woken_over_http(where: Places) -> str:
    """A change by this process wakes a waiter: a thread on another store object, or a caller of the service."""
    rows: list[Sequence[object]] = []
    stores = {
        "SQLite": where.sqlite("truncate"), "PostgreSQL": where.postgresql(), "MariaDB": where.mariadb(),
        "ZooKeeper": where.zookeeper(),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, url in stores.items():
            # Locks on ZooKeeper, API tokens in a file beside it.
            served = http.service(Path(folder), url)
            if name == "ZooKeeper":
                served = http.service(Path(folder), where.sqlite("truncate"), HEADGATE_COORDINATION_URL=url)
            with served as whom:
                holding, waiting = headgate.connect(url).locks, headgate.connect(url).locks
                remote = headgate.connect(f"http://127.0.0.1:{whom.port}", token=whom.token).locks
                pairs = {"lock": (wake_up(holding, waiting), wake_up(holding, remote))}
                if name != "ZooKeeper":
                    pairs |= chunk_and_item(url, headgate.connect(url), whom)
                rows += [_woken_row(f"{name}, {what}", *pair) for what, pair in pairs.items()]
    header = ("store", "library", "over HTTP", "times", "at most", "")
    return table("Woken by another process, milliseconds", header, rows)


def _woken_row(name: str, library: Timed, service: Timed) -> Sequence[object]:
    rounds = [
        [statistics.median(1000 * run() for _ in range(WAKES)) for run in (library, service)]
        for _ in range(WOKEN_ROUNDS)
    ]
    ours, others = (statistics.median(each) for each in zip(*rounds, strict=True))
    times = statistics.median(over / direct for direct, over in rounds)
    return (name, ours, others, times, WOKEN_TARGET, "ok" if times <= WOKEN_TARGET else "MISSED")


PARTS: dict[str, Callable[[Places], str]] = {"pairs": pairs, "http": over_http, "woken": woken_over_http}


def main(arguments: Sequence[str]) -> None:
    """Print the requested tables, or all."""
    with places() as where:
        for name in arguments or PARTS:
            sys.stdout.write(PARTS[name](where) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

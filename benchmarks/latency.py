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

import headgate
from benchmarks import http, ledger, locks
from benchmarks.harness import Step, table
from benchmarks.places import Places, places

ROUNDS = 40
CALLS = 20
WAKES = 3
#: Chunks to claim: more than all rounds take.
CHUNKS = 2 * ROUNDS * CALLS


#: Seconds that something took.
Timed = Callable[[], float]


def timed(step: Step) -> Timed:
    """A step by the clock."""

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
        rows.append((name, *ours, *bare, *claims, *quantiles(wake_up(url), WAKES)))
    header = ("store", "lock+release", "p99", "raw", "p99", "claim+report", "p99", "woken after", "p99")
    return table("One client, milliseconds", header, rows)


def wake_up(url: str) -> Timed:
    """From a release until the thread that waits for the resource has it; both on connections of their own."""
    holding, waiting = headgate.connect(url).locks, headgate.connect(url).locks

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


def main(arguments: Sequence[str]) -> None:
    """All of them."""
    del arguments
    with places() as where:
        for figure in (pairs, over_http):
            sys.stdout.write(figure(where) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make bench-locks`: locks against the raw ceiling of each store, against peers, in contention, with many held.

Raw is the maximum rate of the same driver: two commits, with one row (or node) created and removed again, with the same
journal mode and durability. History is written in all of our figures. Only the ratios are meaningful: the rates depend
on the machine and its other load.
"""

from __future__ import annotations

import secrets
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import headgate
from benchmarks.harness import Step, compare, table, verdict
from benchmarks.places import Places, places

CLIENTS = 8
CONTEST_SECONDS = 6.0
CONTEST_ROUNDS = 3
HELD = 100_000
BATCH = 1000

#: The targets, by figure.
RAW_TARGETS = {
    "SQLite TRUNCATE": 0.6, "SQLite WAL": 0.45, "PostgreSQL": 0.6, "MariaDB": 0.5, "ZooKeeper": 0.75,
}  # fmt: skip
PEER_TARGETS = {"tooz on PostgreSQL": 3.0, "kazoo's Lock": 1.25}
FAIRNESS_TARGETS = {"SQLite": 0.4, "PostgreSQL": 0.5, "MariaDB": 0.5, "ZooKeeper": 0.5}


def our_pair(url: str) -> Step:
    """Acquire and release one existing resource through the Python API."""
    return pair_of(headgate.connect(url).locks)


def pair_of(locks: Any) -> Step:
    """The same, on a store or through a service."""
    resource = f"bench:{secrets.token_hex(4)}"

    def step() -> None:
        locks.release(locks.acquire("bench", resource, "exclusive", lease=30))

    step()
    return step


def raw_sqlite(path: Path, mode: str) -> Step:
    """Insert one row, delete one row."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"pragma journal_mode = {mode}")
    connection.execute("pragma synchronous = full")
    connection.execute("create table raw (id text primary key, client text, token integer) without rowid")
    return _raw_step(
        connection.cursor(), ("?", "?", "?"), "explain query plan delete from raw where id = 'x'", "SEARCH"
    )


def raw_postgresql(url: str) -> Step:
    """Insert one row, delete one row."""
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.prepare_threshold = 2
    connection.execute("drop table if exists raw")
    connection.execute("create table raw (id text primary key, client text, token bigint)")
    connection.execute("set enable_seqscan = off")  # Otherwise an empty table is scanned, which distorts the ratio.
    return _raw_step(connection.cursor(), ("%s",) * 3, "explain delete from raw where id = 'x'", "Index Scan")


def raw_mariadb(url: str) -> Step:
    """Insert one row, delete one row."""
    from headgate.stores.sql.dialects.mysql.dialect import Mysql

    cursor = Mysql(url).connect().cursor()
    cursor.execute("drop table if exists raw")
    cursor.execute("create table raw (id varchar(40) primary key, client varchar(255), token bigint) engine=InnoDB")
    return _raw_step(cursor, ("%s",) * 3, "explain delete from raw where id = 'x'", "PRIMARY")


def _raw_step(cursor: Any, marks: Sequence[str], explain: str, expected: str) -> Step:
    """A baseline whose query plan is asserted: a slow plan with a scan would make our ratio too good."""
    insert = f"insert into raw values ({', '.join(marks)})"
    delete = f"delete from raw where id = {marks[0]}"
    cursor.execute(insert, ("x", "bench", 1))
    cursor.execute(explain)
    plan = str(cursor.fetchall())
    if expected not in plan:
        raise SystemExit(f"the raw baseline does not use its key: {plan}")
    cursor.execute(delete, ("x",))

    def step() -> None:
        cursor.execute(insert, ("x", "bench", 1))
        cursor.execute(delete, ("x",))

    return step


def raw_zookeeper(hosts: str) -> Step:
    """Create and remove an ephemeral node."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts)
    client.start()
    client.ensure_path("/raw")

    def step() -> None:
        client.create("/raw/x", b"bench", ephemeral=True)
        client.delete("/raw/x")

    return step


def kazoo_pair(hosts: str, name: str = "single") -> Step:
    """kazoo's own Lock."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts)
    client.start()
    lock = client.Lock(f"/peer/{name}", "bench")

    def step() -> None:
        lock.acquire()
        lock.release()

    step()
    return step


def tooz_pair(url: str, name: str = "single") -> Step:
    """tooz's lock on PostgreSQL."""
    from tooz import coordination

    coordinator = coordination.get_coordinator(url, secrets.token_bytes(6))
    coordinator.start()
    lock = coordinator.get_lock(name.encode())

    def step() -> None:
        lock.acquire()
        lock.release()

    step()
    return step


def our_contest(url: str, name: str) -> Step:
    """One of many clients that want one resource."""
    locks = headgate.connect(url).locks
    client = f"client-{secrets.token_hex(3)}"

    def step() -> None:
        locks.release(locks.acquire(client, f"contest:{name}", "exclusive", wait=60, lease=30))

    return step


def contest(make: Callable[..., Step], *arguments: str) -> list[int]:
    """The number of grants of each of eight processes in the same seconds."""
    context = get_context("spawn")
    barrier, counts = context.Barrier(CLIENTS), context.Queue()
    processes = [
        context.Process(target=_contestant, args=(make, arguments, barrier, counts), daemon=True)
        for _ in range(CLIENTS)
    ]
    for process in processes:
        process.start()
    found = [counts.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return found


def _contestant(make: Callable[..., Step], arguments: tuple[str, ...], barrier: Any, counts: Any) -> None:
    step = make(*arguments)
    barrier.wait()
    until = time.monotonic() + CONTEST_SECONDS
    count = 0
    while time.monotonic() < until:
        step()
        count += 1
    counts.put(count)


def hold_many(url: str) -> None:
    """Fill the store with locks that are held."""
    with headgate.connect(url) as gate:
        for start in range(0, HELD, BATCH):
            gate.locks.acquire_all("holder", {f"held:{start + i}": "exclusive" for i in range(BATCH)})


def hosts_of(url: str) -> str:
    """The servers of a ZooKeeper URL."""
    return url.removeprefix("zookeeper://").partition("/")[0]


def against_raw(places: Places) -> str:
    """One client, one existing resource, against the ceiling of the store."""
    contestants: dict[str, tuple[Step, Step]] = {
        "SQLite TRUNCATE": (our_pair(places.sqlite("truncate")), raw_sqlite(places.file(), "truncate")),
        "SQLite WAL": (our_pair(places.sqlite("wal")), raw_sqlite(places.file(), "wal")),
        "PostgreSQL": (our_pair(places.postgresql()), raw_postgresql(places.postgresql())),
        "MariaDB": (our_pair(places.mariadb()), raw_mariadb(places.mariadb())),
        "ZooKeeper": (our_pair(places.zookeeper()), raw_zookeeper(hosts_of(places.zookeeper()))),
    }
    rows: list[Sequence[object]] = []
    for name, (ours, raw) in contestants.items():
        found = compare({"ours": ours, "raw": raw})
        ratio = found["ours"].ratio_to(found["raw"])
        rows.append(
            (name, found["ours"].rate, found["raw"].rate, ratio, RAW_TARGETS[name], verdict(ratio, RAW_TARGETS[name]))
        )
    return table(
        "Acquire + release, one client, pairs per second", ("store", "ours", "raw", "ratio", "target", ""), rows
    )


def against_peers(places: Places) -> str:
    """The same pair, by libraries in common use."""
    contestants = {
        "tooz on PostgreSQL": (our_pair(places.postgresql()), tooz_pair(places.postgresql())),
        "kazoo's Lock": (our_pair(places.zookeeper()), kazoo_pair(hosts_of(places.zookeeper()))),
    }
    rows: list[Sequence[object]] = []
    for name, (ours, peer) in contestants.items():
        found = compare({"ours": ours, "peer": peer})
        ratio = found["ours"].ratio_to(found["peer"])
        target = PEER_TARGETS[name]
        rows.append((name, found["ours"].rate, found["peer"].rate, ratio, target, verdict(ratio, target)))
    return table("The same against peers", ("peer", "ours", "peer", "ratio", "target", ""), rows)


def in_contention(places: Places) -> str:
    """Eight processes on one resource: the total rate, and that of the slowest."""
    rows: list[Sequence[object]] = []
    peers = {
        "PostgreSQL": ("tooz", tooz_pair, (places.postgresql(),)),
        "ZooKeeper": ("kazoo", kazoo_pair, (hosts_of(places.zookeeper()),)),
    }
    urls = {
        "SQLite": places.sqlite("truncate"),
        "PostgreSQL": places.postgresql(),
        "MariaDB": places.mariadb(),
        "ZooKeeper": places.zookeeper(),
    }
    for name, url in urls.items():
        ours, theirs = _contest_in_turns(url, peers.get(name))
        fairness = min(ours) / statistics.mean(ours)
        rate = sum(ours) / CONTEST_SECONDS / CONTEST_ROUNDS
        told = verdict(fairness, FAIRNESS_TARGETS[name])
        if theirs:
            told = verdict(sum(ours) / sum(theirs), 1.0) if told == "ok" else told
            peer, peer_rate = peers[name][0], sum(theirs) / CONTEST_SECONDS / CONTEST_ROUNDS
            rows.append(
                (
                    name,
                    rate,
                    fairness,
                    FAIRNESS_TARGETS[name],
                    peer,
                    peer_rate,
                    min(theirs) / statistics.mean(theirs),
                    told,
                )
            )
        else:
            rows.append((name, rate, fairness, FAIRNESS_TARGETS[name], "-", "-", "-", told))
    header = ("store", "grants/s", "slowest/mean", "target", "peer", "grants/s", "slowest/mean", "")
    return table(f"{CLIENTS} processes on one resource, waiting in turn", header, rows)


def _contest_in_turns(url: str, peer: Any) -> tuple[list[int], list[int]]:
    ours, theirs = [0] * CLIENTS, [0] * CLIENTS if peer else []
    for _ in range(CONTEST_ROUNDS):
        name = secrets.token_hex(4)
        ours = [a + b for a, b in zip(sorted(ours), sorted(contest(our_contest, url, name)), strict=True)]
        if peer:
            _, make, arguments = peer
            theirs = [a + b for a, b in zip(sorted(theirs), sorted(contest(make, *arguments, name)), strict=True)]
    return ours, theirs


def with_many_held(places: Places) -> str:
    """The same pair in a store that holds a hundred thousand locks, against an empty one."""
    rows: list[Sequence[object]] = []
    kinds: dict[str, Callable[[], str]] = {
        "SQLite": lambda: places.sqlite("truncate"), "PostgreSQL": places.postgresql, "MariaDB": places.mariadb,
        "ZooKeeper": places.zookeeper,
    }  # fmt: skip
    for name, new_store in kinds.items():
        empty, full = new_store(), new_store()
        hold_many(full)
        found = compare({"empty": our_pair(empty), "full": our_pair(full)})
        times = found["empty"].ratio_to(found["full"])
        rows.append((name, found["empty"].rate, found["full"].rate, times, 1.2, "ok" if times <= 1.2 else "MISSED"))
    header = ("store", "empty", "full", "times slower", "at most", "")
    return table(f"With {HELD:,} locks held, pairs per second", header, rows)


def our_collection(url: str) -> Step:
    """Acquire a thousand existing resources in one request, and release them one by one."""
    locks = headgate.connect(url, answer_within="60").locks
    wants = {f"bench:{secrets.token_hex(4)}/{number}": "exclusive" for number in range(BATCH)}

    def step() -> None:
        for lock in locks.acquire_all("bench", wants, lease=600):
            locks.release(lock)

    step()
    return step


def our_acquisition(url: str) -> Step:
    """Acquire a thousand new resources in one request."""
    locks = headgate.connect(url, answer_within="60").locks

    def step() -> None:
        name = secrets.token_hex(4)
        locks.acquire_all("bench", {f"bench:{name}/{number}": "exclusive" for number in range(BATCH)}, lease=600)

    step()
    return step


def raw_rows(cursor: Any, marks: Sequence[str], wrap: Callable[[Callable[[], None]], None], *, out: bool) -> Step:
    """Insert a thousand rows in one transaction; with `out`, delete each in a separate one."""
    insert = f"insert into raw values ({', '.join(marks)})"
    delete = f"delete from raw where id = {marks[0]}"

    def step() -> None:
        rows = [(secrets.token_hex(12), "bench", 1) for _ in range(BATCH)]
        wrap(lambda: cursor.executemany(insert, rows))
        if out:
            for row in rows:
                cursor.execute(delete, row[:1])

    return step


def raw_collection(places: Places, name: str, *, out: bool) -> Step:
    """The same number of rows, by the driver alone."""
    if name == "SQLite":
        connection = sqlite3.connect(places.file(), isolation_level=None)
        connection.execute("pragma journal_mode = truncate")
        cursor: Any = connection.cursor()
        kind = "text"
    elif name == "PostgreSQL":
        import psycopg

        cursor, kind = psycopg.connect(places.postgresql(), autocommit=True).cursor(), "text"
    else:
        from headgate.stores.sql.dialects.mysql.dialect import Mysql

        cursor, kind = Mysql(places.mariadb()).connect().cursor(), "varchar(40)"
    cursor.execute(f"create table raw (id {kind} primary key, client varchar(255), token bigint)")

    def wrap(work: Callable[[], None]) -> None:
        cursor.execute("begin")
        work()
        cursor.execute("commit")

    return raw_rows(cursor, ("?" if name == "SQLite" else "%s",) * 3, wrap, out=out)


def collections(places: Places) -> str:
    """A collection of the largest size that is accepted, against as many rows."""
    rows: list[Sequence[object]] = []
    urls: dict[str, Callable[[], str]] = {
        "SQLite": lambda: places.sqlite("truncate"), "PostgreSQL": places.postgresql, "MariaDB": places.mariadb,
    }  # fmt: skip
    for what, ours, out in (("acquire", our_acquisition, False), ("acquire + release", our_collection, True)):
        for name, url in urls.items():
            found = compare({"ours": ours(url()), "raw": raw_collection(places, name, out=out)}, rounds=3, seconds=2)
            rows.append((name, what, found["ours"].rate, found["raw"].rate, found["ours"].ratio_to(found["raw"])))
    header = ("store", "what", "ours", "raw", "ratio")
    return table(f"Collections of {BATCH:,}, per second", header, rows)


PARTS = {
    "raw": against_raw, "peers": against_peers, "contention": in_contention, "held": with_many_held,
    "collections": collections,
}  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Print the requested tables, or all."""
    with places() as where:
        for name in arguments or PARTS:
            print(PARTS[name](where), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

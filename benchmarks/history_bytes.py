"""`make bench-history`: bytes of history that a lock pair and a claim with its report leave behind, on each store.

Counted by the store itself, indexes included, over many events; what the events leave elsewhere is not counted.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence

import headgate
from benchmarks.harness import table
from benchmarks.places import places
from headgate import Gate
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.opening import open_database

PAIRS = 2000
#: The table with its indexes, as each database measures it, after its pages were cleaned up.
SIZES: dict[str, tuple[Sequence[str], str]] = {
    "sqlite": (("vacuum",), "select sum(pgsize) from dbstat where name like 'hg_history%'"),
    "postgresql": (("vacuum full hg_history",), "select pg_total_relation_size('hg_history')"),
    "mysql": (
        ("optimize table hg_history", "analyze table hg_history"),
        """select sum(stat_value) * @@innodb_page_size from mysql.innodb_index_stats
           where table_name = 'hg_history' and stat_name = 'size' and database_name = database()""",
    ),
}


def lock_pairs(gate: Gate) -> None:
    """Locks on a few resources, as in a pipeline."""
    for number in range(PAIRS):
        lock = gate.locks.acquire("worker@node17", f"mysql://db1/core_{number % 50}", "exclusive", lease=60)
        gate.locks.release(lock)


def claims(gate: Gate) -> None:
    """Chunks of one job."""
    gate.ledger.define_dataset("raw")
    gate.ledger.define_dataset("tidy")
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    gate.ledger.publish("raw", [f"2026-11-{number:06d}" for number in range(PAIRS)])
    for _ in range(PAIRS):
        claim = gate.ledger.find_next("clean", worker="worker@node17")
        assert claim
        gate.ledger.success(claim)


def published(gate: Gate) -> None:
    """The bytes of the unclaimed chunks, which are subtracted from those of the claims."""
    gate.ledger.define_dataset("raw")
    gate.ledger.publish("raw", [f"2026-11-{number:06d}" for number in range(PAIRS)])


def size_in(url: str) -> float:
    """Bytes of the history in a database."""
    before, ask = SIZES[url.partition(":")[0].partition("+")[0]]
    database: Database = open_database(url)

    def look(connection: object) -> float:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        for text in before:
            cursor.execute(text)
            if cursor.description:
                cursor.fetchall()
        cursor.execute(ask)
        return float(cursor.fetchone()[0])

    try:
        return database.lend(look)
    finally:
        database.close()


def size_on_zookeeper(url: str) -> float:
    """Bytes of all nodes, by the server's own estimate."""
    host, _, port = url.split("/")[2].partition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"mntr")
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return float(next(line.split()[1] for line in answer.splitlines() if line.startswith("zk_approximate_data_size")))


def measure(fresh: Callable[[], str], work: Callable[[Gate], None]) -> float:
    """Bytes of history after that work in a new store."""
    url = fresh()
    size = size_on_zookeeper if url.startswith("zookeeper") else size_in
    headgate.connect(url).close()
    begun = size(url)
    with headgate.connect(url) as gate:
        work(gate)
    return size(url) - begun


def main(arguments: Sequence[str]) -> None:
    """Measure all stores, or the named ones."""
    with places() as found:
        stores: dict[str, Callable[[], str]] = {
            "sqlite": lambda: found.sqlite("wal"), "postgresql": found.postgresql, "mariadb": found.mariadb,
            "zookeeper": found.zookeeper,
        }  # fmt: skip
        rows = []
        for name in arguments or stores:
            pair = measure(stores[name], lock_pairs) / PAIRS
            claim = None if name == "zookeeper" else (measure(stores[name], claims) - measure(stores[name], published))
            rows.append((name, f"{pair:.0f}", "-" if claim is None else f"{claim / PAIRS:.0f}"))
    header = ("store", "bytes for a lock pair", "bytes for a claim and its report")
    print(table("History", header, rows))


if __name__ == "__main__":
    main(sys.argv[1:])

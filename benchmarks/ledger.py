"""`make bench-ledger`: the ledger against the raw ceiling of each store, against a peer, and as it grows.

Raw is what the same driver can do at all: one claim that passes over locked rows and one update, a trip and a
commit each, with the same journal mode and durability. History is written in all of our figures. Only the ratios
mean anything: the rates depend on the machine and on what else it does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import headgate
from benchmarks import ledger_raw
from benchmarks.harness import Step, compare, table, verdict
from benchmarks.places import Places, places

#: Waiting chunks, more than a run takes.
WAITING = 40_000
RAW_TARGETS = {"SQLite TRUNCATE": 0.5, "SQLite WAL": 0.5, "PostgreSQL": 0.55, "MariaDB": 0.45}


def define(url: str, waiting: int = WAITING) -> None:
    """A job that reads one dataset and makes another, with that many chunks to do."""
    with headgate.connect(url) as gate:
        for name in ("raw", "tidy"):
            gate.ledger.define_dataset(name, uri=f"s3://bucket/{name}")
        gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
        gate.ledger.publish("raw", [f"chunk-{number}" for number in range(waiting)])


def our_pair(url: str) -> Step:
    """find_next and success through the Python API."""
    ledger = headgate.connect(url).ledger

    def step() -> None:
        claim = ledger.find_next("clean")
        assert claim, "the benchmark ran out of chunks"
        ledger.success(claim)

    return step


def against_raw(places: Places) -> str:
    """One worker against the ceiling of the store."""
    urls = {
        "SQLite TRUNCATE": places.sqlite("truncate"), "SQLite WAL": places.sqlite("wal"),
        "PostgreSQL": places.postgresql(), "MariaDB": places.mariadb(),
    }  # fmt: skip
    bare = places.postgresql()
    ledger_raw.postgresql_fill(bare, WAITING)
    raw = {
        "SQLite TRUNCATE": ledger_raw.sqlite_pair(places.file(), "truncate", WAITING),
        "SQLite WAL": ledger_raw.sqlite_pair(places.file(), "wal", WAITING),
        "PostgreSQL": ledger_raw.postgresql_pair(bare),
        "MariaDB": ledger_raw.mariadb_pair(places.mariadb(), WAITING),
    }
    rows: list[Sequence[object]] = []
    for name, url in urls.items():
        define(url)
        found = compare({"ours": our_pair(url), "raw": raw[name]})
        ratio = found["ours"].ratio_to(found["raw"])
        target = RAW_TARGETS[name]
        rows.append((name, found["ours"].rate, found["raw"].rate, ratio, target, verdict(ratio, target)))
    header = ("store", "ours", "raw", "ratio", "target", "")
    return table("find_next + success, one worker, pairs per second", header, rows)


PARTS = {"raw": against_raw}


def main(arguments: Sequence[str]) -> None:
    """Print the tables that are asked for, or all."""
    with places() as where:
        for name in arguments or PARTS:
            print(PARTS[name](where), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make bench-ledger`: the ledger against the raw ceiling of each store, against a peer, in bulk, and as it grows.

Raw is the maximum rate of the same driver: one claim that skips locked rows and one update, a trip and a commit each,
with the same journal mode and durability. History is written in all of our figures. Only the ratios are meaningful: the
rates depend on the machine and its other load.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import headgate
from benchmarks import ledger_bulk, ledger_growth, ledger_mapped, ledger_peers, ledger_raw
from benchmarks.harness import Step, compare, table, verdict
from benchmarks.places import Places, places
from headgate.stores.sql.dialects.sqlite.dialect import Sqlite

#: Waiting chunks, more than a run takes.
WAITING = 60_000
#: SQLite has to meet its target in its default journal mode.
RAW_TARGETS = {"SQLite TRUNCATE": 0.5, "SQLite WAL": 0.5, "PostgreSQL": 0.55, "MariaDB": 0.45}
#: Targets against raw with eight workers; against procrastinate with one worker and with eight.
EIGHT_TARGET = 0.5
PEER_TARGETS = {1: 1.5, 8: 2.0}
PUBLISHED, PUBLISH_TARGETS = 200_000, {"SQLite": 50_000, "PostgreSQL": 30_000}
#: Chunks of three jobs; "within seconds".
RESUBMITTED, RESUBMIT_SECONDS = 100_000, 15.0
STARTS = 7


def define(url: str, waiting: int) -> str:
    """A job that reads one dataset and makes another, with that many chunks to do."""
    ledger_bulk.define(url, jobs=1)
    ledger_bulk.fill(url, 1, waiting, jobs=0)
    return url


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
    default = f"SQLite {Sqlite('sqlite:///x').journal_mode.upper()}"
    rows: list[Sequence[object]] = []
    for name, (url, raw) in _raw_contestants(places).items():
        found = compare({"ours": our_pair(define(url, WAITING)), "raw": raw})
        ratio, target = found["ours"].ratio_to(found["raw"]), RAW_TARGETS[name]
        told = "not the default" if name.startswith("SQLite") and name != default else verdict(ratio, target)
        rows.append((name, found["ours"].rate, found["raw"].rate, ratio, target, told))
    header = ("store", "ours", "raw", "ratio", "target", "")
    return table("find_next + success, one worker, pairs per second", header, rows)


def _raw_contestants(places: Places) -> dict[str, tuple[str, Step]]:
    return {
        "SQLite TRUNCATE": (
            places.sqlite("truncate"), ledger_raw.sqlite_pair(places.file(), "truncate", WAITING)
        ),
        "SQLite WAL": (places.sqlite("wal"), ledger_raw.sqlite_pair(places.file(), "wal", WAITING)),
        "PostgreSQL": (
            places.postgresql(), ledger_raw.postgresql_pair(ledger_raw.postgresql_fill(places.postgresql(), WAITING))
        ),
        "MariaDB": (places.mariadb(), ledger_raw.mariadb_pair(places.mariadb(), WAITING)),
    }  # fmt: skip


def against_peers(places: Places) -> str:
    """Processes on one PostgreSQL: eight against raw, one and eight against procrastinate."""
    url, bare, peer = places.postgresql(), places.postgresql(), places.postgresql()
    define(url, 2 * WAITING)
    ledger_raw.postgresql_fill(bare, 3 * WAITING)
    ledger_peers.procrastinate_fill(peer, WAITING)
    contests: list[tuple[str, Callable[[str], ledger_peers.Runner], str, int, float]] = [
        ("raw", ledger_peers.raw, bare, 8, EIGHT_TARGET),
        *(("procrastinate", ledger_peers.procrastinate, peer, count, least) for count, least in PEER_TARGETS.items()),
    ]
    rows: list[Sequence[object]] = []
    for name, make, other, workers, target in contests:
        pairs = [
            (ledger_peers.together(ledger_peers.ours, url, workers), ledger_peers.together(make, other, workers))
            for _ in range(ledger_peers.ROUNDS)
        ]
        ratio = statistics.median(mine / theirs for mine, theirs in pairs)
        rates = [statistics.median(each) for each in zip(*pairs, strict=True)]
        rows.append((name, workers, *rates, ratio, target, verdict(ratio, target)))
    header = ("peer", "processes", "ours", "peer", "ratio", "target", "")
    return table("find_next + success on PostgreSQL, pairs per second together", header, rows)


def in_bulk(places: Places) -> str:
    """Publishing, and resubmitting with all that was made from it."""
    rows: list[Sequence[object]] = []
    stores = {"SQLite": places.sqlite("truncate"), "PostgreSQL": places.postgresql(), "MariaDB": places.mariadb()}
    for name, url in stores.items():
        ledger_bulk.define(url)
        gate = headgate.connect(url)
        rate = PUBLISHED / _seconds(lambda: gate.ledger.publish("raw", map(str, range(PUBLISHED))))  # noqa: B023
        ledger_bulk.fill(url, 1, RESUBMITTED // 3, jobs=3)
        preview, done = (_resubmit(gate, dry_run=dry_run) for dry_run in (True, False))
        least = PUBLISH_TARGETS.get(name, 0)
        told = verdict(rate, least) if done <= RESUBMIT_SECONDS else "MISSED"
        rows.append((name, rate, least or "-", f"{preview:.1f}", f"{done:.1f}", told))
    header = ("store", "published/s", "target", "preview s", "resubmit s", "")
    return table(f"In bulk: {PUBLISHED:,} published; {RESUBMITTED:,} resubmitted, downstream too", header, rows)


def _resubmit(gate: headgate.Gate, *, dry_run: bool) -> float:
    ids = [str(1_000_000 + number) for number in range(1, RESUBMITTED // 3 + 1)]
    return _seconds(lambda: gate.ledger.resubmit("clean", ids, reason="wrong rates", downstream=True, dry_run=dry_run))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def starting(places: Places) -> str:
    """The cost of starting the command, compared with a Python that does nothing."""
    url = define(places.sqlite("truncate"), 100)
    commands = {
        "python -c pass": (["-c", "pass"], 1.0),
        "headgate --version": (["-m", "headgate", "--version"], 4.0),
        "headgate job next": (["-m", "headgate", "job", "next", "clean", "--quiet", "--url", url], 12.0),
    }
    # As installed: with compiled files.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(words: list[str]) -> float:
        command = [sys.executable, *words]
        return _seconds(lambda: subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL))

    for words, _ in commands.values():
        run(words)
    rounds = [{name: run(words) for name, (words, _) in commands.items()} for _ in range(STARTS)]
    rows: list[Sequence[object]] = []
    for name, (_, most) in commands.items():
        times = statistics.median(each[name] / each["python -c pass"] for each in rounds)
        mean = statistics.median(each[name] for each in rounds)
        rows.append((name, f"{mean * 1000:.0f}", times, most, "ok" if times <= most else "MISSED"))
    return table("Starting, milli-seconds", ("command", "ms", "times", "at most", ""), rows)


PARTS = {
    "raw": against_raw, "peers": against_peers, "bulk": in_bulk, "start": starting,
    "waiting": ledger_growth.with_many_waiting, "snapshot": ledger_growth.under_an_old_snapshot,
    "finished": ledger_growth.with_many_finished, "mapped": ledger_mapped.with_mapped_days,
}  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Print the requested tables, or all."""
    with places() as where:
        for name in arguments or PARTS:
            print(PARTS[name](where), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

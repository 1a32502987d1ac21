"""Times of find_next that must not grow: with finished chunks, with waiting chunks, and with an old snapshot."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import headgate
from benchmarks import ledger_bulk, ledger_peers
from benchmarks.harness import table
from benchmarks.places import Places

FEW, FINISHED, WAITING = 10_000, 10_000_000, 1_000_000
CLAIMS = 10_000
TURN = 50
TURNS = 20
MOST = 1.3


def find_next_times(url: str) -> Callable[[], list[float]]:
    """The times of some claims; the reports between them are not counted."""
    ledger = headgate.connect(url).ledger

    def turn() -> list[float]:
        times = []
        for _ in range(TURN):
            began = time.perf_counter()
            claim = ledger.find_next("clean")
            times.append(time.perf_counter() - began)
            assert claim, "the benchmark ran out of chunks"
            ledger.success(claim)
        return times

    return turn


def with_many_finished(places: Places) -> str:
    """find_next with ten million finished chunks, against ten thousand, in turns."""
    rows: list[Sequence[object]] = []
    for name, new_store in {"SQLite": lambda: places.sqlite("truncate"), "PostgreSQL": places.postgresql}.items():
        turns = []
        for finished in (FEW, FINISHED):
            url = new_store()
            ledger_bulk.define(url, jobs=1)
            ledger_bulk.fill(url, 1, finished, jobs=1)
            ledger_bulk.fill(url, finished + 1, finished + FEW, jobs=0)
            turns.append(find_next_times(url))
        few, many = in_turns(*turns)
        rows.append((name, few * 1e6, many * 1e6, many / few, MOST, at_most(many / few)))
    header = ("store", f"{FEW:,}", f"{FINISHED:,}", "times", "at most", "")
    return table("find_next with many finished chunks, microseconds", header, rows)


def with_many_waiting(places: Places) -> str:
    """Eight processes on a million waiting chunks, against forty thousand."""
    few, many = places.postgresql(), places.postgresql()
    for url, count in ((few, 4 * FEW), (many, WAITING)):
        ledger_bulk.define(url, jobs=1)
        ledger_bulk.fill(url, 1, count, jobs=0)
    pairs = [
        (ledger_peers.together(ledger_peers.ours, few, 8), ledger_peers.together(ledger_peers.ours, many, 8))
        for _ in range(ledger_peers.ROUNDS)
    ]
    times = statistics.median(few_rate / many_rate for few_rate, many_rate in pairs)
    rates = [statistics.median(each) for each in zip(*pairs, strict=True)]
    header = ("store", f"{4 * FEW:,}", f"{WAITING:,}", "times slower", "at most", "")
    rows = [("PostgreSQL", *rates, times, MOST, at_most(times))]
    return table("Eight workers with many waiting chunks, pairs per second", header, rows)


def under_an_old_snapshot(places: Places) -> str:
    """Ten thousand claims while a dump holds its snapshot: the last against the first, and against a store without."""
    import psycopg

    stores = places.postgresql(), places.postgresql()
    for url in stores:
        ledger_bulk.define(url, jobs=1)
        ledger_bulk.fill(url, 1, CLAIMS + 2 * TURN * TURNS, jobs=0)
    with psycopg.connect(stores[1]) as dump:
        dump.execute("set transaction isolation level repeatable read")
        dump.execute("select count(*) from hg_job")
        ledger = headgate.connect(stores[1]).ledger
        for _ in range(CLAIMS):
            claim = ledger.find_next("clean")
            assert claim
            ledger.success(claim)
        fresh, old = in_turns(*(find_next_times(url) for url in stores))
        ledger.resubmit("clean", "1000003", reason="the benchmark wants it first")
        first = ledger.find_next("clean")
        assert first
        assert first.dataid == "1000003", "what is resubmitted goes first"
    header = ("store", "without", "under it", "times", "at most", "")
    rows = [("PostgreSQL", fresh * 1e6, old * 1e6, old / fresh, MOST, at_most(old / fresh))]
    return table(f"find_next after {CLAIMS:,} claims under an old snapshot, microseconds", header, rows)


def in_turns(one: Callable[[], list[float]], other: Callable[[], list[float]]) -> tuple[float, float]:
    """The median times of two, measured in turns."""
    pairs = [(one(), other()) for _ in range(TURNS)]
    return (
        statistics.median(each for times, _ in pairs for each in times),
        statistics.median(each for _, times in pairs for each in times),
    )


def at_most(times: float) -> str:
    return "ok" if times <= MOST else "MISSED"

"""A million days mapped to months: find_next of the months against that of a job that reads the same data ids."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta

import headgate
from benchmarks.harness import table
from benchmarks.ledger_growth import MOST, at_most, in_turns
from benchmarks.places import Places

#: HEADGATE_BENCH_DAYS reduces the number.
DAYS = int(os.environ.get("HEADGATE_BENCH_DAYS", "1000000"))
FIRST = date(1, 1, 1)
AT_ONCE = 5000
TURN = 20
BY_MONTH = {"kind": "period", "period": "month", "unit": "day"}


def with_mapped_days(places: Places) -> str:
    """find_next of a job that reads 28 to 31 days with each chunk, and how fast arrivals are folded."""
    rows: list[Sequence[object]] = []
    for name, new_store in {"SQLite": lambda: places.sqlite("truncate"), "PostgreSQL": places.postgresql}.items():
        url = new_store()
        seconds = _fill(url)
        same, mapped = in_turns(*(_times(url, job) for job in ("copy", "monthly")))
        times = mapped / same
        rows.append((name, DAYS / seconds, same * 1e6, mapped * 1e6, times, MOST, at_most(times)))
    header = ("store", "days folded per second", "same, µs", "mapped, µs", "times", "at most", "")
    return table(f"find_next with {DAYS:,} days mapped to months", header, rows)


def _fill(url: str) -> float:
    """Publish the days, and fold them. Returns how long the folding took."""
    with headgate.connect(url, answer_within="60") as gate:
        ledger = gate.ledger
        for name in ("days", "copies", "months"):
            ledger.define_dataset(name)
        ledger.define_job("copy", inputs=["days"], outputs=["copies"])
        ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": BY_MONTH})
        for start in range(0, DAYS, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, DAYS))
            ledger.publish("days", [(FIRST + timedelta(number)).isoformat() for number in numbers])
        began, left = time.perf_counter(), -1
        while (now := ledger.left("monthly")) != left:
            left = now
        return time.perf_counter() - began


def _times(url: str, job: str) -> Callable[[], list[float]]:
    ledger = headgate.connect(url).ledger

    def turn() -> list[float]:
        times = []
        for _ in range(TURN):
            began = time.perf_counter()
            claim = ledger.find_next(job)
            times.append(time.perf_counter() - began)
            assert claim, "the benchmark ran out of chunks"
            ledger.success(claim)
        return times

    return turn

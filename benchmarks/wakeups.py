"""`make bench-wakeups`: 8, 32 and 64 processes on one lock, on every store: grants, fairness, processor time.

A rate is shown as a part of what one process alone does in the same run. `BEFORE=DIR` names the checkout of another
version: its rounds take turns with ours, and the last columns are the medians of our figures as parts of its figures.
`ONLY="MariaDB 8"` chooses stores and numbers of processes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import table, verdict
from benchmarks.places import Places, places

ROOT = Path(__file__).parents[1]
PROCESSES = (8, 32, 64)
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = float(os.environ.get("SECONDS", "6"))
FAIRNESS_TARGET = 0.9


class Round(NamedTuple):
    """The results of many processes in some seconds."""

    #: Grants per second.
    rate: float
    #: The slowest process against the mean of all.
    fairness: float
    #: Processors that they used, without the server.
    cores: float
    #: Seconds of the longest wait.
    longest: float


def run(source: Path, url: str, processes: int, seconds: float) -> Round:
    """One round by the code in a checkout."""
    command = [sys.executable, "-m", "benchmarks.crowd", url, str(processes), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    answer = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE).stdout
    found = json.loads(answer)
    grants = [each["grants"] for each in found]
    return Round(
        rate=sum(grants) / seconds,
        fairness=min(grants) / statistics.mean(grants),
        cores=sum(each["cpu"] for each in found) / seconds,
        longest=max(each["longest"] for each in found),
    )


def measure(new_store: Callable[[], str], processes: int, before: Path | None) -> list[object]:
    """The cells of one row."""
    ours, theirs, alone = [], [], []
    seconds = max(SECONDS, processes / 4)  # Long enough that a single grant does not matter.
    for _ in range(ROUNDS):
        alone.append(run(ROOT, new_store(), 1, 1.0).rate)
        ours.append(run(ROOT, new_store(), processes, seconds))
        if before is not None:
            theirs.append(run(before, new_store(), processes, seconds))
    rate = statistics.median(each.rate for each in ours)
    fairness = statistics.median(each.fairness for each in ours)
    parts = [mine.rate / one for mine, one in zip(ours, alone, strict=True)]
    cells: list[object] = [
        rate, statistics.median(parts), fairness, statistics.median(each.cores for each in ours),
        max(each.longest for each in ours),
    ]  # fmt: skip
    if before is not None:
        pairs = list(zip(ours, theirs, strict=True))
        cells += [
            statistics.median(mine.rate / other.rate for mine, other in pairs),
            statistics.median(mine.cores / other.cores for mine, other in pairs),
        ]
    return [*cells, verdict(fairness, FAIRNESS_TARGET)]


def in_crowds(where: Places, before: Path | None, only: Sequence[str]) -> str:
    """Every store with every number of processes."""
    stores: dict[str, Callable[[], str]] = {
        "SQLite": lambda: where.sqlite("truncate"), "PostgreSQL": where.postgresql, "MariaDB": where.mariadb,
        "ZooKeeper": where.zookeeper,
    }  # fmt: skip
    names = [name for name in stores if name in only] or list(stores)
    numbers = [number for number in PROCESSES if str(number) in only] or list(PROCESSES)
    rows = [[name, number, *measure(stores[name], number, before)] for name in names for number in numbers]
    header = ["store", "processes", "grants/s", "of one alone", "slowest/mean", "cores", "longest wait"]
    header += ["grants/before", "cores/before"] if before else []
    return table(f"Processes on one lock; fairness should be {FAIRNESS_TARGET}", [*header, ""], rows)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    before = os.environ.get("BEFORE")
    only = [*arguments, *os.environ.get("ONLY", "").split()]
    with places() as where:
        sys.stdout.write(in_crowds(where, Path(before) if before else None, only) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

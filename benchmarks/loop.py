"""`make bench-loop`: the CPU cost of a chunk in `job run --loop`, over all processes that work on it.

The same chunks are run by a process of `job run` each, which imports everything for itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import headgate
from benchmarks.harness import table, verdict
from benchmarks.places import places

CHUNKS, SINGLE = 200, 10
#: CPU of a chunk through the loop, in milliseconds, at most.
TARGET = 65.0
PROGRAM = Path(sys.executable).parent / "headgate"


def main(arguments: Sequence[str]) -> None:
    """Print the table, of these stores or of all."""
    rows: list[Sequence[object]] = []
    with places() as where:
        kinds = {
            "SQLite": lambda: where.sqlite("truncate"), "PostgreSQL": where.postgresql, "MariaDB": where.mariadb,
        }  # fmt: skip
        rows += [(name, *_measure(kinds[name]())) for name in arguments or kinds]
    header = ("store", "loop, ms CPU", "loop, ms", "a process each, ms CPU", "at most", "")
    print(table(f"A chunk of {CHUNKS} that run `true`, one after another", header, rows))


def _measure(url: str) -> tuple[float, float, float, float, str]:
    with headgate.connect(url) as gate:
        for name in ("raw", "tidy"):
            gate.ledger.define_dataset(name)
        gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
        gate.ledger.publish("raw", [str(number) for number in range(CHUNKS + SINGLE + 1)])
    _run(url)  # Compiles the imported modules.
    single = sum(_run(url) for _ in range(SINGLE)) / SINGLE
    began = time.perf_counter()
    looped = _run(url, "--loop") / CHUNKS
    seconds = (time.perf_counter() - began) / CHUNKS
    return 1000 * looped, 1000 * seconds, 1000 * single, TARGET, verdict(TARGET / (1000 * looped), 1.0)


def _run(url: str, *words: str) -> float:
    """CPU seconds of the command and all of its processes."""
    command = [str(PROGRAM), "--url", url, "job", "run", "clean", "-q", *words, "--", "true"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])

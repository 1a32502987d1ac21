"""Many processes that want one lock: `python -m benchmarks.crowd URL PROCESSES SECONDS` prints a line of JSON.

It runs whichever `headgate` comes first on PYTHONPATH, so that two checkouts can be compared in turns.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import headgate


def compete(url: str, ready: int, go: int, seconds: float) -> dict[str, float]:
    """Acquire and release until the time is over; returns grants, processor seconds, and the longest wait."""
    locks = headgate.connect(url, answer_within="60").locks
    client = f"client-{os.getpid()}"
    locks.release(locks.acquire(client, f"own:{client}", "exclusive", lease=30))
    os.write(ready, b"x")
    os.read(go, 1)
    began, used = time.monotonic(), _processor_seconds()
    grants, longest = 0, 0.0
    while (asked := time.monotonic()) < began + seconds:
        locks.release(locks.acquire(client, "crowd:one", "exclusive", wait=300, lease=300))
        longest = max(longest, time.monotonic() - asked)
        grants += 1
    return {"grants": grants, "cpu": _processor_seconds() - used, "longest": longest}


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(url: str, processes: int, seconds: float) -> None:
    """Fork the processes, start them together, and print the results of each."""
    headgate.connect(url).close()
    ready_out, ready_in = os.pipe()
    go_out, go_in = os.pipe()
    results = []
    for _ in range(processes):
        out, into = os.pipe()
        if os.fork() == 0:
            with os.fdopen(into, "w") as answer:
                json.dump(compete(url, ready_in, go_out, seconds), answer)
            os._exit(0)
        os.close(into)
        results.append(out)
    for _ in range(processes):
        os.read(ready_out, 1)
    os.write(go_in, b"x" * processes)
    found = []
    for out in results:
        with os.fdopen(out) as answer:
            found.append(json.load(answer))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))

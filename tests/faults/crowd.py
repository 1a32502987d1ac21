"""One of many processes that want the same lock."""

import time

import headgate
from tests.faults.processes import Channel


def visit(channel: Channel, url: str, name: str, pairs: int) -> None:
    """Acquire and release this many times, starting when all are ready; send the duration of the slowest."""
    gate = headgate.connect(url, answer_within="120")
    channel.ask("ready")
    longest = 0.0
    for _ in range(pairs):
        began = time.monotonic()
        gate.locks.release(gate.locks.acquire(name, "crowd:one", "exclusive", wait=300, lease=300))
        longest = max(longest, time.monotonic() - began)
    gate.close()
    channel.send("done", longest=longest)

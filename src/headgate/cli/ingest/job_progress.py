"""ItemProgress bars for the jobs of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.service.queue.progress import ItemProgress

WIDTH = 24


def bars(jobs: Sequence[ItemProgress]) -> str:
    """A line for each job."""
    lines = []
    for each in jobs:
        filled = min(WIDTH, WIDTH * each.bytes // each.of) if each.of else 0
        size = f"{each.bytes:,} of {each.of:,} bytes" if each.of else f"{each.bytes:,} bytes"
        lines.append(f"{each.job}  {'█' * filled}{'░' * (WIDTH - filled)}  {each.state:<12}  {size}\n")
    return "".join(lines) + "\n" * bool(jobs)

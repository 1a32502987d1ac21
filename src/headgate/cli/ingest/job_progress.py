"""ItemProgress bars for the jobs of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.service.queue.progress import ItemProgress

WIDTH = 24


def bars(jobs: Sequence[ItemProgress]) -> str:
    """A line a job."""
    return "".join(f"{each.job}  {_bar(each)}  {each.state:<12}  {_size(each)}\n" for each in jobs) + "\n" * bool(jobs)


def _bar(job: ItemProgress) -> str:
    filled = min(WIDTH, WIDTH * job.bytes // job.of) if job.of else 0
    return "█" * filled + "░" * (WIDTH - filled)


def _size(job: ItemProgress) -> str:
    return f"{job.bytes:,} of {job.of:,} bytes" if job.of else f"{job.bytes:,} bytes"

"""The progress of ingest jobs: their states, and the bytes in their working folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.queue.model import Folder, IngestJob, folder_of

if TYPE_CHECKING:
    from headgate.service.queue.use_cases import Queue

#: Maximum number of jobs that are shown.
MOST = 20


@dataclass(frozen=True, slots=True)
class ItemProgress:
    """An unfinished job."""

    job: str
    state: str
    #: Bytes in its working folder, as far as this machine can see it.
    bytes: int
    #: 0: not known.
    of: int


def under_way(queue: Queue, batch: str) -> Sequence[ItemProgress]:
    """Unfinished jobs of a batch: those being processed first."""
    jobs = [job for job in queue.jobs(batch=batch, limit=10_000) if folder_of(job.state) is Folder.PROCESSING]
    jobs.sort(key=lambda job: (not job.worker, job.place))
    return [progress_of(job) for job in jobs[:MOST]]


def worked_on(queue: Queue, batch: str) -> Sequence[ItemProgress]:
    """Jobs of a batch that are being processed."""
    return [progress_of(job) for job in queue.jobs(batch=batch, taken=True, limit=MOST)]


def progress_of(job: IngestJob) -> ItemProgress:
    """The progress of a job."""
    work = Path(str(job.configuration.get("working_dir", "")))
    # An unpacked container is counted once, and the notes beside unfinished downloads are not counted.
    unpacked = max(_bytes_in(work / "producer"), _bytes_in(work / "container"))
    return ItemProgress(job.id, job.state, unpacked + _bytes_in(work / "parts", ".part"), job.space_needed)


def _bytes_in(place: Path, ending: str = "") -> int:
    return sum(
        _size_of(os.path.join(folder, file))  # noqa: PTH118 - many
        for folder, _, files in os.walk(place)
        for file in files
        if file.endswith(ending)
    )


def _size_of(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0

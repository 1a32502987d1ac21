"""History: what happened, kept with the change that it tells of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened."""

    #: Grows with time in one store; the place from which to read on.
    id: int
    #: When, by the store's clock.
    at: datetime
    #: What it happened to: lock, chunk, job, batch, ingest job or hold.
    noun: str
    #: An event of the noun's table.
    event: str
    #: The resource; a chunk's is `data:DATASET/DATAID`. Empty where it happened to a job.
    resource: str
    #: Who did it, or to whom it happened.
    client: str
    #: The lock's id; empty for chunks and jobs.
    lock_id: str
    #: The token at that moment.
    token: int
    #: The state before and after.
    before: str
    after: str
    #: Why, where a reason is asked or known.
    reason: str = ""
    #: How many times within the minute (refusals).
    count: int = 1
    #: The job whose chunk it is; the batch or ingest job.
    job: str = ""
    #: How many seconds it had been in the state before (batches and ingest jobs).
    spent: float | None = None
    #: The principal that did it; empty: the store itself, or it was told before principals were recorded.
    principal: str = ""

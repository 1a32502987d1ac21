"""The status in seed 003's form: what is under way, and what failed."""

from __future__ import annotations

from typing import Any

from headgate.core.ledger import Row, chunk_resource
from headgate.core.queue import IngestJob, Item, work_states
from headgate.service.ledger import Ledger
from headgate.service.queue import Queue

#: No more than so many ingest jobs of a state are looked at, and so many failures are told.
MOST_JOBS, MOST_FAILURES = 1000, 100
HELD, FAILED = "held", "failed"


def operations(queue: Queue, *, rich: bool) -> list[dict[str, Any]]:
    """Ingest jobs that have not ended, by state and id; the rich form adds who works on each, and since when."""
    states = (HELD, *work_states(queue.tables()[1]))
    found = [job for state in states for job in queue.jobs(state, limit=MOST_JOBS)]
    return [_operation(job) | ({"worker": job.worker, "since": job.since} if rich else {}) for job in found]


def failures(queue: Queue, ledger: Ledger | None) -> list[dict[str, Any]]:
    """Ingest jobs and chunks that failed, the newest first."""
    found = [_failed_job(job) for job in queue.jobs(FAILED, limit=MOST_JOBS)]
    found += [] if ledger is None else [_failed_chunk(row) for row in ledger.failures(MOST_FAILURES)]
    return sorted(found, key=lambda each: each["since"], reverse=True)[:MOST_FAILURES]


def _operation(job: IngestJob) -> dict[str, Any]:
    return {"request": job.state.upper(), "data": _data(job)}


def _data(job: IngestJob) -> str:
    return f"{job.batch}/{job.id} ({'/'.join([job.profile, *job.identifiers.local[:1]])})"


def _failed_job(job: IngestJob) -> dict[str, Any]:
    return {"id": job.id, "data": _data(job), "message": job.message, "since": job.since}


def _failed_chunk(row: Row) -> dict[str, Any]:
    resource = chunk_resource(row.dataset, row.dataid)
    return {"id": resource, "job": row.job, "dataid": row.dataid, "message": row.message, "since": row.since}


def deadly_items(queue: Queue) -> list[str]:
    """Batches and ingest jobs that are held because their workers died, each in one sentence."""
    held: list[Item] = [*queue.batches("held"), *queue.jobs("held")]
    return [f"{item.id} is held: {item.message}" for item in held if item.former]


def looked_at(queue: Queue, ledger: Ledger | None) -> dict[str, int]:
    """What faults are looked for in, counted."""
    counts = queue.counts()
    found = {
        "batches": sum(counts.get("batch", {}).values()),
        "ingest jobs": sum(counts.get("ingest job", {}).values()),
        "holds": len(queue.holds()),
    }
    return found if ledger is None else {**found, "claims": len(ledger.running())}

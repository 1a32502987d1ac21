"""The status: unfinished work, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from headgate.core.access.scopes import ApiToken
from headgate.core.alarms import Alarm
from headgate.core.counts import Counts
from headgate.core.filters import RowFilter
from headgate.core.ledger.census import EXPIRED
from headgate.core.ledger.model import RUNNING, Row, chunk_resource
from headgate.core.queue.model import FAILED, HELD, IngestJob, Item, work_states
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue

#: Maximum number of ingest jobs per state, of failures, and of running chunks that are listed.
MOST_JOBS, MOST_FAILURES, MOST_RUNNING = 1000, 100, 100
NEVER = datetime.max.replace(tzinfo=UTC)


def short_status(locks: Locks, queue: Queue, ledger: Ledger | None, *, rich: bool) -> dict[str, Any]:
    """Locks, unfinished work and failures; `rich`: with holders, waiters and workers."""
    found = locks.status(rich=rich)
    return {**found, "opsQueue": operations(queue, rich=rich), "failures": failures(queue, ledger)}


def add_rich(
    found: dict[str, Any],
    queue: Queue,
    ledger: Ledger | None,
    now: Counts,
    expiring: Sequence[ApiToken],
    alarms: Sequence[Alarm],
) -> dict[str, Any]:
    """The status with every count, running chunks, the queue, API tokens that expire soon, what is stuck, and failed
    batches without failed jobs.
    """
    ending = [{"id": each.id, "name": each.name, "expires_in": each.expires_in} for each in expiring]
    summary = {"counts": queue.counts(), "holds": [asdict(hold) for hold in queue.holds()]}
    stuck = [{**asdict(alarm), "command": alarm.command} for alarm in alarms]
    return {
        **found, "counts": asdict(now), "running": running(ledger), "queue": summary, "expiringTokens": ending,
        "alarms": stuck, "failedBatches": failed_batches(queue),
    }  # fmt: skip


def operations(queue: Queue, *, rich: bool) -> list[dict[str, Any]]:
    """Ingest jobs that have not ended, by state and id; the rich form adds the worker of each, and since when."""
    states = (HELD, *work_states(queue.tables()[1]))
    found = [job for state in states for job in queue.jobs(state, limit=MOST_JOBS)]
    return [_operation(job) | ({"worker": job.worker, "since": job.since} if rich else {}) for job in found]


def running(ledger: Ledger | None) -> list[dict[str, Any]]:
    """Chunks with a claim, the longest first; `alive` is false when the lease has expired."""
    if ledger is None:
        return []
    busy = {each.job for each in ledger.standing() if each.status in (RUNNING, EXPIRED)}
    found = [
        row
        for job in ledger.jobs()
        if job.name in busy
        for row in ledger.rows(RowFilter(job.first, job.name, kind=job.counted, status=RUNNING, limit=MOST_RUNNING))
    ]
    return [_running_chunk(row) for row in sorted(found, key=lambda row: row.since or NEVER)[:MOST_RUNNING]]


def failures(queue: Queue, ledger: Ledger | None) -> list[dict[str, Any]]:
    """Ingest jobs and chunks that failed, the newest first."""
    found = [_failed_job(job) for job in queue.jobs(FAILED, limit=MOST_JOBS)]
    found += [] if ledger is None else [_failed_chunk(row) for row in ledger.failures(MOST_FAILURES)]
    return sorted(found, key=lambda each: each["since"], reverse=True)[:MOST_FAILURES]


def failed_batches(queue: Queue) -> list[dict[str, Any]]:
    """Failed batches without failed jobs: the payload could not be read, or they were not reported again."""
    found = [batch for batch in queue.batches(FAILED, limit=MOST_JOBS) if not batch.jobs.failed]
    told: list[dict[str, Any]] = [
        {"id": each.id, "data": f"{each.id} ({each.profile})", "message": each.message, "since": each.since}
        for each in found
    ]
    return sorted(told, key=lambda each: each["since"], reverse=True)[:MOST_FAILURES]


def _operation(job: IngestJob) -> dict[str, Any]:
    return {"request": job.state.upper(), "data": _data(job)}


def _data(job: IngestJob) -> str:
    return f"{job.batch}/{job.id} ({'/'.join([job.profile, *job.identifiers.local[:1]])})"


def _running_chunk(row: Row) -> dict[str, Any]:
    return {
        "id": chunk_resource(row.dataset, row.dataid), "job": row.job, "dataid": row.dataid, "worker": row.worker,
        "since": row.since, "expires_in": row.expires_in, "alive": row.alive, "attempt": row.attempt,
    }  # fmt: skip


def _failed_job(job: IngestJob) -> dict[str, Any]:
    return {"id": job.id, "data": _data(job), "message": job.message, "since": job.since}


def _failed_chunk(row: Row) -> dict[str, Any]:
    resource = chunk_resource(row.dataset, row.dataid)
    return {"id": resource, "job": row.job, "dataid": row.dataid, "message": row.message, "since": row.since}


def deadly_items(queue: Queue) -> list[str]:
    """Batches and ingest jobs that are held because their workers died, each in one sentence."""
    held: list[Item] = [*queue.batches(HELD), *queue.jobs(HELD)]
    return [f"{item.id} is held: {item.message}" for item in held if item.former]

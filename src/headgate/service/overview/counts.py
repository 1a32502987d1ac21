"""Counts: the source of every number in status, doctor, metrics, API and dashboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headgate.core.counts import Counts
from headgate.core.ledger.census import EXPIRED, chunks_by_status
from headgate.core.ledger.model import ERROR, HOLD, RUNNING
from headgate.core.queue.model import FAILED, HELD, PENDING, work_states
from headgate.core.tables.machine import Machine
from headgate.core.values.plurals import plural
from headgate.service.activity import Activity
from headgate.service.expectations import Expectations
from headgate.service.inventory import Inventory
from headgate.service.ledger.questions import LEFT_MOST
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue


def count_all(
    locks: Locks, ledger: Ledger | None, queue: Queue, inventory: Inventory | None, activity: Activity,
    expectations: Expectations | None,
) -> Counts:  # fmt: skip
    """Every count, now. The cost does not grow with the number of finished chunks."""
    held = locks.status()["locks"]
    chunks = Counter[str]() if ledger is None else chunks_by_status(ledger.standing())
    batches, jobs = (queue.counts().get(table.name, {}) for table in queue.tables())
    return Counts(
        locked_resources=len(held),
        locks=sum(each["count"] for each in held),
        lock_waiters=len(locks.waiters()),
        chunks_running=chunks[RUNNING],
        claims_expired=chunks[EXPIRED],
        chunks_failed=chunks[ERROR],
        chunks_held=chunks[HOLD],
        chunks_late=0 if expectations is None else sum(each.late for each in expectations.lateness()),
        jobs_paused=0 if ledger is None else sum(1 for job in ledger.jobs() if job.paused),
        batches=sum(batches.values()),
        batches_held=batches.get(HELD, 0),
        batches_failed=batches.get(FAILED, 0),
        ingest_jobs=sum(jobs.values()),
        ingest_jobs_pending=jobs.get(PENDING, 0),
        ingest_jobs_running=count_running(jobs, queue.tables()[1]),
        ingest_jobs_held=jobs.get(HELD, 0),
        ingest_jobs_failed=jobs.get(FAILED, 0),
        collections_held=len(queue.holds()),
        messages_undelivered=0 if inventory is None else len(inventory.messages(failed=True)),
        failures_last_day=activity.failures(),
    )


def job_counts(ledger: Ledger, job: str) -> dict[str, int]:
    """The counts of one job; waiting chunks are counted up to LEFT_MOST."""
    now = chunks_by_status(ledger.standing(), job)
    return {
        "running": now[RUNNING], "expired": now[EXPIRED], "failed": now[ERROR], "held": now[HOLD],
        "waiting": ledger.left(job),
    }  # fmt: skip


def job_in_words(now: Mapping[str, int]) -> str:
    """The counts of a job in one line."""
    expired = f", {now['expired']:,} with a dead worker" if now["expired"] else ""
    waiting = f"{LEFT_MOST:,} or more chunks" if now["waiting"] >= LEFT_MOST else plural(now["waiting"], "chunk")
    return f"{now['running']:,} running{expired}, {now['failed']:,} failed, {now['held']:,} held, {waiting} waiting"


def count_running(jobs: Mapping[str, int], table: Machine) -> int:
    """Ingest jobs in a state between pending and the end."""
    return sum(jobs.get(state, 0) for state in work_states(table) if state != PENDING)

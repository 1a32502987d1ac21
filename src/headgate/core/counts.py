"""The counts, with the meaning of each. Status, doctor, metrics, API and dashboard show these and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


def _count(label: str, meaning: str) -> Any:
    return field(default=0, metadata={"label": label, "meaning": meaning})


class Meaning(NamedTuple):
    """The name of a count, and one sentence on what it counts."""

    label: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Counts:
    """The state of the store at one moment, in numbers. A chunk is counted once for its job, whatever that reads or
    makes.
    """

    locked_resources: int = _count(
        "locked resources",
        "Resources with at least one lock. A running chunk locks the chunks that it reads and makes.",
    )
    locks: int = _count("locks", "Locks that are held, those of running chunks included.")
    lock_waiters: int = _count("waiting for locks", "Places in the wait queues for locks.")
    chunks_running: int = _count("chunks running", "Chunks with a living claim.")
    claims_expired: int = _count(
        "claims expired", "Chunks that are RUNNING though the lease of their claim has expired: the worker died."
    )
    chunks_failed: int = _count("chunks failed", "Chunks in ERROR.")
    chunks_held: int = _count("chunks held", "Chunks in HOLD.")
    chunks_late: int = _count("chunks late", "Chunks that were expected, were not READY in time, and still are not.")
    jobs_paused: int = _count("jobs paused", "Paused jobs: they get no chunks until an operator resumes them.")
    batches: int = _count("batches", "Batches that are in the queue, finished ones included until they are cleaned up.")
    batches_held: int = _count("batches held", "Batches in the state held.")
    batches_failed: int = _count("batches failed", "Batches in the state failed.")
    ingest_jobs: int = _count(
        "ingest jobs", "Ingest jobs in the queue, finished ones included until they are cleaned up."
    )
    ingest_jobs_pending: int = _count("ingest jobs pending", "Ingest jobs that have not started.")
    ingest_jobs_running: int = _count("ingest jobs running", "Ingest jobs in a state between pending and the end.")
    ingest_jobs_held: int = _count("ingest jobs held", "Ingest jobs in the state held.")
    ingest_jobs_failed: int = _count("ingest jobs failed", "Ingest jobs in the state failed.")
    collections_held: int = _count("collections held", "Holds of a collection, or of the whole queue.")
    messages_undelivered: int = _count(
        "messages undelivered", "Mails and callbacks that have not been delivered so far."
    )
    failures_last_day: int = _count(
        "failures in the last day",
        "How often a chunk or ingest job failed, or a worker died on a chunk, in this hour and the 23 before it.",
    )


#: The counts by name.
MEANINGS: Mapping[str, Meaning] = {
    each.name: Meaning(each.metadata["label"], each.metadata["meaning"]) for each in fields(Counts)
}

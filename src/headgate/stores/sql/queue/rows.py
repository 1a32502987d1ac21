"""Conversion between rows of the queue and batches or ingest jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.core.daemons import Daemon
from headgate.core.queue.model import Batch, Hold, Identifiers, IngestJob, Item, JobCounts, Report, Submission, is_batch
from headgate.core.tables.states import BATCH, INGEST_JOB
from headgate.stores.sql.database.moments import micro, moment, to_seconds
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.queue import statements as sql


@dataclass(frozen=True, slots=True)
class Noun:
    """The storage of batches, or of ingest jobs."""

    #: Its name.
    name: str
    #: The prefix of an id.
    prefix: str
    sql: sql.ItemStatements
    read: Callable[[Row], Item]

    def read_taken(self, row: Row) -> Item:
        """The same for taken items, with the hold of their collection."""
        item = self.read(row[:-1])
        return item if row[-1] is None else replace(item, hold=str(row[-1]))

    def id_of(self, number: int) -> str:
        """The id of a number."""
        return f"{self.prefix}{number:010d}"


def number_of(item_id: str) -> int:
    """The number in an id."""
    return int(item_id[3:])


def noun_of(item_id: str) -> Noun:
    """The noun of an id."""
    return BATCHES if is_batch(item_id) else JOBS


def read_batch(row: Row) -> Batch:
    """A batch from its columns."""
    (number, state, profile, submitter, url, kind, mode, metadata, submit_id, message, since, processing, failed,
     completed, made, report, *rest) = row  # fmt: skip
    return Batch(
        id=BATCHES.id_of(number),
        state=str(state),
        submission=Submission(
            str(profile), str(submitter), str(url), str(kind), str(mode), json.loads(metadata), str(submit_id or "")
        ),
        message=str(message),
        since=moment(since),
        jobs=JobCounts(int(processing), int(failed), int(completed)),
        made=int(made),
        report=None if report is None else _read_report(str(report)),
        **_read_owner(rest),
    )


def read_job(row: Row) -> IngestJob:
    """A job from its columns."""
    (number, batch, state, last, retries, priority, space, identifiers, configuration, message, since,
     *rest) = row  # fmt: skip
    names = json.loads(identifiers)
    return IngestJob(
        id=JOBS.id_of(number),
        batch=BATCHES.id_of(batch),
        state=str(state),
        last_successful=None if last is None else str(last),
        retry_count=int(retries),
        priority=int(priority),
        space_needed=int(space),
        identifiers=Identifiers(names["primary"], tuple(names["local"])),
        configuration=json.loads(configuration),
        message=str(message),
        since=moment(since),
        **_read_owner(rest),
    )


def _read_owner(columns: Sequence[Any]) -> dict[str, Any]:
    """The last columns of an item: its crashes and its owner. An item with a dead owner is free."""
    crashes, former, worker, token, lease, left, principal = columns
    alive = left is not None and left > 0
    owner = {"worker": str(worker), "lease": to_seconds(lease), "principal": str(principal)} if alive else {}
    return {"token": int(token), "crashes": int(crashes), "former": str(former), **owner}


def dead_worker(row: Row) -> str | None:
    """The worker that took an item and died, from its columns; None: nobody did."""
    worker, _token, _lease, left, _principal = row[-5:]
    return str(worker) if left is not None and left <= 0 else None


def read_hold(row: Row) -> Hold:
    """A hold from its columns."""
    profile, reason, who, since = row
    return Hold(str(profile), str(reason), str(who), moment(since))


def document(value: object) -> str:
    """A document as it is stored."""
    return json.dumps(value, ensure_ascii=False)


def identifiers_document(names: Identifiers) -> str:
    """Identifiers as they are stored."""
    return document({"primary": names.primary, "local": list(names.local)})


def job_columns(job: IngestJob) -> dict[str, Any]:
    """The columns of a job that a transition may change."""
    return {
        "state": job.state, "last_successful": job.last_successful, "retry_count": job.retry_count,
        "priority": job.priority, "space_needed": job.space_needed, "profile": job.profile,
        "identifiers": identifiers_document(job.identifiers), "configuration": document(dict(job.configuration)),
        "message": job.message, "since": micro(job.since), "crashes": job.crashes, "former": job.former,
    }  # fmt: skip


def batch_columns(batch: Batch) -> dict[str, Any]:
    """The columns of a batch that a transition may change."""
    return {
        "state": batch.state, "message": batch.message, "since": micro(batch.since), "crashes": batch.crashes,
        "former": batch.former,
        "report": None if batch.report is None else _report_document(batch.report),
    }  # fmt: skip


def _report_document(report: Report) -> str:
    at = None if report.at is None else micro(report.at)
    return document({"failed": list(report.failed), "successful": list(report.successful), "at": at})


def read_daemon(row: Row) -> Daemon:
    """A daemon from its columns."""
    name, worker, steps, since, lease, left = row
    return Daemon(
        str(name), str(worker), tuple(str(steps).split()), to_seconds(lease) or 0.0, moment(since), to_seconds(left)
    )


def _read_report(text: str) -> Report:
    kept = json.loads(text)
    at = None if kept["at"] is None else moment(kept["at"])
    return Report(tuple(kept["failed"]), tuple(kept["successful"]), at)


BATCHES = Noun(BATCH.name, "bid", sql.BATCHES, read_batch)
JOBS = Noun(INGEST_JOB.name, "jid", sql.JOBS, read_job)

"""Lists of batches and of ingest jobs, filtered, page by page, and whole as files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from headgate.core.queue import Batch, IngestJob
from headgate.http.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.ingest_acts import path_of
from headgate.http.dashboard.tables import PORTION, ROWS, Column, Table, as_csv, cut, link, order_of, ordered, paged

router = page_router()
#: Filters of each list, beside `find`.
BATCH_FILTERS, JOB_FILTERS = ("state", "profile", "submitter"), ("state", "profile", "batch")
#: An id as people write it: with or without its zeros.
_ID = re.compile("(bid|jid)0*([0-9]{1,10})", re.IGNORECASE)

BATCHES: Mapping[str, Column] = {
    "id": Column("Batch", lambda batch: batch.id),
    "state": Column("State", lambda batch: batch.state),
    "profile": Column("Profile", lambda batch: batch.profile),
    "submitter": Column("Submitter", lambda batch: batch.submission.submitter),
    "completed": Column("Completed", lambda batch: batch.jobs.completed, numeric=True),
    "failed": Column("Failed", lambda batch: batch.jobs.failed, numeric=True),
    "made": Column("Jobs", lambda batch: batch.made, numeric=True),
    "since": Column("Since", lambda batch: batch.since),
    "message": Column("Why", lambda batch: batch.message),
}
JOBS: Mapping[str, Column] = {
    "id": Column("Job", lambda job: job.id),
    "state": Column("State", lambda job: job.state),
    "profile": Column("Profile", lambda job: job.profile),
    "batch": Column("Batch", lambda job: job.batch),
    "priority": Column("Priority", lambda job: job.priority, numeric=True),
    "size": Column("Size", lambda job: job.space_needed, numeric=True),
    "since": Column("Since", lambda job: job.since),
    "message": Column("Why", lambda job: job.message),
}
#: On the page of their batch, what is the same for all is left out.
BATCH_JOBS = {name: column for name, column in JOBS.items() if name not in ("profile", "batch")}
JOBS_IN_FILE = {
    **JOBS,
    "worker": Column("Worker", lambda job: job.worker),
    "retries": Column("Retries", lambda job: job.retry_count),
    "ark": Column("ARK", lambda job: job.identifiers.primary),
    "local": Column("Local ids", lambda job: "; ".join(job.identifiers.local)),
    "payload": Column("Payload", lambda job: job.configuration.get("payload_url")),
}


@router.get("/ingest/batches")
def batches(request: Request, gate: TheGate, who: Reader) -> Response:
    """Batches, by id."""
    query = dict(request.query_params)
    if place := found_at(query.get("find", "")):
        return RedirectResponse(place, 303)
    chosen = {name: query[name] for name in BATCH_FILTERS if query.get(name)}
    page = gate.queue.batches(**chosen, after=query.get("after") or None, limit=ROWS + 1)  # type: ignore[arg-type]
    rows, more = cut(page, lambda batch: batch.id)
    order = order_of(query, more)
    table = Table("batches", "Batches", BATCHES, ordered(rows, BATCHES, order), lambda batch: batch.id,
                  path="/ingest/batches", query=query, next=more, json=link("/v1/batches", chosen),
                  csv=link("/ingest/batches.csv", chosen), order=order)  # fmt: skip
    states = [state for state in gate.queue.tables()[0].states if state != "new"]
    return render(request, "ingest_batches.html", who, title="Batches", table=table, states=states, path_of=path_of,
                  filtered=bool(chosen))  # fmt: skip


@router.get("/ingest/batches.csv")
def batches_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The same as a file, whole."""
    chosen = {name: request.query_params[name] for name in BATCH_FILTERS if request.query_params.get(name)}

    def ask(after: str | None) -> list[Batch]:
        return list(gate.queue.batches(**chosen, after=after, limit=PORTION))  # type: ignore[arg-type]

    return as_csv("batches", BATCHES, paged(ask, lambda batch: batch.id))


@router.get("/ingest/jobs")
def jobs(request: Request, gate: TheGate, who: Reader) -> Response:
    """Ingest jobs, by id."""
    query = dict(request.query_params)
    if place := found_at(query.get("find", "")):
        return RedirectResponse(place, 303)
    chosen = {name: query[name] for name in JOB_FILTERS if query.get(name)}
    page = gate.queue.jobs(**chosen, after=query.get("after") or None, limit=ROWS + 1)  # type: ignore[arg-type]
    rows, more = cut(page, lambda job: job.id)
    order = order_of(query, more)
    table = Table("jobs", "Ingest jobs", JOBS, ordered(rows, JOBS, order), lambda job: job.id,
                  path="/ingest/jobs", query=query, next=more, json=link("/v1/ingest-jobs", chosen),
                  csv=link("/ingest/jobs.csv", chosen), order=order)  # fmt: skip
    states = [state for state in gate.queue.tables()[1].states if state != "new"]
    return render(request, "ingest_jobs.html", who, title="Ingest jobs", table=table, states=states, path_of=path_of,
                  filtered=bool(chosen))  # fmt: skip


@router.get("/ingest/jobs.csv")
def jobs_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The same as a file, whole."""
    chosen = {name: request.query_params[name] for name in JOB_FILTERS if request.query_params.get(name)}

    def ask(after: str | None) -> list[IngestJob]:
        return list(gate.queue.jobs(**chosen, after=after, limit=PORTION))  # type: ignore[arg-type]

    return as_csv("ingest-jobs", JOBS_IN_FILE, paged(ask, lambda job: job.id))


def found_at(text: str) -> str:
    """The page of what somebody looks for: an id's own, the objects of an ARK or local id; empty: nothing is."""
    text = text.strip()
    if found := _ID.fullmatch(text):
        return path_of(f"{found[1].lower()}{int(found[2]):010d}")
    if not text:
        return ""
    return link("/ingest/objects", {"ark" if text.startswith("ark:") else "local": text})

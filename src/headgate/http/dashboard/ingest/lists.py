"""Lists of batches and of ingest jobs, filtered, page by page, and complete as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from headgate.core.queue.model import Item, for_readers
from headgate.core.queue.titles import file_name_of, title_of
from headgate.core.tables.machine import Machine
from headgate.http.access.auth import Caller, Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.ingest.acts import path_of
from headgate.http.dashboard.tables import PORTION, ROWS, Column, Table, as_csv, cut, link, order_of, ordered, paged
from headgate.service.queue.use_cases import Queue

router = page_router()
#: An id with or without its zeros.
_ID = re.compile("(bid|jid)0*([0-9]{1,10})", re.IGNORECASE)

BATCHES: Mapping[str, Column] = {
    "id": Column("Batch", lambda batch: batch.id),
    "name": Column("Title and file", lambda batch: title_of(batch) or file_name_of(batch)),
    "state": Column("State", lambda batch: batch.state),
    "profile": Column("Profile", lambda batch: batch.profile),
    "submitter": Column("Submitter", lambda batch: batch.submission.submitter),
    "jobs": Column("Jobs", lambda batch: batch.made),
    "since": Column("Since", lambda batch: batch.since),
    "message": Column("Why", lambda batch: batch.message),
}
BATCHES_IN_FILE = {
    **BATCHES,
    "name": Column("Title", title_of),
    "file": Column("File", file_name_of),
    "completed": Column("Completed", lambda batch: batch.jobs.completed),
    "failed": Column("Failed", lambda batch: batch.jobs.failed),
}
JOBS: Mapping[str, Column] = {
    "id": Column("Job", lambda job: job.id),
    "name": Column("Title and file", lambda job: title_of(job) or file_name_of(job)),
    "state": Column("State", lambda job: job.state),
    "profile": Column("Profile", lambda job: job.profile),
    "batch": Column("Batch", lambda job: job.batch),
    "priority": Column("Priority", lambda job: job.priority, numeric=True),
    "size": Column("Size", lambda job: job.space_needed, numeric=True),
    "since": Column("Since", lambda job: job.since),
    "message": Column("Why", lambda job: job.message),
}
#: On the page of their batch, columns with the same value for all are left out.
BATCH_JOBS = {name: column for name, column in JOBS.items() if name not in ("profile", "batch")}
JOBS_IN_FILE = {
    **JOBS,
    "name": Column("Title", title_of),
    "file": Column("File", file_name_of),
    "worker": Column("Worker", lambda job: job.worker),
    "retries": Column("Retries", lambda job: job.retry_count),
    "crashes": Column("Workers that died", lambda job: job.crashes),
    "ark": Column("ARK", lambda job: job.identifiers.primary),
    "local": Column("Local ids", lambda job: "; ".join(job.identifiers.local)),
    "payload": Column("Payload", lambda job: for_readers(job).configuration.get("payload_url")),
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of the queue: a page of it, and all of it as a file."""

    #: Its name in the page's address and in the template's.
    name: str
    title: str
    #: The filters, besides `find`.
    filters: tuple[str, ...]
    columns: Mapping[str, Column]
    file_columns: Mapping[str, Column]
    #: The names of these filters in the API.
    api: str
    #: The function that reads it, and the table of its states.
    ask: Callable[[Queue], Callable[..., Sequence[Item]]]
    table_of: Callable[[Queue], Machine]

    def chosen(self, query: Mapping[str, str]) -> dict[str, str]:
        """The filters in an address."""
        return {name: query[name] for name in self.filters if query.get(name)}


BATCH_LIST = Listing(
    "batches", "Batches", ("state", "profile", "submitter"), BATCHES, BATCHES_IN_FILE, "/v1/batches",
    lambda queue: queue.batches, lambda queue: queue.tables()[0],
)  # fmt: skip
JOB_LIST = Listing(
    "jobs", "Ingest jobs", ("state", "profile", "batch"), JOBS, JOBS_IN_FILE, "/v1/ingest-jobs",
    lambda queue: queue.jobs, lambda queue: queue.tables()[1],
)  # fmt: skip


@router.get("/ingest/batches")
def batches(request: Request, gate: TheGate, who: Reader) -> Response:
    """Batches, by id."""
    return _page(BATCH_LIST, request, gate.queue, who)


@router.get("/ingest/batches.csv")
def batches_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The complete list as a file."""
    return _file(BATCH_LIST, request, gate.queue)


@router.get("/ingest/jobs")
def jobs(request: Request, gate: TheGate, who: Reader) -> Response:
    """Ingest jobs, by id."""
    return _page(JOB_LIST, request, gate.queue, who)


@router.get("/ingest/jobs.csv")
def jobs_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The complete list as a file."""
    return _file(JOB_LIST, request, gate.queue)


def _page(listing: Listing, request: Request, queue: Queue, who: Caller) -> Response:
    query = dict(request.query_params)
    if place := found_at(query.get("find", "")):
        return RedirectResponse(place, 303)
    chosen = listing.chosen(query)
    page = listing.ask(queue)(**chosen, after=query.get("after") or None, limit=ROWS + 1)
    rows, more = cut(page, _id_of)
    order, path = order_of(query, more), f"/ingest/{listing.name}"
    table = Table(
        listing.name, listing.title, listing.columns, ordered(rows, listing.columns, order), _id_of, path=path,
        query=query, next=more, json=link(listing.api, chosen), csv=link(f"{path}.csv", chosen), order=order,
    )  # fmt: skip
    machine = listing.table_of(queue)
    states = [state for state in machine.states if state != machine.start]
    return render(request, f"ingest_{listing.name}.html", who, title=listing.title, table=table, states=states,
                  path_of=path_of, filtered=bool(chosen))  # fmt: skip


def _file(listing: Listing, request: Request, queue: Queue) -> Response:
    chosen = listing.chosen(request.query_params)

    def ask(after: str | None) -> Sequence[Item]:
        return listing.ask(queue)(**chosen, after=after, limit=PORTION)

    return as_csv(listing.api.rpartition("/")[2], listing.file_columns, paged(ask, _id_of))


def _id_of(item: Item) -> str:
    return item.id


def found_at(text: str) -> str:
    """Return the page for a search: that of an id, or the objects with an ARK or local id; empty: nothing was found."""
    text = text.strip()
    if found := _ID.fullmatch(text):
        return path_of(f"{found[1].lower()}{int(found[2]):010d}")
    if not text:
        return ""
    return link("/ingest/objects", {"ark" if text.startswith("ark:") else "local": text})

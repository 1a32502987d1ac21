"""The chunk grid: data ids x datasets. Many data ids are shown as spans, which lead to smaller ones and to chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response

from headgate.core.ledger.census import Span
from headgate.core.ledger.expectations.model import LATE
from headgate.core.ledger.fan import FanIn
from headgate.core.ledger.flow import edges_of, flow_order, made_from
from headgate.core.ledger.model import DONE, ERROR, EXTERNAL, HOLD, PENDING, READY, RESUBMIT, RUNNING, Job, Kind, Row
from headgate.core.ledger.ordering import order_key
from headgate.gate import Gate
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.pipeline.pages import chunk_page
from headgate.http.dashboard.pipeline.selected import PICK, bulk_form
from headgate.http.dashboard.tables import Column, Table, as_csv, link, ordered
from headgate.http.dashboard.words import some
from headgate.service.ledger import census

router = page_router()
#: Number of data ids in a span, from 1 up; and number of spans on a page.
SIZES: Mapping[int, int] = {1: 50, 50: 20, 1000: 20}
#: Number of datasets that are shown side by side; if there are more, those around the chosen one.
COLUMNS = census.MOST_BESIDE + 1
#: Number of rows in a list of chunks.
LISTED = 50
#: Number of late chunks that the grid marks.
MOST_LATE = 50
FILTERS = ("dataset", "from", "status", "job")
STATUSES = (ERROR, HOLD, RUNNING, RESUBMIT, PENDING, READY, DONE)

CHUNKS: Mapping[str, Column] = {
    "dataid": Column("Data id", lambda row: row.dataid),
    "dataset": Column("Dataset", lambda row: row.dataset),
    "job": Column("Job", lambda row: row.job),
    "status": Column("Status", lambda row: row.status),
    "since": Column("Since", lambda row: row.since),
    "attempt": Column("Attempt", lambda row: row.attempt, numeric=True),
    "message": Column("Worker and message", lambda row: row.message),
}
IN_FILE = {
    **CHUNKS,
    "worker": Column("Worker", lambda row: row.worker),
    "message": Column("Message", lambda row: row.message),
}


@router.get("/pipeline/grid")
def grid(request: Request, gate: TheGate, who: Reader) -> Response:
    """Chunks: the grid, or with a status or a job the list of matching chunks."""
    query = dict(request.query_params)
    datasets, jobs = gate.ledger.datasets(), gate.ledger.jobs()
    names = flow_order(datasets, jobs)
    chosen = {name: query[name] for name in FILTERS if query.get(name)}
    fields = [
        ("dataset", "Dataset", names), ("from", "Data ids from", ""), ("status", "Status", list(STATUSES)),
        ("job", "Job", [job.name for job in jobs]),
    ]  # fmt: skip
    shown: dict[str, Any] = {"fields": fields, "filtered": bool(chosen), "table": None, "listed": None, "form": None}
    summary = "No datasets"
    if "status" in chosen or "job" in chosen:
        shown["form"] = form = bulk_form(
            who, link("/pipeline/grid", query), **{name: chosen.get(name, "") for name in ("job", "status", "dataset")},
            all="" if "from" in chosen else "All chunks that match the filters, on every page",
        )  # fmt: skip
        shown["listed"] = listed = _list(gate, names, jobs, chosen, query, {"pick": PICK} if form else {})
        summary = f"{some(len(listed.rows), 'chunk')} shown"
    elif names:
        chosen = {"dataset": main_dataset(gate, names, jobs), **chosen}
        shown["table"] = table = _grid(gate, names, chosen, query)
        what = "data id" if table.query["size"] == "1" else "range"
        left_out = len(names) + 1 - len(table.columns)
        summary = f"{some(len(table.rows), what)} of {chosen['dataset']}, in {some(len(names) - left_out, 'dataset')}"
        summary += f" of {len(names)}: choose another one to see its neighbours" if left_out else ""
    return render(request, "grid.html", who, title="Chunks", summary=summary, page_of=chunk_page, narrower=_narrower,
                  makers=_makers(jobs), lead=chosen.get("dataset", ""),
                  fans=_fans(gate, jobs, chosen.get("dataset", ""), shown["table"]),
                  late=_late(gate, chosen.get("dataset", "")), late_kind=LATE, **shown)  # fmt: skip


def main_dataset(gate: Gate, names: Sequence[str], jobs: Sequence[Job]) -> str:
    """The dataset that the grid shows first: among those with chunks, the one that most others are made from.

    If several are equal, the one with the most chunks; then the first in the flow.
    """
    chunks: Counter[str] = Counter()
    for tally in census.tallies(gate.ledger):
        chunks[tally.dataset] += tally.count if tally.kind is Kind.OUTPUT else 0
    edges = edges_of(jobs)
    return max(names, key=lambda name: (chunks[name] > 0, len(made_from(name, edges)), chunks[name]))


# ---------------------------------------------------------------- the grid


def _grid(gate: Gate, names: Sequence[str], chosen: Mapping[str, str], query: Mapping[str, str]) -> Table:
    lead = chosen["dataset"]
    shown = _window(names, lead)
    beside = [name for name in shown if name != lead]
    start = query.get("after") or chosen.get("from")
    size = _size(gate, lead, start, query)
    most = SIZES[size]
    found = census.spans(
        gate.ledger, lead, beside, start=start, last=query.get("last") or None, size=size, limit=most + 1
    )
    columns = {"ids": Column(f"Data ids of {lead}", lambda span: span.first)}
    columns |= {f"in-{name}": Column(name, lambda _span: None) for name in shown}
    asked = urlencode([("dataset", lead), ("size", size), *(("beside", name) for name in beside)])
    return Table(
        "grid", "Chunks by data id and dataset", columns, found[:most], lambda span: quote(span.first, safe=""),
        path="/pipeline/grid", query={**query, "dataset": lead, "size": str(size)}, fixed=True,
        next=found[most].first if len(found) > most else None, json=f"/v1/chunks/spans?{asked}",
    )  # fmt: skip


def _window(names: Sequence[str], lead: str) -> Sequence[str]:
    """The columns, in flow order: all datasets, or as many as fit around the chosen one."""
    if lead not in names:
        return [lead, *names[: COLUMNS - 1]]
    begin = max(min(names.index(lead) - COLUMNS // 2, len(names) - COLUMNS), 0)
    return names[begin : begin + COLUMNS]


def _size(gate: Gate, lead: str, start: str | None, query: Mapping[str, str]) -> int:
    """The one in the address; else the smallest with which everything fits on a page."""
    if query.get("size", "").isdigit() and int(query["size"]) in SIZES:
        return int(query["size"])
    for size in (1, 50):
        found = census.spans(gate.ledger, lead, start=start, size=size, limit=SIZES[size] + 1)
        if len(found) <= SIZES[size]:
            return size
    return max(SIZES)


def _narrower(span: Span, table: Table) -> str:
    """The same span divided into smaller ones."""
    smaller = max(size for size in SIZES if size < int(table.query["size"]))
    return link("/pipeline/grid", {"dataset": table.query["dataset"]}, after=span.first, last=span.last,
                size=str(smaller))  # fmt: skip


def _fans(gate: Gate, jobs: Sequence[Job], lead: str, table: Table | None) -> Mapping[tuple[str, str], FanIn]:
    """For single data ids: the needs for mapped inputs, by data id and input."""
    maker = next((job for job in jobs if job.mapped and lead in job.outputs), None)
    dataids = [span.first for span in table.rows if span.first == span.last] if table and maker else []
    if maker is None or not dataids:
        return {}
    found = gate.ledger.fan_in(maker.name, dataids, 1)
    return {(each.dataid, each.dataset): each for each in found if each.dataset in maker.maps}


def _late(gate: Gate, lead: str) -> set[tuple[str, str]]:
    """The oldest late chunks, by dataset and data id, including those of the chosen dataset."""
    if not any(each.late for each in gate.expectations.lateness()):
        return set()
    found = [*gate.expectations.late(limit=MOST_LATE), *(gate.expectations.late(lead, limit=MOST_LATE) if lead else ())]
    return {(each.dataset, each.dataid) for each in found}


def _makers(jobs: Sequence[Job]) -> dict[str, str]:
    """The job that makes a dataset."""
    return {name: job.name for job in jobs for name in job.makes}


# ---------------------------------------------------------------- lists


def _list(
    gate: Gate, names: Sequence[str], jobs: Sequence[Job], chosen: Mapping[str, str], query: Mapping[str, str],
    first: Mapping[str, Column],
) -> Table:  # fmt: skip
    rows, more = listed(gate, names, jobs, chosen, query.get("after", ""))
    order = query.get("sort", "") if more is None and "after" not in query else ""
    asked = {name: chosen[name] for name in ("dataset", "status", "job") if name in chosen}
    return Table(
        "chunks", "Chunks", {**first, **CHUNKS}, ordered(rows, CHUNKS, order), _key, path="/pipeline/grid", query=query,
        next=more, order=order, json=link("/v1/chunks", asked), csv=link("/pipeline/chunks.csv", chosen),
    )  # fmt: skip


@router.get("/pipeline/chunks.csv")
def chunks_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The complete list as a file."""
    chosen = {name: request.query_params[name] for name in FILTERS if request.query_params.get(name)}
    jobs = gate.ledger.jobs()
    names = flow_order(gate.ledger.datasets(), jobs)

    def rows() -> Iterator[Row]:
        cursor: str | None = ""
        while cursor is not None:
            found, cursor = listed(gate, names, jobs, chosen, cursor)
            yield from found

    return as_csv("chunks", IN_FILE, rows())


def _key(row: Row) -> str:
    return quote(f"{row.dataset}/{row.dataid}/{row.job}", safe="/")


def listed(
    gate: Gate, names: Sequence[str], jobs: Sequence[Job], chosen: Mapping[str, str], cursor: str = ""
) -> tuple[list[Row], str | None]:
    """Chunks with a status or of a job, dataset by dataset; and where the next page begins."""
    begun, _, behind = cursor.partition("/")
    names = [name for name in names if chosen.get("dataset", name) == name]
    rows: list[Row] = []
    for name in names[names.index(begun) if begun in names else 0 :]:
        after = behind if name == begun else None
        rows += _rows_of(gate, name, jobs, chosen, after, LISTED + 1 - len(rows))
        if len(rows) > LISTED:
            cut = (
                rows[LISTED].dataset,
                rows[LISTED].dataid,
            )  # Several jobs may have a row there: the next page shows all.
            rows = [row for row in rows[:LISTED] if (row.dataset, row.dataid) != cut] or rows[:LISTED]
            return rows, f"{rows[-1].dataset}/{rows[-1].dataid}"
    return rows, None


def _rows_of(
    gate: Gate, dataset: str, jobs: Sequence[Job], chosen: Mapping[str, str], after: str | None, limit: int
) -> list[Row]:
    """For one dataset: whether the status is kept there. By job for rare statuses: the index begins with it."""
    status = chosen.get("status")
    whose: list[tuple[str | None, Kind]] = [(None, Kind.OUTPUT)]
    if status not in (None, READY) or "job" in chosen:
        # A chunk is listed once, however many datasets its job makes, unless one of them was chosen.
        whose = [
            (job.name, job.counted)
            for job in jobs
            if dataset in ((job.outputs or job.inputs) if "dataset" in chosen else [job.first])
        ]
        whose = [(EXTERNAL, Kind.OUTPUT), *whose]
    found: list[Row] = []
    for job, kind in whose:
        if chosen.get("job") in (None, job):
            found += _rows(gate, {"dataset": dataset, "job": job, "kind": kind, "status": status}, after, limit, chosen)
    if len(whose) > 1:
        order = next(each.order for each in gate.ledger.datasets() if each.name == dataset)
        found.sort(key=lambda row: order_key(row.dataid, order))
    return found[:limit]


def _rows(gate: Gate, which: dict[str, Any], after: str | None, limit: int, chosen: Mapping[str, str]) -> Sequence[Row]:
    """Rows after a data id; the first page may begin with one, which is included."""
    start = chosen.get("from") if after is None else None
    first = gate.ledger.status(**which, dataid=start) if start else ()
    return [*first, *gate.ledger.status(**which, after=after or start, limit=limit)]

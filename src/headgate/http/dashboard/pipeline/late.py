"""Late chunks: data that is expected and missing, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response

from headgate.gate import Gate
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.pipeline.pages import chunk_page
from headgate.http.dashboard.tables import ROWS, Column, Table, cut, link, order_of, ordered

router = page_router()
PATH = "/pipeline/late"
COLUMNS: Mapping[str, Column] = {
    "dataset": Column("Dataset", lambda each: each.dataset),
    "dataid": Column("Data id", lambda each: each.dataid),
    "expected": Column("Expected", lambda each: each.expected),
    "due": Column("Late since", lambda each: each.due),
    "status": Column("Status", lambda each: each.status),
    "reason": Column("Why", lambda each: each.reason),
}


@router.get(PATH)
def late(request: Request, gate: TheGate, who: Reader) -> Response:
    """Late chunks, the oldest first; and what every dataset with an expectation expects next."""
    query = dict(request.query_params)
    after, chosen = query.get("after", ""), query.get("dataset") or None
    page = gate.expectations.late(chosen, after=int(after) if after.isdecimal() else None, limit=ROWS + 1)
    rows, more = cut(page, lambda each: each.id)
    order = order_of(query, more)
    table = Table(
        "late", "Late chunks", COLUMNS, ordered(rows, COLUMNS, order), lambda each: each.id, path=PATH, query=query,
        next=more, order=order, json=link("/v1/late", {"dataset": chosen} if chosen else {}),
    )  # fmt: skip
    standing = gate.expectations.lateness()
    names = [each.dataset for each in standing]
    return render(
        request, "late.html", who, title="Late chunks", table=table, filtered=bool(chosen), datasets=names,
        standing=standing, makers=makers_of(gate), page_of=chunk_page,
    )  # fmt: skip


def makers_of(gate: Gate) -> dict[str, str]:
    """The job that makes a dataset."""
    return {name: job.name for job in gate.ledger.jobs() for name in job.outputs}

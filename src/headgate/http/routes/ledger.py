"""The ledger over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headgate.core.errors import UnknownName
from headgate.core.ledger.census import Span
from headgate.core.ledger.model import Dataset, Port, Row
from headgate.core.ledger.progress import JobProgress
from headgate.core.values.wire import plain
from headgate.http.api.handlers import SHOWN, ApiCall, Handlers
from headgate.http.waiters.waiting import followed
from headgate.operations import ledger
from headgate.operations.declaring import Page
from headgate.service.ledger import census

handlers = Handlers(ledger.declared)


SHOWN[Dataset, False] = lambda dataset, _who: dataset.to_document()
SHOWN[ledger.JobFound, False] = lambda found, _who: {
    "job": plain(found.job), "datasets": [each.to_document() for each in found.datasets]
}  # fmt: skip


# ---------------------------------------------------------------- definitions


@handlers.of(ledger.dataset)
def dataset(call: ApiCall, *, name: str) -> Dataset:
    """By its name."""
    found = next((each for each in call.gate.ledger.datasets() if each.name == name), None)
    if found is None:
        raise UnknownName("dataset", name)
    return found


@handlers.of(ledger.connections)
def connections(call: ApiCall, *, job: str) -> dict[str, dict[str, Port]]:
    """Sealed secrets are shown to callers that may read them."""
    found = call.gate.ledger.connections(job, key="")
    if call.who.reach.covers("cred:read", job):
        return found
    return {
        side: {name: replace(port, sealed={}) for name, port in ports.items()} for side, ports in found.items()
    }  # fmt: skip


# ---------------------------------------------------------------- data


@handlers.of(ledger.chunks)
def chunks(call: ApiCall, *, dataset: str | None, after: str | None, limit: int, **which: Any) -> Page[Row]:
    """Whole data ids."""
    return Page(*census.rows_page(call.gate.ledger, dataset, after, limit, which))


@handlers.of(ledger.spans)
def spans(call: ApiCall, *, beside: list[str] | None, start: str | None, after: str | None, **which: Any) -> Page[Span]:
    """The cursor is the start of the next span."""
    return Page(*census.spans_page(call.gate.ledger, beside=beside or (), start=after or start, **which))


@handlers.of(ledger.progress)
async def progress(call: ApiCall, *, job: str, dataids: Sequence[str], left: int | None, wait: float) -> JobProgress:
    """With `wait`, wait without a thread."""
    return await followed(call.request, call.gate.ledger.following(job, dataids, left=left), wait)


@handlers.of(ledger.plan)
def plan(call: ApiCall, *, job: str, limit: int) -> Page[ledger.Planned]:
    """The next chunks, then the blocked ones."""
    found = call.gate.ledger.plan(job, limit)
    return Page(
        [
            ledger.Planned(each.job, each.dataid, each.granted, each.first, each.conditions)
            for each in (*found.next, *found.blocked)
        ]
    )


# ---------------------------------------------------------------- support


@handlers.of(ledger.unpause)
def unpause(call: ApiCall, *, job: str, reason: str, by: str) -> Any:
    """A reason is accepted, but not required."""
    del reason
    return call.gate.ledger.unpause(job, by=by)

"""Ingest: batches and jobs by state, holds, and the page of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from headgate.core.errors import UnknownName
from headgate.core.inventory import Message
from headgate.core.logs import Log
from headgate.core.queue.model import FAILED, Item
from headgate.core.tables.machine import Also, By, Machine
from headgate.core.values.wire import plain
from headgate.gate import Gate
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.ingest.acts import acts_of, batch_of, job_of, path_of
from headgate.http.dashboard.ingest.lists import BATCH_JOBS
from headgate.http.dashboard.ingest.refresh import frozen_in, resume_acts
from headgate.http.dashboard.tables import ROWS, Column, Table, cut, link, order_of, ordered
from headgate.http.dashboard.words import some
from headgate.service.queue.progress import progress_of, worked_on

router = page_router()
#: Number of cards of a state on the board.
CARDS = 4
#: Number of history entries on an item's page.
TOLD = 50
FAILED_FILES: Mapping[str, Column] = {
    "name": Column("File", lambda file: file.get("name")),
    "why": Column("Why", lambda file: file.get("why")),
    "tries": Column("Tries", lambda file: file.get("tries"), numeric=True),
}
MESSAGES: Mapping[str, Column] = {
    "kind": Column("Message", lambda message: message.kind.value),
    "state": Column("Delivery", lambda message: message.state.value),
    "tries": Column("Tries", lambda message: message.tries, numeric=True),
    "problem": Column("Problem", lambda message: message.problem),
}


class StateLane(NamedTuple):
    """A state on the board."""

    state: str
    size: int
    #: The oldest few.
    cards: Sequence[Item]
    #: The link to all of them, as a list.
    href: str
    #: These wait for an operator.
    stuck: bool

    @property
    def more(self) -> int:
        """Number of items without a card."""
        return max(self.size - len(self.cards), 0)


@router.get("/ingest")
def board(request: Request, gate: TheGate, who: Reader) -> Response:
    """All unfinished items, by state; stuck ones come first."""
    queue = gate.queue
    counts, (batches, jobs) = queue.counts(), queue.tables()
    holds = queue.holds()
    job_lanes = lanes(jobs, counts, "/ingest/jobs", lambda state: queue.jobs(state, limit=CARDS))
    batch_lanes = lanes(batches, counts, "/ingest/batches", lambda state: queue.batches(state, limit=CARDS))
    boards = [("jobs", "Ingest jobs", list(job_lanes)), ("batches", "Batches", list(batch_lanes))]
    return render(request, "ingest.html", who, title="Ingest", boards=boards, holds=holds, path_of=path_of,
                  summary=summary_of(counts, len(holds)))  # fmt: skip


def lanes(
    machine: Machine, counts: Mapping[str, Mapping[str, int]], path: str, ask: Callable[[str], Sequence[Item]]
) -> Iterator[StateLane]:
    """The states of a table: failed ones, others that wait for an operator, then the rest in order."""
    counted = counts.get(machine.name, {})
    # A state in which an operator may only take an item from its consumer does not wait for an operator.
    stuck = {row.source for row in machine.rows if row.by is By.OPERATOR and Also.DROP_OWNER not in row.also}
    kept = [
        state
        for state in machine.states
        if state != machine.start and (state not in machine.ends or counted.get(state))
    ]
    for state in sorted(kept, key=lambda state: (state != FAILED, state not in stuck)):
        count = counted.get(state, 0)
        yield StateLane(state, count, ask(state) if count else (), link(path, {"state": state}), state in stuck)


def summary_of(counts: Mapping[str, Mapping[str, int]], holds: int) -> str:
    """A summary of the queue in one line."""
    jobs, batches = counts.get("ingest job", {}), counts.get("batch", {})
    return (
        f"{some(sum(jobs.values()), 'job')} in {some(sum(batches.values()), 'batch', 'batches')}, "
        f"{jobs.get(FAILED, 0):,} failed, {some(holds, 'collection')} held"
    )


@router.get("/ingest/batch/{bid}")
def batch(request: Request, gate: TheGate, who: Reader, bid: str) -> Response:
    """One batch: its jobs, progress, report and history."""
    try:
        found = batch_of(gate.queue, bid)
    except UnknownName:
        return _gone(gate, bid)
    query = dict(request.query_params)
    chosen = {"batch": bid, **({"state": query["state"]} if query.get("state") else {})}
    page = gate.queue.jobs(chosen.get("state"), batch=bid, after=query.get("after") or None, limit=ROWS + 1)
    rows, more = cut(page, lambda job: job.id)
    order = order_of(query, more)
    jobs = Table(
        "jobs", f"Jobs of {bid}", BATCH_JOBS, ordered(rows, BATCH_JOBS, order), lambda job: job.id, path=path_of(bid),
        query=query, next=more,
        order=order, json=link("/v1/ingest-jobs", chosen), csv=link("/ingest/jobs.csv", chosen),
    )  # fmt: skip
    messages = Table("messages", "Messages", MESSAGES, _messages(gate, bid), lambda message: message.id)
    machine = gate.queue.tables()[1]
    states = [state for state in machine.states if state != machine.start]
    acts = [*resume_acts(found, frozen_in(gate, found)), *acts_of(gate.queue, found)]
    return render(
        request, "batch.html", who, title=f"Batch {bid}", batch=found, jobs=jobs, messages=messages, states=states,
        acts=acts, under_way=worked_on(gate.queue, bid), filtered="state" in chosen,
        entries=gate.history(item=bid, limit=TOLD), submitted=_pairs(found.submission.metadata), path_of=path_of,
        summary=f"{bid} is {found.state}: {found.jobs.completed:,} of {some(found.made, 'job')} completed, "
                f"{found.jobs.failed:,} failed",
    )  # fmt: skip


@router.get("/ingest/job/{jid}")
def job(request: Request, gate: TheGate, who: Reader, jid: str) -> Response:
    """One ingest job: its state and the reason, its files, names and history."""
    try:
        found = job_of(gate.queue, jid)
    except UnknownName:
        return _gone(gate, jid)
    failed = found.configuration.get("failed_files") or []
    files = Table(
        "files", "Files that could not be downloaded", FAILED_FILES, failed[:ROWS], lambda file: file.get("name")
    )
    settings = {name: value for name, value in found.configuration.items() if name not in ("failed_files", "batch_id")}
    kept = frozen_in(gate, found)
    return render(
        request, "ingest_job.html", who, title=f"Ingest job {jid}", job=found, files=files,
        acts=[*resume_acts(found, kept), *acts_of(gate.queue, found)], progress=progress_of(found),
        settings=_pairs(settings), frozen=kept.sentences if kept else [],
        entries=gate.history(item=jid, limit=TOLD), logs=_logs(gate, jid),
        failed_files=len(failed), can_place=found.state not in gate.queue.tables()[1].ends, path_of=path_of,
        summary=f"{jid} is {found.state}",
    )  # fmt: skip


def _gone(gate: Gate, item: str) -> Response:
    """Deleted and cleaned-up items still have a history; items that never existed are unknown."""
    if not gate.history(item=item, limit=1):
        raise UnknownName("batch or ingest job", item)
    return RedirectResponse(link("/history", {"item": item}), 303)


def _messages(gate: Gate, item: str) -> Sequence[Message]:
    return gate.inventory.messages(item)[:ROWS] if gate.keeps_inventory else ()


def _logs(gate: Gate, item: str) -> Sequence[Log]:
    """The logs of its steps; none for a caller with a limited view, because they belong to no profile."""
    return gate.inventory.logs(item, limit=ROWS) if gate.keeps_inventory and not gate.sight else ()


def _pairs(values: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The messages in order, without empty ones."""
    return [(name, str(plain(value))) for name, value in values.items() if value not in (None, "", [], {})]

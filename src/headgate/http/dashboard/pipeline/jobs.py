"""A job of the pipeline: its inputs and outputs, failures with reasons, next chunks; and pausing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fastapi import Request, Response

from headgate.core.ledger.model import ERROR, HOLD, RUNNING, Job, Row
from headgate.gate import Gate
from headgate.http.access.auth import Operator, Reader, TheGate, TheService
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.pipeline.pages import chunk_page, job_page
from headgate.http.dashboard.pipeline.selected import PICK, bulk_form
from headgate.http.dashboard.tables import Column, Table, link
from headgate.http.dashboard.words import some
from headgate.service.ledger.questions import LEFT_MOST
from headgate.service.overview.counts import job_counts, job_in_words

router = page_router()
#: Maximum length of each list.
LISTED = 20
#: The number of chunks that a job would take next.
AHEAD = 10
Pausing = Literal["pause", "unpause"]

AT_WORK: Mapping[str, Column] = {
    "dataid": Column("Data id", lambda row: row.dataid),
    "worker": Column("Worker", lambda row: row.worker),
    "since": Column("Since", lambda row: row.since),
    "lease": Column("Lease", lambda row: row.expires_in),
    "attempt": Column("Attempt", lambda row: row.attempt, numeric=True),
}
STOPPED: Mapping[str, Column] = {
    "dataid": Column("Data id", lambda row: row.dataid),
    "status": Column("Status", lambda row: row.status),
    "since": Column("Since", lambda row: row.since),
    "failures": Column("Failures", lambda row: row.failures, numeric=True),
    "message": Column("Why", lambda row: row.message),
}


@router.get("/pipeline/jobs/{job}")
def job(request: Request, gate: TheGate, who: Reader, job: str) -> Response:
    """One job."""
    found, datasets = gate.ledger.job(job)
    running, failed, held = (rows_with(gate, found, status) for status in (RUNNING, ERROR, HOLD))
    plan = gate.ledger.plan(job, AHEAD)
    summary = job_in_words(job_counts(gate.ledger, job))
    form = bulk_form(
        who, job_page(job), job=job, status=f"{ERROR},{HOLD}", all="All that failed or are held, on every page"
    )
    columns = {"pick": PICK, **STOPPED} if form else STOPPED
    return render(
        request, "job.html", who, title=f"Job {job}", job=found, datasets=datasets, summary=summary, plan=plan,
        form=form,
        at_work=Table("running", "Running chunks", AT_WORK, running[:LISTED], lambda row: row.dataid),
        stopped=Table("stopped", "Failed and held chunks", columns, [*failed, *held][:LISTED],
                      lambda row: row.dataid, json=link("/v1/chunks", {"job": job, "status": ERROR})),
        more=len(failed) + len(held) > LISTED, here=job_page(job), page_of=chunk_page,
    )  # fmt: skip


@router.get("/pipeline/jobs/{job}/{how}")
def ask_to_pause(request: Request, gate: TheGate, who: Operator, job: str, how: Pausing) -> Response:
    """The effect of pausing or resuming it."""
    return ask(request, who, pausing(gate, job, how))


@router.post("/pipeline/jobs/{job}/{how}")
async def pause(request: Request, service: TheService, who: Operator, job: str, how: Pausing) -> Response:
    """Pause or resume it, as the API does."""
    gate = service.gate

    def do(reason: str) -> str:
        if how == "pause":
            gate.ledger.pause(job, reason=reason, by=who.by())
            return f"Job {job} is paused: {reason}."
        gate.ledger.unpause(job, by=who.by())
        return f"Job {job} is running again."

    return await act(request, who, lambda: pausing(gate, job, how), do, job_page(job))


def pausing(gate: Gate, name: str, how: Pausing) -> Question:
    """The question before a job is paused or resumed."""
    found, _ = gate.ledger.job(name)
    running, waiting = rows_with(gate, found, RUNNING), left_text(gate.ledger.left(name))
    ends = f"{some(len(running), 'running chunk')} will finish normally."
    if how == "pause":
        told = [f"Workers get no new chunks of this job: {waiting} waiting.", ends]
        return Question(f"Pause job {name}?", told, "Pause the job", "Keep it running", job_page(name))
    told = [f"Paused because: {found.paused or 'it is not paused'}.", f"Workers can claim {waiting} that are waiting."]
    return Question(f"Resume job {name}?", told, "Resume the job", "Keep it paused", job_page(name), asks_why=False)


def rows_with(gate: Gate, job: Job, status: str) -> list[Row]:
    """A job's chunks with a status, one row each: one more than is shown, to detect that there are more."""
    where = job.first
    return list(gate.ledger.status(where, job.name, kind=job.counted, status=status, limit=LISTED + 1))


def left_text(count: int) -> str:
    """A number of chunks in words; counting stops at a limit."""
    return f"{LEFT_MOST:,} or more chunks" if count >= LEFT_MOST else some(count, "chunk")

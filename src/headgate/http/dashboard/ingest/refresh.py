"""Resuming failed ingest jobs with the current profile and manifest instead of the stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fastapi import Request, Response

from headgate.core.queue.frozen import Frozen
from headgate.core.queue.model import FAILED, Batch, Item
from headgate.gate import Gate
from headgate.http.access.auth import Operator, TheGate, TheService
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router
from headgate.http.dashboard.ingest.acts import AT_ONCE, ItemAction, batch_of, job_of, on_each, path_of, some_of
from headgate.http.dashboard.words import some
from headgate.ingest.objects.deposits import resume_refreshed

router = page_router()
RESUME = "Resume with the current profile"


def resume_acts(item: Item, frozen: Frozen | None) -> Sequence[ItemAction]:
    """The actions to resume all failed jobs of a batch, and failed jobs with the current profile and manifest."""
    why_not = frozen.profile_problem if frozen else ""
    path = path_of(item.id)
    if not isinstance(item, Batch):
        may = item.state == FAILED and item.last_successful is not None
        return [ItemAction("refresh", RESUME, "operate", f"{path}/refresh", why_not, danger=False)] if may else []
    if not item.jobs.failed:
        return []
    label = f"Resume {some(item.jobs.failed, 'failed job')}"
    return [
        ItemAction("resume-failed", label, "operate", f"{path}/resume-failed", "", danger=False),
        ItemAction("refresh-failed", RESUME, "operate", f"{path}/refresh-failed", why_not, danger=False),
    ]


def frozen_in(gate: Gate, item: Item) -> Frozen | None:
    """The frozen parts that a resume of a failed job would use; for a batch, of its first failed job."""
    if isinstance(item, Batch):
        job = next(iter(gate.queue.jobs(FAILED, batch=item.id, limit=1)), None) if item.jobs.failed else None
    else:
        job = gate.queue.job(item.id) if item.state == FAILED else None
    return gate.deposits.frozen_of(job) if job else None


@router.get("/ingest/job/{item}/refresh")
def ask_to_refresh(request: Request, gate: TheGate, who: Operator, item: str) -> Response:
    """The effect of resuming it with the current profile and manifest."""
    return ask(request, who, refreshing(gate, item))


@router.post("/ingest/job/{item}/refresh")
async def refresh(request: Request, service: TheService, who: Operator, item: str) -> Response:
    """Resume it with the current ones, as the API does."""

    def do(reason: str) -> str:
        moved = resume_refreshed(service.gate.queue, service.gate.deposits, item, reason=reason, by=who.by())
        return f"{item} is now {moved.state}, with the current profile."

    return await act(request, who, lambda: refreshing(service.gate, item), do, path_of(item))


@router.get("/ingest/batch/{item}/refresh-failed")
def ask_to_refresh_all(request: Request, gate: TheGate, who: Operator, item: str) -> Response:
    """The effect of resuming all failed jobs of a batch with the current profile and manifests."""
    return ask(request, who, refreshing_all(gate, item))


@router.post("/ingest/batch/{item}/refresh-failed")
async def refresh_all(request: Request, service: TheService, who: Operator, item: str) -> Response:
    """Resume each with the current ones, as the table allows."""

    def do(reason: str) -> str:
        jobs = service.gate.queue.jobs(FAILED, batch=item, limit=AT_ONCE)
        do = partial(resume_refreshed, service.gate.queue, service.gate.deposits, reason=reason, by=who.by())
        said = on_each(jobs, do, "resumed")
        return f"{item}, with the current profile: {said}."

    return await act(request, who, lambda: refreshing_all(service.gate, item), do, path_of(item))


def refreshing(gate: Gate, item: str) -> Question:
    """The question before a job gets the current profile and manifest."""
    job = job_of(gate.queue, item)
    found = frozen_in(gate, job)
    again = "Its manifest and files are fetched again." if found and found.manifest_refreshable else ""
    return Question(
        heading=f"Resume {job.id} with the current profile?",
        consequences=[
            *(f"{sentence}." for sentence in (found.sentences if found else ())),
            f"All unfinished jobs of {job.batch} then use the current profile.",
            *([again] if again else ()),
            "It continues after its last successful step, and counts as one more retry.",
        ],
        verb=RESUME,
        keep="Leave it",
        back=path_of(job.id),
        danger=False,
    )


def refreshing_all(gate: Gate, item: str) -> Question:
    """The question before all failed jobs of a batch get the current profile and their manifests again."""
    batch = batch_of(gate.queue, item)
    jobs = gate.queue.jobs(FAILED, batch=batch.id, limit=AT_ONCE + 1)
    again = sum(job.last_successful is not None for job in jobs)
    found = frozen_in(gate, batch)
    return Question(
        heading=f"Resume the failed jobs of {batch.id} with the current profile?",
        consequences=[
            f"{some_of(jobs, 'job')} failed; {again:,} can continue after their last successful step.",
            *(f"{sentence}." for sentence in (found.sentences[:1] if found else ())),
            f"All unfinished jobs of {batch.id} then use the current profile.",
            "Manifests and files that are not stored yet are fetched again.",
            "Each counts as one more retry.",
        ],
        verb=RESUME,
        keep="Leave them",
        back=path_of(batch.id),
        danger=False,
    )

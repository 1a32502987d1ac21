"""Resuming a failed ingest job with the current profile and manifest instead of those that it keeps."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response

from headgate.core.queue import IngestJob
from headgate.http.auth import Operator, TheGate, TheService
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router
from headgate.http.dashboard.ingest_acts import Act, job_of, path_of
from headgate.refreshing import frozen_of, resume_refreshed
from headgate.wiring import Gate

router = page_router()


def refresh_acts(job: IngestJob) -> Sequence[Act]:
    """The way to resume a job that can be resumed, with the current profile and manifest."""
    if job.state != "failed" or job.last_successful is None:
        return ()
    href = f"{path_of(job.id)}/refresh"
    return (Act("refresh", "Resume with the current profile", "operate", href, "", danger=False),)


@router.get("/ingest/job/{item}/refresh")
def ask_to_refresh(request: Request, gate: TheGate, who: Operator, item: str) -> Response:
    """What resuming it with the current profile and manifest would do."""
    return ask(request, who, refreshing(gate, item))


@router.post("/ingest/job/{item}/refresh")
async def refresh(request: Request, service: TheService, who: Operator, item: str) -> Response:
    """Resume it with the current ones, as the API does."""

    def do(reason: str) -> str:
        moved = resume_refreshed(service.gate, item, reason=reason, by=who.by())
        service.ring(("batch",), ("job",), ("work",))
        return f"{item} is now {moved.state}, with the current profile."

    return await act(request, who, lambda: refreshing(service.gate, item), do, path_of(item))


def refreshing(gate: Gate, item: str) -> Question:
    """The question before a job gets the current profile and manifest."""
    job = job_of(gate.queue, item)
    found = frozen_of(gate, gate.queue.job(item))
    again = "Its manifest and files are fetched again." if found and found.manifest_refreshable else ""
    return Question(
        heading=f"Resume {job.id} with the current profile?",
        consequences=[
            *(f"{sentence}." for sentence in (found.sentences if found else ())),
            f"All unfinished jobs of {job.batch} then use the current profile.",
            *([again] if again else ()),
            "It continues after its last successful step, and counts as one more retry.",
        ],
        verb="Resume with the current profile",
        keep="Leave it",
        back=path_of(job.id),
        danger=False,
    )

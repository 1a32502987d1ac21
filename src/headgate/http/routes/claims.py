"""Claims over HTTP: what a worker asks and reports."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Request, Response

from headgate.core.ledger import Claim
from headgate.http import direct
from headgate.http.auth import Caller, TheGate, TheService, needs
from headgate.http.repeats import FINDS, GRANTS, NOTHING, under
from headgate.http.routes.ledger import claim_document
from headgate.http.schemas import (
    Failure,
    Heartbeat,
    Interruption,
    Key,
    Report,
    RequestId,
    Worker,
    WorkerWaiting,
    answer,
    documented,
    nothing,
)
from headgate.http.waiting import asked_to_wait
from headgate.service.clock import steady

router = direct.router("claims")
Claimer = Annotated[Caller, needs("chunk:claim")]
CLAIMED = "Claimed, with a new token."


@router.post("/jobs/{job}/next", FINDS, responses=documented(200, Claim, CLAIMED, nothing="Nothing to claim."))
async def find_next(
    request: Request, service: TheService, who: Claimer, job: str, asked: WorkerWaiting, key: Key = None,
    again: RequestId = None,
) -> Response:  # fmt: skip
    """Claim the next chunk of a job. With `wait`, wait up to that many seconds for one."""
    who.must_see("job", "chunk:claim", job)
    who.must_reach("chunk:claim", job)

    request_id = who.request_id(key, again)

    def look() -> Claim | None:
        return service.gate.ledger.find_next(
            job, key="", worker=asked.worker or who.by(), lease=asked.lease, request_id=request_id
        )

    turn = service.turns.wait(("job", job), look, steady() + asked.wait, again=request_id is not None)
    found = await asked_to_wait(request, asked.wait, turn)
    return nothing() if found is None else answer(claim_document(found, who))


@router.post("/jobs/{job}/chunks/{dataid}/claim", GRANTS, responses=documented(200, Claim, CLAIMED))
def claim(
    gate: TheGate, who: Claimer, job: str, dataid: str, asked: Worker, key: Key = None, again: RequestId = None
) -> Response:
    """Claim a given chunk. 409 lists every reason if it cannot be claimed."""
    _must_claim(who, job)
    request_id = who.request_id(key, again)
    worker = asked.worker or who.by()
    found = gate.ledger.claim(job, dataid, key="", worker=worker, lease=asked.lease, request_id=request_id)
    return answer(claim_document(found, who))


@router.post("/jobs/{job}/chunks/{dataid}/success", NOTHING, status_code=204)
async def success(service: TheService, who: Claimer, job: str, dataid: str, report: Report) -> Response:
    """Report that the chunk succeeded. Repeating the report is safe; 409, without any change, if the claim is not
    yours.
    """
    _must_claim(who, job)
    done = partial(service.gate.ledger.success, job, dataid, report.token, by=who.by(report.by))
    await service.crew.run(done)
    service.ring(("job",), ("lock",))
    return nothing()


@router.post("/jobs/{job}/chunks/{dataid}/fail", NOTHING, status_code=204)
async def fail(service: TheService, who: Claimer, job: str, dataid: str, report: Failure) -> Response:
    """Report that the chunk failed, with the reason. 409, without any change, if the claim is not yours."""
    _must_claim(who, job)
    failed = partial(service.gate.ledger.fail, job, report.message, dataid, report.token, by=who.by(report.by))
    await service.crew.run(failed)
    service.ring(("job",), ("lock",))
    return nothing()


@router.post("/jobs/{job}/chunks/{dataid}/interrupt", NOTHING, status_code=204)
async def interrupt(service: TheService, who: Claimer, job: str, dataid: str, report: Interruption) -> Response:
    """Report that the worker was asked to stop before the chunk was done: no attempt and no failure is counted.

    The chunk is claimable again at once, or held after `max_interruptions`. Reporting it twice changes nothing. 409
    when the claim is not yours.
    """
    _must_claim(who, job)
    stopped = partial(service.gate.ledger.interrupt, job, report.message, dataid, report.token, by=who.by(report.by))
    await service.crew.run(stopped)
    service.ring(("job",), ("lock",))
    return nothing()


@router.post(
    "/jobs/{job}/chunks/{dataid}/heartbeat",
    under("lease"),
    responses=documented(200, dict[str, float], ("Lease length in seconds.")),
)
async def heartbeat(service: TheService, who: Claimer, job: str, dataid: str, beat: Heartbeat) -> Response:
    """Renew the lease of a claim. 409 if it has expired."""
    _must_claim(who, job)
    renewed = partial(service.gate.ledger.heartbeat, job, dataid, beat.token, lease=beat.lease)
    return answer({"lease": await service.crew.run(renewed)})


def _must_claim(who: Caller, job: str) -> None:
    who.must_see("job", "chunk:claim", job)
    who.must_reach("chunk:claim", job)

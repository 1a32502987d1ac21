"""Claims over HTTP: what is more than a call of the service."""

from __future__ import annotations

from typing import Any

from headgate.core.ledger import Claim
from headgate.http.auth import Caller
from headgate.http.serving import SHOWN, Call, Handlers
from headgate.http.waiting import asked_to_wait
from headgate.operations import claims
from headgate.service.clock import steady

handlers = Handlers(claims.declared)


def claim_document(claim: Claim, who: Caller) -> dict[str, Any]:
    """A claim for its worker: secrets masked, and sealed for the job's key where the token may see that."""
    document = {**claim.to_document(), "expires_in": claim.expires_in}
    if not who.reach.covers("cred:read", claim.job):
        for port in (*document["inputs"].values(), *document["outputs"].values()):
            port.pop("sealed", None)
    return document


SHOWN[Claim, False] = claim_document


@handlers.of(claims.find_next)
async def find_next(call: Call, *, job: str, wait: float, request_id: str | None, **asked: Any) -> Claim | None:
    """With `wait`, wait without a thread."""
    service = call.service
    looking = service.gate.ledger.looking_for_next(job, key="", request_id=request_id, **asked)
    turn = service.turns.wait(("job", job), looking, steady() + wait, again=request_id is not None)
    return await asked_to_wait(call.request, wait, turn)


@handlers.of(claims.claim)
def claim(call: Call, *, job: str, dataid: str, **asked: Any) -> Claim:
    """Its secrets stay sealed."""
    return call.gate.ledger.claim(job, dataid, key="", **asked)


@handlers.of(claims.fail)
def fail(call: Call, *, job: str, message: str, **report: Any) -> None:
    """By name."""
    call.gate.ledger.fail(job, message, **report)


@handlers.of(claims.interrupt)
def interrupt(call: Call, *, job: str, message: str, **report: Any) -> None:
    """By name."""
    call.gate.ledger.interrupt(job, message, **report)

"""Claims over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from typing import Any

from headgate.core.ledger.model import Claim
from headgate.http.access.auth import Caller
from headgate.http.api.handlers import SHOWN, ApiCall, Handlers
from headgate.http.waiters.waiting import asked_to_wait
from headgate.operations import claims
from headgate.service.leases.clock import steady

handlers = Handlers(claims.declared)


def claim_document(claim: Claim, who: Caller) -> dict[str, Any]:
    """A claim for its worker: secrets are masked, and included sealed if the token may see that."""
    document = {**claim.to_document(), "expires_in": claim.expires_in}
    if not who.reach.covers("cred:read", claim.job):
        for port in (*document["inputs"].values(), *document["outputs"].values()):
            port.pop("sealed", None)
    return document


SHOWN[Claim, False] = claim_document


@handlers.of(claims.find_next)
async def find_next(call: ApiCall, *, job: str, wait: float, request_id: str | None, **asked: Any) -> Claim | None:
    """With `wait`, wait without a thread."""
    service = call.service
    looking = service.gate.ledger.looking_for_next(job, key="", request_id=request_id, **asked)
    turn = service.turns.wait(("job", job), looking, steady() + wait, again=request_id is not None)
    return await asked_to_wait(call.request, wait, turn)

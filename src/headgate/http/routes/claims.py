"""Claims over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from typing import Any

from headgate.core.ledger.model import Claim
from headgate.http.access.auth import Caller
from headgate.http.api.handlers import SHOWN, ApiCall, Handlers
from headgate.http.waiters.waiting import found_within
from headgate.operations import claims

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
    looking = call.service.gate.ledger.looking_for_next(job, key="", request_id=request_id, **asked)
    return await found_within(call.request, wait, ("job", job), looking, again=request_id is not None)

"""A chunk is claimed: the one that was asked for, or the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.ledger import RUNNING

if TYPE_CHECKING:
    from headgate.cli.session import Session
    from headgate.core.ledger import Claim
    from headgate.service.ledger import Ledger

#: Running claims that are looked at, and named.
MOST_LOOKS, MOST_NAMED = 1000, 3


def claim_chunk(ledger: Ledger, job: str, dataid: str | None, *, worker: str | None, lease: float) -> Claim | None:
    """That chunk, or the next one; None: there is nothing to do."""
    if dataid is not None:
        return ledger.claim(job, dataid, worker=worker, lease=lease)
    return ledger.find_next(job, worker=worker, lease=lease)


def nothing_to_do(session: Session, ledger: Ledger, job: str) -> str:
    """That there is nothing to do, and which chunks other workers are still working on."""
    rows = ledger.status(job=job, status=RUNNING, limit=MOST_LOOKS)
    busy = {row.dataid: row.worker for row in rows if row.alive}
    plan = session.command("job", "plan", job)
    if not busy:
        return f"nothing to do for {job}; see: {plan}"
    named = [f"{dataid} by {worker}" for dataid, worker in list(busy.items())[:MOST_NAMED]]
    named += [f"{len(busy) - MOST_NAMED} more"] if len(busy) > MOST_NAMED else []
    others = "1 chunk is" if len(busy) == 1 else f"{len(busy)} chunks are"
    return f"nothing to do for {job}, but {others} still running: {', '.join(named)}; see: {plan}"

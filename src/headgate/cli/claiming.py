"""A chunk is claimed, for who asked for it by its name or for whatever is next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.cli.session import Session
    from headgate.core.ledger import Claim
    from headgate.service.ledger import Ledger


def claim_chunk(
    session: Session, ledger: Ledger, job: str, dataid: str | None, *, worker: str | None, lease: float
) -> Claim | None:
    """That chunk, or the next one; None, and said so: there is nothing to do."""
    if dataid is not None:
        return ledger.claim(job, dataid, worker=worker, lease=lease)
    claim = ledger.find_next(job, worker=worker, lease=lease)
    if claim is None:
        session.say(f"nothing to do for {job}; see: {session.command('job', 'plan', job)}")
    return claim

"""What failed ingest jobs keep from their start, and how they get the current profile and manifest."""

from fastapi import Response

from headgate.core.frozen import Frozen
from headgate.http import direct
from headgate.http.auth import Operator, Reader, TheGate
from headgate.http.repeats import HARMLESS
from headgate.http.schemas import answer, documented, nothing

router = direct.router("ingest")


@router.get(
    "/ingest-jobs/{jid}/frozen", responses=documented(200, Frozen, "What it keeps.", nothing="It keeps nothing.")
)
def frozen(gate: TheGate, _who: Reader, jid: str) -> Response:
    """What an ingest job keeps from its start: the profile and the manifest, since when, and what has changed since."""
    found = gate.deposits.frozen_of(gate.queue.job(jid))
    return nothing() if found is None else answer(found)


@router.post("/ingest-jobs/{jid}/refresh", HARMLESS, responses=documented(200, Frozen, "What it keeps now."))
def refresh(gate: TheGate, _who: Operator, jid: str) -> Response:
    """Give a failed job the current profile, which all unfinished jobs of its batch then use, and have its manifest and
    files fetched again. Resume it afterwards. 409 when it has not failed.
    """
    return answer(gate.deposits.refresh(gate.queue.job(jid)))

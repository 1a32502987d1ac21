"""Incidents: problems that need a person."""

from __future__ import annotations

from typing import Annotated

from headgate.core.errors import UnknownName
from headgate.core.incidents import KINDS, Incident, OpenIncidents
from headgate.core.ledger.model import FAIL_EVENT
from headgate.operations.arguments import USUAL, By, Limit
from headgate.operations.declaring import About, Declarations, Idempotency, Page

declared = Declarations("incidents")
Number = Annotated[int, About("Number of the incident.", ge=1, example=7)]


@declared.get("/incidents", "read", answer="Newest first.", call="incidents.list")
def list_incidents(
    job: str | None = None, kind: Annotated[str | None, About(example=KINDS[FAIL_EVENT])] = None,
    closed: Annotated[bool, About("Include closed incidents.")] = False,
    after: Annotated[int | None, About("The `next` of the previous page.", ge=1)] = None, limit: Limit = USUAL,
) -> Page[Incident]:  # fmt: skip
    """List incidents: chunks that failed permanently, whose workers keep crashing, that never finish in time, or that
    are late.
    """


@declared.get("/incidents/count", "read", answer="By kind.")
def count() -> OpenIncidents:
    """Count the open incidents."""


@declared.get("/incidents/{number}", "read", answer="The incident.", errors=(UnknownName,))
def get(number: Number) -> Incident:
    """Return one incident."""


@declared.post(
    "/incidents/{number}/acknowledge", "operate", repeat=Idempotency.PROVEN, answer="The incident after the change.",
    errors=(UnknownName,),
)  # fmt: skip
def acknowledge(number: Number, by: By = None) -> Incident:
    """Acknowledge an incident: no more notices are sent, unless it happens again or closes."""


@declared.post(
    "/incidents/{number}/snooze",
    "operate",
    repeat=Idempotency.KEY,
    answer="The incident after the change.",
    errors=(UnknownName,),
)
def snooze(number: Number, seconds: Annotated[float, About("How long.", gt=0, le=3e9, example=3600)]) -> Incident:
    """Send no notices about an incident for a while. If it is still open then, a notice reports it again."""

"""Incidents: what needs a person."""

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
    closed: Annotated[bool, About("Also incidents that are closed.")] = False,
    after: Annotated[int | None, About("The `next` of the previous page.", ge=1)] = None, limit: Limit = USUAL,
) -> Page[Incident]:  # fmt: skip
    """List incidents: chunks that failed for good, whose workers keep crashing, that never finish in time, or are
    late.
    """


@declared.get("/incidents/count", "read", answer="By kind.")
def count() -> OpenIncidents:
    """Count the open incidents."""


@declared.get("/incidents/{number}", "read", answer="The incident.", errors=(UnknownName,))
def get(number: Number) -> Incident:
    """Return one incident."""


@declared.post(
    "/incidents/{number}/acknowledge", "operate", repeat=Idempotency.PROVEN, answer="As it is now.",
    errors=(UnknownName,),
)  # fmt: skip
def acknowledge(number: Number, by: By = None) -> Incident:
    """Record that a person knows of an incident: no more notices, unless it happens again or closes."""


@declared.post(
    "/incidents/{number}/snooze", "operate", repeat=Idempotency.KEY, answer="As it is now.", errors=(UnknownName,)
)
def snooze(number: Number, seconds: Annotated[float, About("How long.", gt=0, le=3e9, example=3600)]) -> Incident:
    """Send no notice of an incident for a while. If it is still open then, a notice reports it again."""

"""The incidents of a service: each operation as it is declared in `headgate.operations.incidents`."""

from __future__ import annotations

from headgate.calls.deadlines import INCIDENT_CALLS, answered_in_time
from headgate.client.sending import ServicePart, remote
from headgate.operations import incidents
from headgate.service.incidents import Incidents


@answered_in_time(INCIDENT_CALLS)
@remote("incidents", incidents.declared)
class RemoteIncidents(ServicePart, Incidents):
    """Incidents behind a service, which checks and records each operation."""

"""Incidents: the use cases."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.errors import BadValue
from headgate.core.incidents import Incident, IncidentFilter, OpenIncidents
from headgate.core.values.names import check_name
from headgate.service.access.identity import actor
from headgate.service.checks import check_limit, check_span
from headgate.stores.ports.incidents import IncidentStore
from headgate.telemetry import event


class Incidents:
    """Problems that need a person: chunks that failed permanently, and others; `gate.incidents`.

    :param number: Number of the incident.
    """

    def __init__(self, store: IncidentStore) -> None:
        self._store = store

    def list(
        self, job: str | None = None, *, kind: str | None = None, closed: bool = False, after: int | None = None,
        limit: int | None = None,
    ) -> Sequence[Incident]:  # fmt: skip
        """List incidents, newest first.

        :param job: Only incidents of this job.
        :param kind: Only incidents of this kind.
        :param closed: Include closed incidents.
        :param after: Number of the last incident of the previous page.
        :param limit: Largest number of results.
        """
        which = IncidentFilter(
            None if job is None else check_name("job", job), None if kind is None else check_name("kind", kind),
            bool(closed), None if after is None else check_number(after), None if limit is None else check_limit(limit),
        )  # fmt: skip
        return self._store.list(which)

    def get(self, number: int) -> Incident:
        """Return one incident. Raises UnknownName if there is none."""
        return self._store.get(check_number(number))

    def count(self) -> OpenIncidents:
        """Count the open incidents."""
        return self._store.count()

    def acknowledge(self, number: int, *, by: str | None = None) -> Incident:
        """Acknowledge an incident: no more notices are sent, unless it happens again or closes.

        :param by: Name of the person (default: this process).
        """
        found = self._store.acknowledge(check_number(number), actor(by))
        event("incident.acknowledged", incident=found.id, job=found.job)
        return found

    def snooze(self, number: int, seconds: float) -> Incident:
        """Send no notices about an incident for a while. If it is still open then, a notice reports it again.

        :param seconds: How long.
        """
        found = self._store.snooze(check_number(number), check_span("seconds", seconds))
        event("incident.snoozed", incident=found.id, job=found.job, seconds=seconds)
        return found


def check_number(value: object) -> int:
    """A number of an incident."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**62:
        raise BadValue("incident", value, "is not the number of an incident")
    return value

"""The port of incidents. The changes of the ledger open and close the incidents that they report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headgate.core.incidents import Incident, IncidentFilter, OpenIncidents
from headgate.core.inventory import Message
from headgate.core.notices import SentNotice


class IncidentStore(Protocol):
    """Incidents, and the notices about them."""

    def list(self, which: IncidentFilter) -> Sequence[Incident]:
        """Incidents, newest first."""

    def get(self, number: int) -> Incident:
        """One incident. UnknownName when there is none."""

    def count(self) -> OpenIncidents:
        """Number of open incidents."""

    def acknowledge(self, number: int, who: str) -> Incident:
        """Record who takes care of it: no notice about its opening is sent any more. UnknownName when there is none."""

    def snooze(self, number: int, seconds: float) -> Incident:
        """Open: a notice reports it again after that time. UnknownName when there is none."""

    def due(self, limit: int) -> Sequence[Incident]:
        """Incidents whose notice is due, oldest first."""

    def now(self) -> datetime:
        """The time by the store's clock."""

    def notices(self) -> Sequence[SentNotice]:
        """Notices of the last hour and deferred ones, oldest first."""

    def report(
        self, reported: Sequence[Incident], notices: Sequence[SentNotice], messages: Sequence[Message],
        released: Sequence[str] = (),
    ) -> bool:  # fmt: skip
        """If all are still due as they were read: record the notices, put their messages into the outbox and release
        the deferred notices with those ids, in one transaction. Otherwise change nothing and return False.
        """

    def prune(self, age: float) -> int:
        """Remove incidents that closed more than that many seconds ago, and old notices. Returns how many."""

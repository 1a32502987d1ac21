"""The port of incidents. They are opened and closed by the changes of the ledger that they report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headgate.core.incidents import Incident, IncidentFilter, OpenIncidents
from headgate.core.inventory import Message
from headgate.core.notices import SentNotice


class IncidentStore(Protocol):
    """Incidents, and the notices of them."""

    def list(self, which: IncidentFilter) -> Sequence[Incident]:
        """Incidents, newest first."""

    def get(self, number: int) -> Incident:
        """One incident. UnknownName when there is none."""

    def count(self) -> OpenIncidents:
        """How many are open."""

    def acknowledge(self, number: int, who: str) -> Incident:
        """Somebody knows of it: no notice says that it opened. UnknownName when there is none."""

    def snooze(self, number: int, seconds: float) -> Incident:
        """Open: a notice reports it again after that long. UnknownName when there is none."""

    def due(self, limit: int) -> Sequence[Incident]:
        """Incidents of which a notice is due, oldest first."""

    def now(self) -> datetime:
        """The time by the store's clock."""

    def notices(self) -> Sequence[SentNotice]:
        """Notices of the last hour, and those that are kept back, oldest first."""

    def report(
        self, reported: Sequence[Incident], notices: Sequence[SentNotice], messages: Sequence[Message],
        released: Sequence[str] = (),
    ) -> bool:  # fmt: skip
        """Still due as they were read: reported, with these notices, their messages in the outbox, and the notices of
        those ids released, all in one transaction. Otherwise nothing, and False.
        """

    def prune(self, age: float) -> int:
        """Remove incidents that closed longer ago than that many seconds, and old notices. Returns how many."""

"""Incidents: problems that need a person, one row each, from the change that opens it to the one that closes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.core.ledger.expectations.model import ARRIVED, LATE, WITHDRAWN
from headgate.core.ledger.model import FAIL_EVENT, INTERRUPT_EVENT, REAP_EVENT

#: The kinds of incidents of chunks, by the event that opens them. Other modules may add kinds of their own.
KINDS: Mapping[str, str] = {FAIL_EVENT: "failed", REAP_EVENT: "crashes", INTERRUPT_EVENT: "interruptions"}
#: The text for each kind, after its subject.
SENTENCES: Mapping[str, str] = {
    "failed": "failed for good", "crashes": "keeps crashing its workers", "interruptions": "never finishes in time",
    LATE: "is late",
}  # fmt: skip
#: How a late chunk ended, by the event that closed its incident.
LATE_ENDS: Mapping[str, str] = {ARRIVED: "is READY now", WITHDRAWN: "is not expected any more"}


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """An incident of a chunk that opens or closes with the change that it reports."""

    #: The kind of the incident that opens; empty: the open one closes.
    kind: str
    #: Why it opens, or the event that closes it.
    message: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A problem that needs a person."""

    #: Its number.
    id: int
    #: `failed`, `crashes`, `interruptions` or `late`; other modules may have kinds of their own.
    kind: str
    #: The job concerned; empty: none.
    job: str
    #: The chunk of the job; for a late chunk `DATASET/DATAID`.
    subject: str
    #: What happened last.
    message: str
    #: When it opened.
    since: datetime
    #: When it last happened; it can happen again while the incident is open.
    at: datetime
    #: How often it happened.
    count: int = 1
    #: When it closed; None: it is open.
    closed: datetime | None = None
    #: The event that closed it: `success`, `forget` or `set_status`; for a late chunk `arrival`, or `definition` when
    #: nothing is expected any more.
    closed_by: str = ""
    #: Who acknowledged it; empty: nobody.
    acknowledged_by: str = ""
    #: No notice about it is sent before this time, unless it closes.
    snoozed_until: datetime | None = None
    #: `open`, `acknowledged`, `snoozed` or `closed`.
    state: str = "open"
    #: When the next notice about it is due; None: everything has been reported.
    due: datetime | None = field(default=None, compare=False)
    #: Whether a notice about its opening was sent.
    reported: bool = field(default=False, compare=False)

    @property
    def sentence(self) -> str:
        """For people: `clean 2026-11-02 failed for good: disk full`."""
        # Late chunks are listed by dataset.
        name = self.subject if self.kind == LATE else " ".join(filter(None, (self.job, self.subject)))
        text = f"{name} {SENTENCES.get(self.kind, self.kind)}"
        if self.closed is not None and self.kind == LATE and self.closed_by in LATE_ENDS:
            return f"{name} was late, and {LATE_ENDS[self.closed_by]}"
        if self.closed is not None:
            return f"{text}; closed by {self.closed_by}"
        return f"{text}: {self.message}" if self.message else text


def state_of_incident(closed: object, snoozed: object, acknowledged: object) -> str:
    """The state of an incident, from its end, its snooze and its acknowledgement."""
    if closed is not None:
        return "closed"
    return "snoozed" if snoozed is not None else "acknowledged" if acknowledged else "open"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list, newest first; None: any."""

    job: str | None = None
    kind: str | None = None
    #: Include closed ones.
    closed: bool = False
    #: Only those with a smaller number (keyset pagination).
    before: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """How many incidents are open."""

    #: By kind.
    count: Mapping[str, int]
    #: When the oldest of them opened; None: there is none.
    oldest: datetime | None = None

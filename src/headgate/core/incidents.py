"""Incidents: what needs a person, one row each, from the change that opened it to the one that closed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.core.ledger.expectations.model import ARRIVED, LATE, WITHDRAWN
from headgate.core.ledger.model import FAIL_EVENT, INTERRUPT_EVENT, REAP_EVENT

#: Kinds that chunks have, by the event that opens one. Others may add kinds of their own.
KINDS: Mapping[str, str] = {FAIL_EVENT: "failed", REAP_EVENT: "crashes", INTERRUPT_EVENT: "interruptions"}
#: What each kind says of its subject.
SENTENCES: Mapping[str, str] = {
    "failed": "failed for good", "crashes": "keeps crashing its workers", "interruptions": "never finishes in time",
    LATE: "is late",
}  # fmt: skip
#: How a late chunk ended, by the event that closed its incident.
LATE_ENDS: Mapping[str, str] = {ARRIVED: "is READY now", WITHDRAWN: "is not expected any more"}


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """An incident of a chunk opens, or its open one closes, with the change that it reports."""

    #: Of the one that opens; empty: the open one closes.
    kind: str
    #: Why it opens; or the event that closes it.
    message: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that needs a person."""

    #: Its number.
    id: int
    #: `failed`, `crashes`, `interruptions` or `late`; other parts of the program may have kinds of their own.
    kind: str
    #: The job that it is about; empty: none.
    job: str
    #: Which chunk of the job; of a late chunk `DATASET/DATAID`.
    subject: str
    #: What happened last.
    message: str
    #: When it opened.
    since: datetime
    #: When it happened last; it may happen again while the incident is open.
    at: datetime
    #: How often it happened.
    count: int = 1
    #: When it closed; None: it is open.
    closed: datetime | None = None
    #: The event that closed it: `success`, `forget` or `set_status`; of a late chunk `arrival`, or
    #: `definition` when nothing is expected any more.
    closed_by: str = ""
    #: The person who knows of it; empty: nobody does.
    acknowledged_by: str = ""
    #: No notice is sent of it before this time, unless it closes.
    snoozed_until: datetime | None = None
    #: `open`, `acknowledged`, `snoozed` or `closed`.
    state: str = "open"
    #: When a notice of it is due; None: everything was reported.
    due: datetime | None = field(default=None, compare=False)
    #: Whether a notice has said that it opened.
    reported: bool = field(default=False, compare=False)

    @property
    def sentence(self) -> str:
        """For people: `clean 2026-11-02 failed for good: disk full`."""
        # A late chunk is named with its dataset.
        name = self.subject if self.kind == LATE else " ".join(filter(None, (self.job, self.subject)))
        text = f"{name} {SENTENCES.get(self.kind, self.kind)}"
        if self.closed is not None and self.kind == LATE and self.closed_by in LATE_ENDS:
            return f"{name} was late, and {LATE_ENDS[self.closed_by]}"
        if self.closed is not None:
            return f"{text}; closed by {self.closed_by}"
        return f"{text}: {self.message}" if self.message else text


def state_of_incident(closed: object, snoozed: object, acknowledged: object) -> str:
    """The state that follows from the end, the snooze and the person of an incident."""
    if closed is not None:
        return "closed"
    return "snoozed" if snoozed is not None else "acknowledged" if acknowledged else "open"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list, newest first; None: any."""

    job: str | None = None
    kind: str | None = None
    #: Also those that are closed.
    closed: bool = False
    #: Only those with a smaller number (page by key).
    before: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """How many incidents are open."""

    #: By kind.
    count: Mapping[str, int]
    #: When the oldest of them opened; None: there is none.
    oldest: datetime | None = None

"""Ownership of everything that is held: principals, and who may change what another principal holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

#: Clients that use a store directly, without a service: they are trusted with the id and token of what they hold.
LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Holding:
    """A held lock, claim, batch or ingest job."""

    #: Lock, batch or ingest job. A claim is listed as the lock that it acts as.
    noun: str
    #: The id of the lock, batch or ingest job.
    id: str
    #: The resource that is locked; the state of a batch or ingest job.
    what: str
    #: The client or worker, as it named itself.
    by: str
    #: Since when.
    since: datetime


@dataclass(frozen=True, slots=True)
class Actor:
    """The authenticated caller of one call."""

    #: Who it is.
    principal: str = LOCAL
    #: Why it overrides other owners; empty: it does not. Only callers with the scope `admin:force` have a reason here.
    override: str = ""

    def may_touch(self, owner: str) -> bool:
        """Whether it may change what this principal holds. Items taken before owners were recorded have none."""
        return self.principal in (LOCAL, owner) or not owner or bool(self.override)

    @property
    def compared(self) -> str:
        """The owner that a write expects: callers that override it pass, and so does `local`."""
        return LOCAL if self.override else self.principal

    def reason(self, given: str = "") -> str:
        """The reason recorded in the history: the given one, and why this caller overrides an owner."""
        if not self.override:
            return given
        return f"{given}; override: {self.override}" if given else f"override: {self.override}"


@dataclass(frozen=True, slots=True)
class Override:
    """The caller changes what another principal owns, with a reason; this is logged."""

    what: str
    owner: str


def handed_reason(before: str, to: str, reason: str) -> str:
    """The text recorded for a hand-over: the old and the new owner, and the reason."""
    return f"from {before or 'nobody'} to {to}" + (f": {reason}" if reason else "")

"""Who owns what is held: principals, and who may act on what another principal holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

#: Clients that use a store directly, without a service: trusted with the id and the token of what they hold.
LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Holding:
    """Something that is held."""

    #: lock, batch or ingest job. A claim is listed as the lock that it acts as.
    noun: str
    #: The id of the lock, batch or ingest job.
    id: str
    #: The resource that is locked; the state of a batch or ingest job.
    what: str
    #: The client or worker, in its own words.
    by: str
    #: Since when.
    since: datetime


@dataclass(frozen=True, slots=True)
class Actor:
    """The authenticated caller of one call."""

    #: Who it is.
    principal: str = LOCAL
    #: Why it acts on what others own; empty: it does not. Only callers with the scope `admin:force` have a reason here.
    override: str = ""

    def may_touch(self, owner: str) -> bool:
        """Whether it may change what this principal holds. What was taken before owners were recorded has none."""
        return self.principal in (LOCAL, owner) or not owner or bool(self.override)

    @property
    def compared(self) -> str:
        """What a write compares with the owner: callers that override it pass, as `local` does."""
        return LOCAL if self.override else self.principal

    def reason(self, given: str = "") -> str:
        """The reason that the history keeps: the given one, and why this caller overrides an owner."""
        if not self.override:
            return given
        return f"{given}; override: {self.override}" if given else f"override: {self.override}"


@dataclass(frozen=True, slots=True)
class Override:
    """The caller acts on what another principal owns, with a reason: it is logged."""

    what: str
    owner: str


def handed_reason(before: str, to: str, reason: str) -> str:
    """What the history keeps of a hand-over: the old and the new owner, and the reason."""
    return f"from {before or 'nobody'} to {to}" + (f": {reason}" if reason else "")

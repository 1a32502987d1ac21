"""Who owns what is held: principals, and who may act on what another principal holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import BadValue, NotOwner
from headgate.core.names import check_name

#: Whoever works on a store directly, without a service: trusted with the id and the token of whatever it holds.
LOCAL = "local"
#: A request id has room for it.
PRINCIPAL_LENGTH = 100


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

    def must_own(self, what: str, owner: str) -> None:
        """NotOwner when it may not."""
        if not self.may_touch(owner):
            raise NotOwner(what, owner, self.principal)

    @property
    def compared(self) -> str:
        """What a write compares with the owner: whoever overrides it passes, as `local` does."""
        return LOCAL if self.override else self.principal

    def reason(self, given: str = "") -> str:
        """The reason that the history keeps: the given one, and why this caller overrides an owner."""
        if not self.override:
            return given
        return f"{given}; override: {self.override}" if given else f"override: {self.override}"


def handed_reason(before: str, to: str, reason: str) -> str:
    """What the history keeps of a hand-over: from whom, to whom, and why."""
    return f"from {before or 'nobody'} to {to}" + (f": {reason}" if reason else "")


def check_principal(value: object) -> str:
    """The name of a principal of the service: as other names, without a colon, and not `local`."""
    name = check_name("principal", value)
    if ":" in name:
        raise BadValue("principal", value, "has a colon, which separates the parts of a request id; remove it")
    if len(name) > PRINCIPAL_LENGTH:
        raise BadValue("principal", value, f"has {len(name)} characters; at most {PRINCIPAL_LENGTH} are allowed")
    if name == LOCAL:
        raise BadValue(
            "principal",
            value,
            ("is reserved for clients that use the store directly; choose another one for the API token"),
        )
    return name

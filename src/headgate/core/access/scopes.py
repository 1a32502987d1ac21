"""The scopes of an API token: each is a word for a kind of action, and some can be limited by a name after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.core.access.sights import NAMESPACES, Sight, check_sight, sight_of
from headgate.core.errors import BadValue

#: Every scope, with its description. Those with a noun may be limited: `lock:acquire:s3://bucket/`,
#: `chunk:claim:clean`.
SCOPES: Mapping[str, str] = {
    "read": (
        "read everything except secrets: locks, chunks, batches, history, status (can be limited to "
        "read:lock:RESOURCE, read:data:DATASET, read:queue:PROFILE; NAME* for all names with that prefix)"
    ),
    "lock:acquire": "acquire, renew, change and release locks (can be limited to resources with a prefix)",
    "chunk:claim": "claim chunks of jobs and report their outcome (can be limited to a job)",
    "cred:read": "read sealed secrets, which only a job's key opens (can be limited to a job)",
    "data:publish": "publish data produced elsewhere (can be limited to a dataset)",
    "queue:submit": "submit batches (can be limited to a profile)",
    "queue:work": "take batches and ingest jobs, and report their outcome",
    "define": "define datasets, jobs, their keys and sealed secrets",
    "operate": "hold, release, resume, resubmit, pause, set priorities; each needs a reason",
    "admin:force": "break locks, force and forget chunks, set statuses, delete; each needs a reason",
    "admin": "everything, and act under the names that other callers gave",
}
#: The scopes that may be limited; `read` is limited by namespace: read:lock:…, read:data:…, read:queue:…
LIMITED = ("read", "lock:acquire", "chunk:claim", "cred:read", "data:publish", "queue:submit")
#: Names for common sets of scopes.
ROLES: Mapping[str, tuple[str, ...]] = {
    "viewer": ("read",),
    "operator": ("read", "operate"),
    "admin": ("admin",),
}


def check_scope(text: object) -> str:
    """A scope, as it is written."""
    if isinstance(text, str) and text.isprintable() and len(text) <= 2100:
        if text in SCOPES:
            return text
        if text.startswith("read:"):
            if check_sight(text.removeprefix("read:")):
                return text
        elif any(text.startswith(f"{word}:") and len(text) > len(word) + 1 for word in LIMITED):
            return text
    raise BadValue(
        "scope",
        text,
        (
            f"is not one of {', '.join(SCOPES)}; {', '.join(LIMITED[1:])} may be followed by :NAME, read by "
            f"{', '.join(f':{each}:NAME' for each in NAMESPACES)} (NAME* for all names with that prefix)"
        ),
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """The permissions of a token."""

    scopes: tuple[str, ...]

    @property
    def unlimited(self) -> bool:
        """An admin's."""
        return "admin" in self.scopes

    def has(self, word: str) -> bool:
        """The scope, with or without a limit."""
        return self.unlimited or word in self.scopes or bool(self.limits(word))

    def covers(self, word: str, name: str) -> bool:
        """The scope for one job, dataset or profile; for a resource: one with that prefix."""
        if self.unlimited or word in self.scopes:
            return True
        limits = self.limits(word)
        return any(name.startswith(each) for each in limits) if word == "lock:acquire" else name in limits

    @property
    def sight(self) -> Sight | None:
        """What `read` may show where it is limited; None: everything, or nothing."""
        limits = self.limits("read")
        if self.unlimited or "read" in self.scopes or not limits:
            return None
        return sight_of(limits, self.limits("lock:acquire"), self.limits("chunk:claim"), self.limits("queue:submit"))

    def limits(self, word: str) -> list[str]:
        """What the scope is limited to. `admin:force` is not a limited `admin`."""
        own = (each for each in self.scopes if each.startswith(f"{word}:")) if word in LIMITED else ()
        return [each[len(word) + 1 :] for each in own]


@dataclass(frozen=True, slots=True)
class ApiToken:
    """An API token, without its text."""

    #: Its public part.
    id: str
    #: Its display name.
    name: str
    scopes: tuple[str, ...]  #: Its scopes.
    created: datetime  #: When it was created, by the store's clock.
    #: Seconds until it expires, when the store answered; None: never.
    expires_in: float | None = None
    last_used: datetime | None = None  #: When it was last used, to the minute; None: never.
    revoked: bool = False  #: Whether it was revoked.
    #: Owner of everything acquired with it; tokens with the same principal share what they hold.
    principal: str = ""

    @property
    def good(self) -> bool:
        """Whether it is neither revoked nor expired."""
        return not self.revoked and (self.expires_in is None or self.expires_in > 0)

    @property
    def reach(self) -> Reach:
        """Its permissions."""
        return Reach(self.scopes)


@dataclass(frozen=True, slots=True)
class TokenToMake:
    """A token that is not stored yet."""

    id: str
    name: str
    scopes: tuple[str, ...]
    principal: str
    #: Seconds until it expires; None: it does not expire.
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new API token, with its text."""

    id: str  #: Its public part.
    name: str  #: Its display name.
    scopes: tuple[str, ...]  #: Its scopes.
    #: Its text; the store does not keep it.
    token: str = field(repr=False)
    #: Owner of everything acquired with it.
    principal: str = ""


@dataclass(frozen=True, slots=True)
class SignInCode:
    """A sign-in code that was just created."""

    #: The code itself, to be passed to a browser; it is not stored.
    code: str = field(repr=False)
    #: Seconds until it expires.
    seconds: float


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """At least one."""
    found = tuple(dict.fromkeys(check_scope(each) for each in scopes))
    if not found:
        raise BadValue("scopes", list(scopes), "are missing; name a role or at least one scope")
    return found

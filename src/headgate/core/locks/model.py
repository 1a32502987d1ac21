"""Locks: the compatibility table and the entities."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from headgate.core.access.owners import LOCAL, Actor
from headgate.core.values.durations import in_words
from headgate.core.values.wire import INTERNAL


class Mode(StrEnum):
    """The modes of a lock."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


#: May a lock be granted, given what somebody holds already? The whole rule: where nobody does, any lock is granted.
COMPATIBLE: Mapping[tuple[Mode, Mode], bool] = {
    # (wanted,        held by anyone)
    (Mode.SHARED,     Mode.SHARED):    True,
    (Mode.SHARED,     Mode.EXCLUSIVE): False,
    (Mode.EXCLUSIVE,  Mode.SHARED):    False,
    (Mode.EXCLUSIVE,  Mode.EXCLUSIVE): False,
}  # fmt: skip


#: Events of the table that are counted.
GRANT_EVENT, REFUSE_EVENT = "grant", "refuse"
#: How a lock may have ended, in words.
ENDINGS: Mapping[str, str] = {
    "release": "it was released",
    "expire": "its lease expired",
    "break": "it was broken",
}


@dataclass(frozen=True, slots=True)
class Want:
    """One resource, and how it is wanted."""

    #: The resource's URI, exact.
    resource: str
    #: shared or exclusive.
    mode: Mode


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody asks for locks on one or more resources: all of them, or none."""

    #: The caller's id of this request: a repeat is recognised by it.
    id: str
    #: The client.
    client: str
    #: What is wanted, each resource once, sorted by resource.
    wants: tuple[Want, ...]
    #: Seconds that a grant lives without being renewed; None: until it is released.
    lease: float | None = None
    #: Seconds that the resource stays closed after its holder died with an exclusive lock.
    lock_delay: float = 0.0
    #: Count holds of the same client instead of refusing them.
    reentrant: bool = False
    #: The asking process, for people: host, process id, batch job.
    owner: str = ""
    #: Why the lock is taken, for people.
    note: str = ""
    #: True when the id was made for this request, so that it cannot be a repeat.
    fresh: bool = field(default=False, metadata=INTERNAL)
    #: True when a leased grant is to outlive this process's clean end: it is taken for a client of the service.
    outlives: bool = field(default=False, metadata=INTERNAL)
    #: The principal that asks, which will own the grant.
    principal: str = LOCAL
    #: The reason for joining holds of other principals; empty: joining is not allowed.
    override: str = ""

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return Actor(self.principal, self.override)

    @property
    def resources(self) -> tuple[str, ...]:
        """The wanted resources."""
        return tuple(want.resource for want in self.wants)

    def lock_id(self, tag: str, resource: str) -> str:
        """The id that a grant of this request has: the same request always gives the same one."""
        return lock_id(tag, resource, self.id)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that was granted, as the store answered at that moment."""

    #: Its id in the store.
    id: str
    #: URI of the resource.
    resource: str
    #: Name of the client that holds it.
    client: str
    #: shared or exclusive.
    mode: Mode
    #: Grows with every grant on the resource; pass it to whatever you write to. 0: not shown to this caller.
    token: int
    #: When it was granted, by the store's clock.
    since: datetime
    #: Lease length in seconds; None: it lasts until it is released.
    lease: float | None = None
    #: Seconds until the lease expires, when the store answered; None: persistent.
    expires_in: float | None = None
    #: How many times the same client holds it (re-entrant).
    count: int = 1
    #: The holding process, for people.
    owner: str = ""
    #: Why it is held, for people.
    note: str = ""
    #: The request that it was last granted to.
    request_id: str = field(default="", repr=False, compare=False)
    #: The principal that it belongs to; empty: it was granted before owners were recorded.
    principal: str = ""

    @property
    def alive(self) -> bool:
        """Whether the lease had not expired when the store answered."""
        return self.expires_in is None or self.expires_in > 0

    def granted_at(self, since: datetime) -> Lock:
        """The same lock, granted at that time."""
        return Lock(
            self.id, self.resource, self.client, self.mode, self.token, since, self.lease, self.expires_in, self.count,
            self.owner, self.note, self.request_id, self.principal,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiter:
    """A request in the queue of a resource."""

    #: Its number; lower is earlier, over all resources.
    ticket: int
    #: URI of the resource.
    resource: str
    #: Name of the waiting client.
    client: str
    #: shared or exclusive.
    mode: Mode
    #: When it joined the queue, by the store's clock.
    since: datetime
    #: The waiting process, for people.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason for a refusal: a lock, a waiter, or a storage guard."""

    #: "holder", "waiter", "guard" or "claim" (a job of the ledger works on the chunk).
    kind: str
    #: URI of the resource.
    resource: str
    #: Name of the client.
    client: str
    #: The mode that it holds or requests.
    mode: Mode
    #: When it was granted or joined the queue.
    since: datetime | None = None
    #: Id of the lock, if it is one.
    lock_id: str | None = None
    #: Seconds until it expires; None: it does not expire.
    expires_in: float | None = None
    #: The process behind it, for people.
    owner: str = ""
    #: Its note, for people.
    note: str = ""
    #: The principal that it belongs to, if it is a lock.
    principal: str = ""

    def sentence(self) -> str:
        """Return one line: who holds it, since when, and what ends it."""
        if self.kind == "guard":
            return f"{self.resource}: {self.note or 'locked by the storage system'}"
        if self.kind == "claim":
            return f"{self.resource}: {self.note} by {self.client}, {self._ending()}"
        who = f"{self.client} ({self.owner})" if self.owner else self.client
        since = f" since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        if self.kind == "waiter":
            return f"{self.resource}: {who} waits for {self.mode}{since} and is ahead in the queue"
        known = self.principal in ("", LOCAL, self.client, self.owner)
        whose = "" if known else f" for the principal {self.principal}"
        held = f"{self.resource}: {who} holds it {self.mode}{whose}{since}"
        note = f", note: {self.note}" if self.note else ""
        return f"{held}, {self._ending()}{note} [lock {self.lock_id}]"

    def _ending(self) -> str:
        if self.expires_in is None:
            return "persistent"
        return f"lease expires in {in_words(self.expires_in)} unless renewed"


Compatible = Mapping[tuple[Mode, Mode], bool]


def delay_of(mode: Mode, seconds: float) -> float:
    """The lock-delay after a holder in this mode died: a dead reader leaves nothing half-written."""
    return seconds if mode is Mode.EXCLUSIVE else 0.0


def lock_id(tag: str, resource: str, request_id: str) -> str:
    """The id of a grant: store, resource and request, so that an id of another store is seen at once."""
    return f"{tag}-{resource_key(resource)}-{_request_key(request_id)}"


@lru_cache(maxsize=4096)
def resource_key(resource: str) -> str:
    """The resource's name in short: exact on case and blanks, 80 bits."""
    return _letters(resource, 16)


@lru_cache(maxsize=1024)
def _request_key(request_id: str) -> str:
    return _letters(request_id, 12)


@lru_cache(maxsize=4096)
def resource_digest(resource: str) -> bytes:
    """The resource's name as a key of one size: exact on case and blanks."""
    return hashlib.sha256(resource.encode()).digest()


def _letters(text: str, count: int) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:10]).decode().lower()[:count]


def ends_at(lock: Lock, now: datetime) -> datetime | None:
    """Return when the lease expires, by the caller's clock; None: never."""
    return None if lock.expires_in is None else now + timedelta(seconds=lock.expires_in)

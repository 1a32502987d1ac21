"""Locks: the compatibility table and the entities."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
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
#: The ways in which a lock can end, in words.
ENDINGS: Mapping[str, str] = {
    "release": "it was released",
    "expire": "its lease expired",
    "break": "it was broken",
}


@dataclass(frozen=True, slots=True)
class Want:
    """One resource, and the mode wanted on it."""

    #: The resource's URI, exact.
    resource: str
    #: shared or exclusive.
    mode: Mode


@dataclass(frozen=True, slots=True)
class Request:
    """A request for locks on one or more resources: all of them or none."""

    #: The caller's id of this request, by which a repeat is recognised.
    id: str
    #: The client.
    client: str
    #: The wanted locks, each resource once, sorted by resource.
    wants: tuple[Want, ...]
    #: Lease length of a grant in seconds; None: until it is released.
    lease: float | None = None
    #: Seconds that the resource stays locked after its holder died with an exclusive lock.
    lock_delay: float = 0.0
    #: Count holds of the same client instead of refusing them.
    reentrant: bool = False
    #: The requesting process, for display: host, process id, batch job.
    owner: str = ""
    #: The purpose of the lock, for display.
    note: str = ""
    #: True when the id was made for this request, so that it cannot be a repeat.
    fresh: bool = field(default=False, metadata=INTERNAL)
    #: True when a leased grant is to outlive this process's clean end, because it is acquired for a client of the
    #: service.
    outlives: bool = field(default=False, metadata=INTERNAL)
    #: The requesting principal, which will own the grant.
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
        """The id of this request's grant: the same request always yields the same id."""
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
    #: 0: not shown to this caller.
    token: int
    #: When it was granted, by the store's clock.
    since: datetime
    #: Lease length in seconds; None: it lasts until it is released.
    lease: float | None = None
    #: Seconds until the lease expires, when the store answered; None: persistent.
    expires_in: float | None = None
    #: How many times the same client holds it (re-entrant).
    count: int = 1
    #: The holding process, for display.
    owner: str = ""
    #: The purpose of the lock, for display.
    note: str = ""
    #: The request that it was last granted to.
    request_id: str = field(default="", repr=False, compare=False)
    #: The principal that it belongs to; empty: it was granted before owners were recorded.
    principal: str = ""

    @property
    def alive(self) -> bool:
        """Whether the lease was still valid when the store answered."""
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
    #: The waiting process, for display.
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
    #: The process behind it, for display.
    owner: str = ""
    #: Its note, for display.
    note: str = ""
    #: The principal that owns it, if it is a lock.
    principal: str = ""

    @property
    def is_claim(self) -> bool:
        """Whether a job of the ledger works on the chunk."""
        return self.kind == "claim"

    def sentence(self) -> str:
        """Return one line: who holds it, since when, and what ends it."""
        if self.kind == "guard":
            return f"{self.resource}: {self.note or 'locked by the storage system'}"
        if self.is_claim:
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
    """The lock-delay after a holder in this mode died; none for readers, which leave nothing half-written."""
    return seconds if mode is Mode.EXCLUSIVE else 0.0


def lock_id(tag: str, resource: str, request_id: str) -> str:
    """The id of a grant: store, resource and request, so that ids of another store are recognised at once."""
    return f"{tag}-{resource_key(resource)}-{_request_key(request_id)}"


@lru_cache(maxsize=4096)
def resource_key(resource: str) -> str:
    """A short hash of the resource's name: sensitive to case and blanks, 80 bits."""
    return _letters(resource, 16)


@lru_cache(maxsize=1024)
def _request_key(request_id: str) -> str:
    return _letters(request_id, 12)


@lru_cache(maxsize=4096)
def resource_digest(resource: str) -> bytes:
    """A fixed-size key for the resource's name, sensitive to case and blanks."""
    return hashlib.sha256(resource.encode()).digest()


def _letters(text: str, count: int) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:10]).decode().lower()[:count]

"""Locks: the compatibility table, the entities, and the one function that decides and explains."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from headgate.core.durations import in_words
from headgate.core.errors import BadValue, ForeignStore
from headgate.core.owners import LOCAL, Actor
from headgate.core.words import unknown_word


class Mode(StrEnum):
    """How a resource is held."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


#: May a lock be granted, given what somebody holds already? The whole rule.
COMPATIBLE: Mapping[tuple[Mode, Mode | None], bool] = {
    # (wanted,        held by anyone)
    (Mode.SHARED,     None):           True,
    (Mode.SHARED,     Mode.SHARED):    True,
    (Mode.SHARED,     Mode.EXCLUSIVE): False,
    (Mode.EXCLUSIVE,  None):           True,
    (Mode.EXCLUSIVE,  Mode.SHARED):    False,
    (Mode.EXCLUSIVE,  Mode.EXCLUSIVE): False,
}  # fmt: skip

#: The words for the two modes, in any case.
MODE_WORDS: Mapping[str, Mode] = {
    "shared": Mode.SHARED,
    "read": Mode.SHARED,
    "exclusive": Mode.EXCLUSIVE,
    "write": Mode.EXCLUSIVE,
}


#: Store, resource and request.
_LOCK_ID = re.compile("[a-z0-9]{4}-[a-z2-7]{16}-[a-z2-7]{12}")

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
    #: Who asks.
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
    fresh: bool = False
    #: True when a leased grant is to outlive this process's clean end: it is taken for a client of the service.
    outlives: bool = False
    #: Who asks, as the service knows it: the grant is this principal's.
    principal: str = LOCAL
    #: Why holds of other principals may be joined; empty: they may not.
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
    """A grant. Frozen: what the store said at that moment."""

    #: Its id in the store.
    id: str
    #: The resource's URI.
    resource: str
    #: Who holds it.
    client: str
    #: shared or exclusive.
    mode: Mode
    #: Grows with every grant on the resource; hand it to whatever you write to. 0: it is not shown to this caller.
    token: int
    #: When it was granted, by the store's clock.
    since: datetime
    #: Seconds that it lives without being renewed; None: until it is released.
    lease: float | None = None
    #: Seconds until the lease runs out, when the store was asked; None: persistent.
    expires_in: float | None = None
    #: How many times the same client holds it (re-entrant).
    count: int = 1
    #: The holding process, for people.
    owner: str = ""
    #: Why it is held, for people.
    note: str = ""
    #: The request that it was granted to last.
    request_id: str = field(default="", repr=False, compare=False)
    #: The principal that it belongs to; empty: it was granted before owners were recorded.
    principal: str = ""

    @property
    def alive(self) -> bool:
        """False when the lease had run out as the store was asked."""
        return self.expires_in is None or self.expires_in > 0

    def granted_at(self, since: datetime) -> Lock:
        """The same lock, granted at that time."""
        return Lock(
            self.id, self.resource, self.client, self.mode, self.token, since, self.lease, self.expires_in, self.count,
            self.owner, self.note, self.request_id, self.principal,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiter:
    """A place in the queue of a resource."""

    #: Its number; smaller is earlier, over all resources.
    ticket: int
    #: The resource that is waited for.
    resource: str
    #: Who waits.
    client: str
    #: shared or exclusive.
    mode: Mode
    #: When the place was taken, by the store's clock.
    since: datetime
    #: The waiting process, for people.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason for a refusal: a lock, a waiter, or a storage guard."""

    #: "holder", "waiter", "guard" or "claim" (a job of the ledger works on the chunk).
    kind: str
    #: The resource that it stands on.
    resource: str
    #: Who it is.
    client: str
    #: How the resource is held or wanted by it.
    mode: Mode
    #: Since when.
    since: datetime | None = None
    #: The lock's id, if it is one.
    lock_id: str | None = None
    #: Seconds until it goes by itself; None: not by itself.
    expires_in: float | None = None
    #: The process behind it, for people.
    owner: str = ""
    #: Why, for people.
    note: str = ""
    #: The principal that it belongs to, if it is a lock.
    principal: str = ""

    def sentence(self) -> str:
        """One line that says who, since when, and what ends it."""
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


OnResource = TypeVar("OnResource", "Lock", "Waiter", "Blocker")


@dataclass(frozen=True, slots=True)
class Decision:
    """What may happen to a request: granted when there is no blocker."""

    #: Everything that is in the way.
    blockers: tuple[Blocker, ...]
    #: Locks of the same client that are entered once more instead of being granted anew.
    entered: Mapping[str, Lock]

    @property
    def granted(self) -> bool:
        """True when nothing is in the way."""
        return not self.blockers


#: There is nothing that could be in the way.
FREE = Decision((), {})


def parse_mode(value: object) -> Mode:
    """read, write, shared or exclusive, in any case."""
    if isinstance(value, str) and value.lower() in MODE_WORDS:
        return MODE_WORDS[value.lower()]
    raise unknown_word("mode", value, MODE_WORDS)


def parse_want(word: str, mode: str | None = None) -> tuple[str, Mode]:
    """Resource and mode of RESOURCE=MODE, or of RESOURCE, which means exclusive.

    What follows the last = must be a mode, so that a mistyped one cannot become part of a resource. `mode`: given
    apart; the word is then the resource as it stands.
    """
    resource, mark, last = word.rpartition("=")
    if mode is not None:
        if mark and last.lower() in MODE_WORDS:
            raise BadValue("resource", word, f"names a mode, and so does mode {mode!r}; give one of them")
        return word, parse_mode(mode)
    if not mark:
        return word, Mode.EXCLUSIVE
    if last.lower() not in MODE_WORDS:
        why = unknown_word("mode", last, MODE_WORDS).why
        again = f"{word}={Mode.EXCLUSIVE}"
        raise BadValue("mode", last, f"in {word!r} {why}\nA resource whose name contains = needs a mode: {again!r}")
    return resource, MODE_WORDS[last.lower()]


Compatible = Mapping[tuple[Mode, Mode | None], bool]


def decide(
    request: Request, held: Iterable[Lock], earlier: Iterable[Waiter] = (), compatible: Compatible = COMPATIBLE
) -> Decision:
    """May the request be granted, given the live locks and the waiters that came earlier?"""
    locks, waiting = by_resource(held), by_resource(earlier)
    if not (locks or waiting):
        return FREE
    blockers: list[Blocker] = []
    entered: dict[str, Lock] = {}
    for want in request.wants:
        here = locks.get(want.resource, [])
        own = _own_hold(request, here)
        if own and _may_enter(own, want, here, compatible):
            entered[want.resource] = own
            continue
        others = [lock for lock in here if lock is not own]
        blockers += [_holding(lock) for lock in others if not compatible[want.mode, lock.mode]]
        blockers += [
            _waiting(waiter) for waiter in waiting.get(want.resource, ()) if not compatible[want.mode, waiter.mode]
        ]
    return Decision(tuple(blockers), entered)


def delay_of(mode: Mode, seconds: float) -> float:
    """The lock-delay after a holder in this mode died: a dead reader leaves nothing half-written."""
    return seconds if mode is Mode.EXCLUSIVE else 0.0


def by_resource(found: Iterable[OnResource]) -> dict[str, list[OnResource]]:
    """Locks, waiters or blockers by the resource that they stand on, in the same order."""
    grouped: dict[str, list[OnResource]] = {}
    for each in found:
        grouped.setdefault(each.resource, []).append(each)
    return grouped


def claim_blockers(
    request: Request, claims: Iterable[Lock], compatible: Compatible = COMPATIBLE
) -> tuple[Blocker, ...]:
    """Jobs of the ledger that work on what is wanted, in a way that does not agree."""
    modes = {want.resource: want.mode for want in request.wants}
    return tuple(
        replace(_holding(claim), kind="claim")
        for claim in claims
        if claim.resource in modes and not compatible[modes[claim.resource], claim.mode]
    )


def _own_hold(request: Request, here: Sequence[Lock]) -> Lock | None:
    if not request.reentrant:
        return None
    may_join = request.actor.may_touch
    same = (lock for lock in here if lock.client == request.client and lock.alive and may_join(lock.principal))
    return next(same, None)


def _may_enter(own: Lock, want: Want, here: Sequence[Lock], compatible: Compatible) -> bool:
    if own.mode is Mode.EXCLUSIVE or want.mode is Mode.SHARED:
        return True
    return all(compatible[want.mode, other.mode] for other in here if other is not own)


def refusal_reasons(request: Request, blockers: Iterable[Blocker]) -> dict[str, str]:
    """Why a request was refused, by resource, in a line for the history: the first blocker on each."""
    wanted = {want.resource: want.mode for want in request.wants}
    return {
        resource: (
            f"requested {wanted[resource]}, but {by.client} {'waits for' if by.kind == 'waiter' else 'holds'} {by.mode}"
        )
        for resource, (by, *_) in by_resource(blockers).items()
    }


def decide_upgrade(
    lock: Lock, held: Iterable[Lock], target: Mode = Mode.EXCLUSIVE, compatible: Compatible = COMPATIBLE
) -> tuple[Blocker, ...]:
    """Every other holder that keeps a lock from changing to this mode."""
    return tuple(_holding(other) for other in held if other.id != lock.id and not compatible[target, other.mode])


def repeated_grant(request: Request, tag: str, held: Iterable[Lock]) -> tuple[Lock, ...]:
    """The grant that this very request was given already and still has, or nothing."""
    found = {lock.id: lock for lock in held if lock.alive}
    # The id tells, since its client may have entered the lock again by another request.
    grant = [found.get(request.lock_id(tag, want.resource)) for want in request.wants]
    if not any(grant) or (request.reentrant and not all(grant)):
        return ()
    same = all(
        lock
        and (lock.client, lock.mode) == (request.client, want.mode)
        and request.actor.may_touch(lock.principal)  # It may have been handed over since.
        for lock, want in zip(grant, request.wants, strict=True)
    )
    if not same:
        raise BadValue(
            "request id", request.id, ("was used for another request whose locks are still held; use a new one")
        )
    return tuple(lock for lock in grant if lock)


def find_cycle(client: str, waits_for: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Clients that wait for each other in a ring through this one, or nothing."""
    trail: list[str] = []
    seen: set[str] = set()

    def reaches(name: str) -> bool:
        trail.append(name)
        for other in sorted(set(waits_for.get(name, ()))):
            if other == client:
                return True
            if other not in seen:
                seen.add(other)
                if reaches(other):
                    return True
        trail.pop()
        return False

    return (*trail, client) if reaches(client) else ()


def lock_id(tag: str, resource: str, request_id: str) -> str:
    """The id of a grant: store, resource and request, so that an id of another store is seen at once."""
    return f"{tag}-{resource_key(resource)}-{_request_key(request_id)}"


def check_lock_id(lock_id: object, tag: str, store: str) -> str:
    """A lock's id, of this very store."""
    text = parse_lock_id(lock_id)
    if text[:4] != tag:
        raise ForeignStore(f"lock {text} belongs to another store ({text[:4]}); {store} is {tag}. Check HEADGATE_URL")
    return text


def parse_lock_id(lock_id: object) -> str:
    """A lock's id, of whatever store."""
    if isinstance(lock_id, str) and _LOCK_ID.fullmatch(lock_id):
        return lock_id
    raise BadValue("lock id", lock_id, "is not a lock id; list locks with: headgate lock list")


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


def _holding(lock: Lock) -> Blocker:
    return Blocker(
        "holder",
        lock.resource,
        lock.client,
        lock.mode,
        lock.since,
        lock.id,
        lock.expires_in,
        lock.owner,
        lock.note,
        lock.principal,
    )


def _waiting(waiter: Waiter) -> Blocker:
    return Blocker("waiter", waiter.resource, waiter.client, waiter.mode, waiter.since, owner=waiter.owner)


def ends_at(lock: Lock, now: datetime) -> datetime | None:
    """When the lease runs out, told on the clock of whoever asks; None: never by itself."""
    return None if lock.expires_in is None else now + timedelta(seconds=lock.expires_in)

"""What a decision about locks is made on, and what comes of it. Stores load the one and apply the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from headgate.core.access.owners import Actor, Override
from headgate.core.locks.model import Lock, Request, Waiter
from headgate.core.locks.rules import LOCK_RULES, LockRules

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One position in the wait queue of one resource."""

    waiter: Waiter
    #: The request that waits; positions of one request belong together.
    request_id: str = ""
    #: False: its process died.
    alive: bool = True
    #: The id that its grant will have. Empty: nothing can be handed to it (it waits for several resources, or
    #: re-entrantly), so it is woken and takes its turn itself.
    lock_id: str = ""
    #: The lease of its grant; None: persistent.
    lease: float | None = None
    #: The owner of its grant.
    principal: str = ""
    #: Where the store finds it: a channel, a node. Never looked at by a decision.
    ref: object = field(default=None, compare=False)

    def is_of(self, request: Request) -> bool:
        """Whether this very request waits here."""
        return (self.request_id, self.waiter.client) == (request.id, request.client)


@dataclass(frozen=True, slots=True)
class ResourceSnapshot:
    """One resource: its locks, its wait queue, and its newest token."""

    uri: str
    #: The newest token that was given on it.
    token: int = 0
    #: Whether it is listed.
    known: bool = False
    #: Locks that count: alive, or dead and kept in place by their lock-delay. In the order of their grants.
    locks: tuple[Lock, ...] = ()
    #: Locks whose lease, and lock-delay after it, have expired. Every decision ends them first.
    expired: tuple[Lock, ...] = ()
    #: The wait queue, earliest first, dead waiters included.
    queue: tuple[QueueEntry, ...] = ()
    #: Jobs that run on it (it is a chunk), as the locks that they act as.
    claims: tuple[Lock, ...] = ()


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """Some resources, held still (or guarded by their versions) until the changes are applied."""

    #: The store's tag: lock ids begin with it.
    tag: str
    resources: Mapping[str, ResourceSnapshot]
    #: The time of new grants, for people.
    now: datetime
    #: Only tokens above this one are given.
    floor: int = 0
    #: The caller that asks for a change.
    actor: Actor = field(default_factory=Actor)
    #: True: an earlier try of the same command was cut off, and may have happened.
    again: bool = False
    #: Waiters of one resource that are granted in one change; the rest follows with the next.
    most_handed: int = 1_000_000
    rules: LockRules = LOCK_RULES

    def locks(self) -> Iterable[Lock]:
        """Every lock that counts."""
        return (lock for each in self.resources.values() for lock in each.locks)


# ---------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class GrantLock:
    """A new lock is written; its lease begins now."""

    lock: Lock
    #: Seconds that the resource stays closed if its holder dies.
    lock_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class HandLock:
    """A new lock is written for a waiter, which may have died: it lives for `trial` seconds until it is confirmed."""

    lock: Lock
    entry: QueueEntry
    trial: float


@dataclass(frozen=True, slots=True)
class ConfirmLock:
    """The waiter accepts its lock: its lease begins in full, or it is persistent."""

    lock: Lock


@dataclass(frozen=True, slots=True)
class LengthenLease:
    """The lease restarts with this length; None: the lock is persistent from now on."""

    lock: Lock
    lease: float | None


@dataclass(frozen=True, slots=True)
class ChangeLock:
    """A lock stays, with another mode, token, count, request or owner."""

    before: Lock
    after: Lock


@dataclass(frozen=True, slots=True)
class EndLock:
    """A lock is removed."""

    lock: Lock
    #: How it ends: release, expire or break.
    event: str


@dataclass(frozen=True, slots=True)
class JoinQueue:
    """The request takes a number and the last position in each queue; `number`: the one that it had before."""

    request: Request
    number: int | None = None


@dataclass(frozen=True, slots=True)
class LeaveQueue:
    """A position is removed."""

    entry: QueueEntry


@dataclass(frozen=True, slots=True)
class LockRecord:
    """An entry of the history."""

    event: str
    resource: str
    client: str
    lock_id: str
    token: int
    before: str
    after: str
    reason: str
    #: The principal that did it.
    principal: str


@dataclass(frozen=True, slots=True)
class CountRefusal:
    """A refusal is counted; the first one of this client on this resource within a minute is recorded."""

    record: LockRecord


Change = (
    GrantLock | HandLock | ConfirmLock | LengthenLease | ChangeLock | EndLock | JoinQueue | LeaveQueue | LockRecord
    | CountRefusal | Override
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LockOutcome(Generic[T_co]):
    """What a command comes to."""

    #: What the caller gets. A LockRefused is a result too, since it is counted and recorded.
    result: T_co
    #: The changes to write, in an order in which they can be applied.
    changes: tuple[Change, ...]
    #: The resources as they are then.
    resources: Mapping[str, ResourceSnapshot]
    #: Waiters to wake: those that were handed a lock, and those whose turn it is to take one.
    wakes: tuple[QueueEntry, ...] = ()

    def has(self, kind: type[Change]) -> bool:
        """Whether a change of that kind is among them."""
        return any(type(change) is kind for change in self.changes)

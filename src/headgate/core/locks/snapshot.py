"""The snapshot for a decision about locks, and the decision's result. Stores load the snapshot and apply the result."""

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
    #: The id that its grant will have. Empty: it cannot be granted directly (it waits for several resources, or
    #: re-entrantly), so it is woken and acquires itself.
    lock_id: str = ""
    #: The lease of its grant; None: persistent.
    lease: float | None = None
    #: The owner of its grant.
    principal: str = ""
    #: The store's own reference: a channel, a node. Decisions ignore it.
    ref: object = field(default=None, compare=False)

    def is_of(self, request: Request) -> bool:
        """Whether this position belongs to the deciding request."""
        return (self.request_id, self.waiter.client) == (request.id, request.client)


@dataclass(frozen=True, slots=True)
class ResourceSnapshot:
    """One resource: its locks, its wait queue, and its newest token."""

    uri: str
    #: The newest token issued on it.
    token: int = 0
    #: Whether it appears in lists.
    known: bool = False
    #: Locks that count: alive, or dead and kept by their lock-delay. In the order in which they were granted.
    locks: tuple[Lock, ...] = ()
    #: Locks whose lease and lock-delay have expired. Every decision ends them first.
    expired: tuple[Lock, ...] = ()
    #: The wait queue, earliest first, dead waiters included.
    queue: tuple[QueueEntry, ...] = ()
    #: Jobs that are running on it (if it is a chunk), as the locks that they act as.
    claims: tuple[Lock, ...] = ()


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """Some resources, locked (or guarded by their versions) until the changes are applied."""

    #: The store's tag: the prefix of its lock ids.
    tag: str
    resources: Mapping[str, ResourceSnapshot]
    #: The time of new grants, for display.
    now: datetime
    #: Only tokens above this one are issued.
    floor: int = 0
    #: The caller that requests a change.
    actor: Actor = field(default_factory=Actor)
    #: True: an earlier attempt at the same command was interrupted, and may have taken effect.
    again: bool = False
    #: Number of waiters of one resource that are granted in one change; the rest follows with the next.
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
    #: Seconds that the resource stays locked if its holder dies.
    lock_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class HandLock:
    """A new lock is written for a waiter that may have died: it lives for `trial` seconds until it is confirmed."""

    lock: Lock
    entry: QueueEntry
    trial: float


@dataclass(frozen=True, slots=True)
class ConfirmLock:
    """The waiter accepts its lock: its full lease begins, or it becomes persistent."""

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
    """The result of a command."""

    #: The value returned to the caller. A LockRefused is a result too, since it is counted and recorded.
    result: T_co
    #: The changes to write, in an order in which they can be applied.
    changes: tuple[Change, ...]
    #: The resources after the changes.
    resources: Mapping[str, ResourceSnapshot]
    #: Waiters to wake: those that were granted a lock, and those that have to acquire now.
    wakes: tuple[QueueEntry, ...] = ()

    def has(self, kind: type[Change]) -> bool:
        """Whether a change of that kind is among them."""
        return any(type(change) is kind for change in self.changes)

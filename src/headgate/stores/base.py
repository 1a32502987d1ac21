"""The ports: what every store must do, in the words of the domain. No optional method.

All times and all expiry are judged by the store's own clock. Every method may raise StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headgate.core.history import Entry
from headgate.core.locks import Lock, Mode, Request, Waiter

Grant = tuple[Lock, ...]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the queues of all resources of one request."""

    #: Smaller is earlier, over all resources of the store.
    number: int
    #: What is waited for.
    request: Request


@dataclass(frozen=True, slots=True)
class LockFilter:
    """Which locks to list; None: any."""

    resource: str | None = None
    client: str | None = None
    mode: Mode | None = None
    #: Only ids after this one (page by key).
    after: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which history entries to list; None: any."""

    resource: str | None = None
    client: str | None = None
    event: str | None = None
    lock_id: str | None = None
    since: datetime | None = None
    #: Only entries before this one (newest first, page by key).
    before: int | None = None
    limit: int = 100


class LockStore(Protocol):
    """Locks and their queues, clients, resources and history."""

    #: What errors call this store: its URL without a password.
    name: str
    #: Four letters that every lock id of this store begins with.
    tag: str

    def acquire(self, request: Request) -> Grant:
        """Free: all wanted resources become held. Otherwise LockRefused with every blocker, counted.

        A request id that was granted already, and is still held, gives the same grant again.
        """

    def queue_up(self, request: Request) -> Grant | Ticket:
        """As acquire, but a place at the end of the queue instead of a refusal."""

    def await_turn(self, ticket: Ticket, seconds: float) -> None:
        """Sleep until the ticket's turn may have come, or for that long. Wakes early rather than late."""

    def take_turn(self, ticket: Ticket) -> Grant | None:
        """Waiting: held if it is the ticket's turn, else None. Tells the store that the waiter lives."""

    def give_up(self, ticket: Ticket) -> Grant:
        """The time is over: held if it is the ticket's turn after all, else out of the queue and LockRefused."""

    def withdraw(self, ticket: Ticket) -> None:
        """Out of the queue, whatever happened; a grant that was made meanwhile is given back. Never refuses."""

    def release(self, lock_id: str, token: int) -> None:
        """Held by that id and token, and alive: free (or one hold less). Otherwise LockLost, nothing changes."""

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        """Held and alive: the lease begins anew (of that length, if given). Otherwise LockLost."""

    def check(self, lock_id: str, token: int) -> Lock:
        """Held and alive: the lock as it is. Otherwise LockLost. Writes nothing."""

    def upgrade(self, lock_id: str, token: int) -> Lock:
        """Shared and the sole holder: exclusive, with a new token.

        Otherwise LockRefused, LockLost, or TransitionRefused when it is exclusive already.
        """

    def downgrade(self, lock_id: str, token: int) -> Lock:
        """Exclusive: shared, same token. Otherwise LockLost, or TransitionRefused when it is shared already."""

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        """Call `lost(why)`, from any thread, as soon as the store itself learns that the lock is gone.

        Gives a function that ends the watch. A store that learns of it only when asked never calls.
        """

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        """Held by anybody: free; gives what was broken. UnknownName when there is none."""

    def get(self, lock_id: str) -> Lock:
        """The live lock of that id. UnknownName when there is none."""

    def list(self, which: LockFilter) -> Sequence[Lock]:
        """Live locks, by id."""

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        """Each held resource with its mode and its number of locks, by resource."""

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        """Live waiters, earliest first, one entry for each resource that is waited for."""

    def expire(self, limit: int = 1000) -> int:
        """Held, but its lease has run out: free, told in the history. Gives how many."""

    def history(self, which: HistoryFilter) -> Sequence[Entry]:
        """What happened, newest first."""

    def register_client(self, client: str) -> datetime:
        """Make the client known, if it is not; gives since when it is."""

    def clients(self) -> Sequence[tuple[str, datetime]]:
        """Registered clients and since when, by name."""

    def forget_client(self, client: str) -> None:
        """Known: unknown. UnknownName when there is none; Refused while it holds a lock."""

    def register_resource(self, resource: str) -> None:
        """Make the resource known, if it is not."""

    def resources(self) -> Sequence[str]:
        """Known resources, sorted: registered or ever locked, and not forgotten."""

    def forget_resource(self, resource: str) -> None:
        """Known: unknown, its token kept. UnknownName when there is none; Refused while it is held or waited for."""

    def close(self) -> None:
        """Let go of connections. Leased locks on a session end with it; nothing else changes."""

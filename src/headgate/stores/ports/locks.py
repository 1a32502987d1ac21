"""The port of locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Mode, Request, Waiter
from headgate.core.locks.tickets import Granted, Ticket


class LockStore(Protocol):
    """Locks and their queues, clients and resources."""

    #: What errors call this store: its URL without a password.
    name: str
    #: Four letters that every lock id of this store begins with.
    tag: str

    def acquire(self, request: Request) -> Granted:
        """Free: all wanted resources become held. Otherwise LockRefused with every blocker, counted.

        A request id that was granted already, and is still held, returns the same grant again.
        """

    def queue_up(self, request: Request) -> Granted | Ticket:
        """As acquire, but a place at the end of the queue instead of a refusal."""

    def place_of(self, request: Request) -> Ticket | None:
        """The place that this very request has in the queue. None: it has none that is seen from here; `queue_up` finds
        what was granted, and any other place, or takes one.
        """

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        """Waiting: call `wake`, from any thread, when the ticket's turn may have come, until it leaves the queue.

        Wakes early rather than late. A second call replaces the first.
        """

    def look(self, ticket: Ticket) -> float:
        """Waiting: 0 when the ticket's turn may have come, else the seconds after which to look again if not woken."""

    def take_turn(self, ticket: Ticket) -> Granted | None:
        """Waiting: held if it is the ticket's turn, else None. Also a sign of life of the waiter."""

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        """Record a sign of life of these waiters, when no thread waits for them."""

    def give_up(self, ticket: Ticket) -> Granted:
        """Stop waiting: held if it is the ticket's turn after all, otherwise out of the queue and LockRefused."""

    def withdraw(self, ticket: Ticket) -> None:
        """Leave the queue, whatever happened; a grant that was made meanwhile is released. Never refuses."""

    def release(self, lock_id: str, token: int) -> None:
        """Held by that id and token, and alive: free (or one hold less). Otherwise LockLost, nothing changes."""

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        """Held and alive: the lease is renewed (with that length, if given). Otherwise LockLost."""

    def check(self, lock_id: str, token: int) -> Lock:
        """Held and alive: the lock as it is. Otherwise LockLost. Writes nothing."""

    def upgrade(self, lock_id: str, token: int) -> Lock:
        """Shared and the sole holder: exclusive, with a new token.

        Otherwise LockRefused, LockLost, or TransitionRefused when it is exclusive already.
        """

    def downgrade(self, lock_id: str, token: int) -> Lock:
        """Exclusive: shared, same token. Otherwise LockLost, or TransitionRefused when it is shared already."""

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        """Held, by the acting principal or anybody it may act for: it belongs to the other one, by a new token.

        UnknownName when there is none, NotOwner when it is another principal's.
        """

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        """Call `lost(why)`, from any thread, as soon as the store itself learns that the lock is gone.

        Returns a function that ends the watch. A store that learns of it only when asked never calls.
        """

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        """Held by anybody: free. Returns the broken lock. UnknownName when there is none."""

    def get(self, lock_id: str) -> Lock:
        """The live lock of that id. UnknownName when there is none."""

    def list(self, which: LockFilter) -> Sequence[Lock]:
        """Live locks, by id."""

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        """Each held resource with its mode and its number of locks, by resource."""

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        """Live waiters, earliest first, one entry for each resource that is waited for."""

    def expire(self, limit: int = 1000) -> int:
        """Held, but its lease has expired: free, with an entry in the history. Returns how many."""

    def register_client(self, client: str) -> datetime:
        """Register the client, unless it is registered. Returns since when it is."""

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

    def faults(self) -> Sequence[Fault]:
        """Damage to locks, chunks, counters, history and clock, each with what a repair does. Writes nothing."""

    def repair(self, fault: Fault, who: str) -> bool:
        """Repair it as it says, if it is still so. False: it is no longer so, or cannot be repaired."""

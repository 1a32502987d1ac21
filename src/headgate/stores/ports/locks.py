"""The port of locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Mode, Request, Waiter
from headgate.core.locks.rules import LockRules
from headgate.core.locks.tickets import Granted, Ticket


class LockStore(Protocol):
    """Locks and their queues, clients and resources."""

    #: The name of this store in error messages: its URL without a password.
    name: str
    #: The four-letter prefix of every lock id of this store.
    tag: str
    #: The tables that decide here.
    rules: LockRules

    def acquire(self, request: Request) -> Granted:
        """If free: all wanted resources become held. Otherwise LockRefused with every blocker, counted.

        A request id that was granted already, and whose locks are still held, returns the same grant.
        """

    def queue_up(self, request: Request) -> Granted | Ticket:
        """Like acquire, but with a position at the end of the queue instead of a refusal."""

    def place_of(self, request: Request) -> Ticket | None:
        """The position of this request in the queue. None: this process sees none; `queue_up` finds a grant or any
        other position, or takes one.
        """

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        """While waiting: call `wake`, from any thread, when the ticket's turn may have come, until it leaves the queue.

        It may call too early, but not too late. A second call replaces the first.
        """

    def look(self, ticket: Ticket) -> float:
        """While waiting: 0 when the ticket's turn may have come, else the seconds after which to check again if not
        woken.
        """

    def take_turn(self, ticket: Ticket) -> Granted | None:
        """While waiting: acquire if it is the ticket's turn, else None. Also a sign of life of the waiter."""

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        """Record a sign of life of these waiters, when no thread waits for them."""

    def give_up(self, ticket: Ticket) -> Granted:
        """Stop waiting: acquire if it is the ticket's turn after all, otherwise leave the queue with LockRefused."""

    def withdraw(self, ticket: Ticket) -> None:
        """Leave the queue in any case; a grant that was made meanwhile is released. Never refuses."""

    def release(self, lock_id: str, token: int) -> None:
        """If held by that id and token, and alive: free it (or release one hold). Otherwise LockLost, and nothing
        changes.
        """

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        """If held and alive: renew the lease (with the given length, if any). Otherwise LockLost."""

    def check(self, lock_id: str, token: int) -> Lock:
        """If held and alive: return the current lock. Otherwise LockLost. Writes nothing."""

    def upgrade(self, lock_id: str, token: int) -> Lock:
        """Shared and the sole holder: change to exclusive, with a new token.

        Otherwise LockRefused, LockLost, or TransitionRefused when it is exclusive already.
        """

    def downgrade(self, lock_id: str, token: int) -> Lock:
        """Exclusive: change to shared, with the same token. Otherwise LockLost, or TransitionRefused when it is shared
        already.
        """

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        """If held by the acting principal, or one that it may act for: the lock gets the other owner and a new token.

        UnknownName when there is none, NotOwner when it belongs to another principal.
        """

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        """Call `lost(why)`, from any thread, as soon as the store itself notices that the lock is lost.

        Returns a function that ends the watch. A store that only notices this when asked never calls it.
        """

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        """Held by any client: free it. Returns the broken lock. UnknownName when there is none."""

    def get(self, lock_id: str) -> Lock:
        """The live lock with that id. UnknownName when there is none."""

    def list(self, which: LockFilter) -> Sequence[Lock]:
        """Live locks, by id."""

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        """Each held resource with its mode and its number of locks, by resource."""

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        """Live waiters, earliest first, one entry for each resource that they wait for."""

    def expire(self, limit: int = 1000) -> int:
        """Held with an expired lease: free it, with an entry in the history. Returns how many."""

    def register_client(self, client: str) -> datetime:
        """Register the client, unless it is registered. Returns when it was registered."""

    def clients(self) -> Sequence[tuple[str, datetime]]:
        """Registered clients with the time of registration, by name."""

    def forget_client(self, client: str) -> None:
        """Known: unknown. UnknownName when there is none; Refused while it holds a lock."""

    def register_resource(self, resource: str) -> None:
        """Add the resource to the list, if it is not there."""

    def resources(self) -> Sequence[str]:
        """Listed resources, sorted: registered or locked at some time, and not forgotten."""

    def forget_resource(self, resource: str) -> None:
        """Remove it from the list; its token is kept. UnknownName when there is none; Refused while it is held or
        waited for.
        """

    def faults(self) -> Sequence[Fault]:
        """Damage to locks, chunks, counters, history and clock, each with the effect of a repair. Writes nothing."""

    def repair(self, fault: Fault, who: str) -> bool:
        """Repair it as described, if it is still there. False: it is no longer there, or cannot be repaired."""

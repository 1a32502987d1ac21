"""Locks: what may be asked of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from headgate.calls.actor import actor
from headgate.core.errors import BadValue, HeadgateError, LockLost, LockRefused, Unavailable
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks import Blocker, Lock, Mode, Request, Waiter, Want, decide, parse_lock_id, parse_mode
from headgate.core.names import RESOURCE_LIMIT, check_name, check_note, check_reason, check_request_id, check_resource
from headgate.core.owners import LOCAL, check_principal
from headgate.core.tickets import Grant, Ticket
from headgate.service.checks import check_lease, check_limit, check_seconds, check_span, check_token
from headgate.service.clock import steady
from headgate.service.guard_keeper import GuardKeeper, GuardsBusy
from headgate.service.guard_tending import AskUnguarded, GuardTending
from headgate.service.guards import GuardBusy
from headgate.service.identity import new_request_id, owner
from headgate.service.obtaining import Obtaining
from headgate.service.renewal import LONGEST_PAUSE_SECONDS, Hold
from headgate.service.undoing import leave as leave_undone
from headgate.service.waiting import Obtained, Waiting
from headgate.stores.base import LockStore
from headgate.stores.options import DEFAULT_OPTIONS
from headgate.telemetry import event

#: Leases of `held`: short enough that a dead holder is noticed, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: A persistent lock that could not be released at the end of its block is tried again after so long, then less often.
RELEASE_AGAIN_SECONDS = 0.25
LockLike = Lock | Hold | str


class Locks:
    """Shared and exclusive locks on resources, by named clients."""

    def __init__(
        self,
        store: LockStore,
        guards: GuardKeeper | None = None,
        lock_delay: float = 0.0,
        answer_within: float = DEFAULT_OPTIONS.answer_within,
        resource_limit: int = RESOURCE_LIMIT,
        unguarded: AskUnguarded | None = None,
    ) -> None:
        """`unguarded`: asks the service that keeps the guards for locks without one (default: they are kept here)."""
        self._store = store
        self._guards = guards or GuardKeeper({})
        self._obtaining = Obtaining(store, self._guards, answer_within)
        self._lock_delay = check_span("lock_delay", lock_delay)
        self._unguarded = unguarded
        #: Resources that one request may name.
        self.resource_limit = resource_limit

    def acquire(
        self,
        client: str,
        resource: str,
        mode: str,
        *,
        wait: float = 0,
        lease: float | None = None,
        reentrant: bool = False,
        note: str = "",
        request_id: str | None = None,
    ) -> Lock:
        """A lock, or LockRefused with who is in the way. With `wait`, queue for up to that many seconds."""
        wants = {check_resource(resource): mode}
        return self.acquire_all(
            client, wants, wait=wait, lease=lease, reentrant=reentrant, note=note, request_id=request_id
        )[0]

    def acquire_all(
        self,
        client: str,
        resources: Mapping[str, str],
        *,
        wait: float = 0,
        lease: float | None = None,
        reentrant: bool = False,
        note: str = "",
        request_id: str | None = None,
    ) -> Grant:
        """Locks on all of these, or on none: one step. In the order of the resources' names."""
        obtained = self._obtain(
            client, resources, wait=wait, lease=lease, note=note, reentrant=reentrant, request_id=request_id
        )
        return obtained.grant

    # The steps of waiting, for a service whose callers wait without a thread.

    def grant(self, request: Request) -> Grant:
        """What a request that was made elsewhere asks for, at once or not at all."""
        return self._obtaining.acquire(request)

    def queue_up(self, request: Request) -> Grant | Ticket:
        """As `grant`, but a place at the end of the queue. LockRefused by guards alone: ask again, soon."""
        found = self._obtaining.queue_up(request)
        return found if isinstance(found, Ticket) else found.grant

    def place_of(self, request: Request) -> Ticket | None:
        """The place that this very request has in the queue; None: none that is seen from here."""
        return self._store.place_of(request)

    def waiting(
        self, request: Request, deadline: float, wake: Callable[[], None], ticket: Ticket | None = None
    ) -> Waiting:
        """Wait for a request in steps until the deadline (steady); `wake` is called when it is time for the next one.

        The caller keeps the place alive. `ticket`: the place that the request has already.
        """
        return Waiting(self._obtaining, request, deadline, wake, ticket=ticket, kept=True)

    def take_turn(self, ticket: Ticket) -> Grant | None:
        """The grant if it is the ticket's turn and no program outside is in the way, else None; the place is kept."""
        try:
            found = self._obtaining.take_turn(ticket)
        except GuardsBusy:
            self._store.keep_places([ticket])
            return None
        return found.grant if found else None

    def give_up(self, ticket: Ticket) -> Grant:
        """Leave the queue: the grant if it is the ticket's turn after all, else LockRefused."""
        return self._obtaining.give_up(ticket).grant

    def withdraw(self, request: Request, ticket: Ticket) -> None:
        """Leave the queue, whatever happened."""
        self._guards.leave_line(request.id)
        self._store.withdraw(ticket)

    @contextmanager
    def held(
        self,
        client: str,
        resource: str,
        mode: str = "exclusive",
        *,
        wait: float = 0,
        lease: float | None = DEFAULT_LEASE,
        note: str = "",
        on_lost: Callable[[LockLost], None] | None = None,
        margin: float = 0.0,
    ) -> Iterator[Hold]:
        """Hold a lock while a block runs: renewed meanwhile, released after it, LockLost if it was lost.

        `on_lost` is called from another thread, `margin` seconds before the lock can be gone.
        """
        with self.held_all(
            client,
            {check_resource(resource): mode},
            wait=wait,
            lease=lease,
            note=note,
            on_lost=on_lost,
            margin=margin,
        ) as holds:
            yield holds[0]

    @contextmanager
    def held_all(
        self,
        client: str,
        resources: Mapping[str, str],
        *,
        wait: float = 0,
        lease: float | None = DEFAULT_LEASE,
        note: str = "",
        on_lost: Callable[[LockLost], None] | None = None,
        margin: float = 0.0,
    ) -> Iterator[tuple[Hold, ...]]:
        """As `held`, for all of these resources or none."""
        obtained = self._obtain(client, resources, wait=wait, lease=lease, note=note)
        holds = tuple(Hold(self, lock, obtained.sent, on_lost, margin) for lock in obtained.grant)
        for hold in holds:
            hold.start()
        try:
            yield holds
        except BaseException:
            self._end(holds)
            raise
        lost = self._end(holds)
        if lost:
            raise lost

    def release(self, lock: LockLike, token: int | None = None) -> None:
        """Give a lock back. LockLost, and nothing changes, when it is not yours."""
        lock_id, number = _reference(lock, token)
        try:
            self._store.release(lock_id, number)
        except LockLost:
            self._guards.lose(lock_id, number)
            raise
        event("lock.released", lock=lock_id, token=number)
        self._guards.leave(lock_id)

    def renew(self, lock: LockLike, token: int | None = None, *, lease: float | None = None) -> Lock:
        """Let the lease begin anew. LockLost when it has run out: an expired lease is not renewed."""
        lock_id, number = _reference(lock, token)
        return self._store.renew(lock_id, number, check_lease(lease))

    def check(self, lock: LockLike, token: int | None = None) -> Lock:
        """Ask the store: the lock as it is, or LockLost."""
        return self._store.check(*_reference(lock, token))

    def upgrade(self, lock: LockLike, token: int | None = None) -> Lock:
        """Shared to exclusive for the only holder, with a new token; LockRefused otherwise. Never waits."""
        with _unrenewed(lock):
            lock_id, number = _reference(lock, token)
            before = self._guard_upgrade(lock_id)
            try:
                changed = self._store.upgrade(lock_id, number)
            except BaseException:
                if before:
                    self._guards.change(lock_id, before)
                raise
            return self._changed(lock, changed)

    def downgrade(self, lock: LockLike, token: int | None = None) -> Lock:
        """Exclusive to shared, in one step."""
        with _unrenewed(lock):
            changed = self._store.downgrade(*_reference(lock, token))
            self._guards.change(changed.id, Mode.SHARED)
            return self._changed(lock, changed)

    def hand_over(self, lock_id: str, *, to: str, reason: str = "") -> Lock:
        """Let a lock belong to another principal, and return it. NotOwner when it is another's.

        It has a new token, which a service tells to the new owner alone (0: it was not told).
        """
        owner_after = LOCAL if to == LOCAL else check_principal(to)
        handed = self._store.hand_over(lock_id, owner_after, check_note("reason", reason))
        event("lock.handed_over", logging.WARNING, lock=lock_id, to=to, reason=reason)
        self._guards.changed(handed)
        return handed

    def break_lock(self, lock_id: str, *, reason: str, by: str | None = None) -> Lock:
        """An operator's act: the lock goes, its token is stale, the reason is kept."""
        broken = self._store.break_lock(lock_id, check_reason(reason), owner() if by is None else check_name("by", by))
        event(
            "lock.broken",
            logging.WARNING,
            lock=lock_id,
            resource=broken.resource,
            client=broken.client,
            reason=reason,
        )
        self._guards.lose(lock_id, broken.token)
        return broken

    def get(self, lock_id: str) -> Lock:
        """One live lock."""
        return self._noted(self._store.get(lock_id))

    def list(
        self,
        resource: str | None = None,
        client: str | None = None,
        mode: str | None = None,
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Lock]:
        """Live locks, by id; page on with `after` the last one."""
        which = LockFilter(
            resource=None if resource is None else check_resource(resource),
            client=None if client is None else check_name("client", client),
            mode=None if mode is None else parse_mode(mode),
            after=None if after is None else parse_lock_id(after),
            limit=None if limit is None else check_limit(limit),
        )
        found = self._store.list(which)
        return [self._noted(lock) for lock in found] if self._guards.missing else found

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        """Who waits, earliest first."""
        return self._store.waiters(None if resource is None else check_resource(resource))

    def explain(self, resource: str) -> Sequence[tuple[Waiter, tuple[Blocker, ...]]]:
        """The waiters for a resource, earliest first, each with everything that blocks it."""
        waiting = self.waiters(resource)
        return _with_blockers(waiting, self.list(resource) if waiting else ())

    def stuck(self) -> Sequence[tuple[Waiter, tuple[Blocker, ...]]]:
        """The waiters for every resource, earliest first, each with everything that blocks it."""
        waiting = self.waiters()
        resources = {waiter.resource for waiter in waiting}
        return _with_blockers(waiting, [lock for each in sorted(resources) for lock in self.list(each)])

    def clients(self) -> Sequence[tuple[str, datetime]]:
        """Registered clients and since when, by name."""
        return self._store.clients()

    def register_client(self, client: str) -> datetime:
        """Make a client known, if it is not; gives since when it is. Taking a lock does not need it."""
        return self._store.register_client(check_name("client", client))

    def forget_client(self, client: str) -> None:
        """Make a client unknown. Refused while it holds a lock, UnknownName when there is none."""
        self._store.forget_client(check_name("client", client))

    def resources(self) -> Sequence[str]:
        """Known resources, sorted: registered or ever locked, and not forgotten."""
        return self._store.resources()

    def register_resource(self, resource: str) -> None:
        """Make a resource known, if it is not. Taking a lock on it does so too."""
        self._store.register_resource(check_resource(resource))

    def forget_resource(self, resource: str) -> None:
        """Make a resource unknown; its token is kept. Refused while it is held or waited for."""
        self._store.forget_resource(check_resource(resource))

    def expire(self, *, limit: int = 1000) -> int:
        """Free up to `limit` locks whose lease has expired. Requests for such a resource do so anyway."""
        return self._store.expire(check_limit(limit))

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        """Each held resource with its mode and its number of locks, by resource."""
        return self._store.summary()

    def status(self, *, rich: bool = False) -> dict[str, Any]:
        """The service status of ICAT's IDS; the rich form adds holders and waiters."""
        locks = [{"id": resource, "type": mode.upper(), "count": count} for resource, mode, count in self.summary()]
        status: dict[str, Any] = {"opsQueue": [], "lockCount": len(locks), "locks": locks, "failures": []}
        if rich:
            status["holders"] = [asdict(lock) for lock in self._store.list(LockFilter())]
            status["waiting"] = [asdict(waiter) for waiter in self._store.waiters()]
        return status

    def faults(self) -> Sequence[Fault]:
        """Damage to locks, chunks, counters, history and clock, each with what a repair does. Changes nothing."""
        return self._store.faults()

    def repair(self, fault: Fault, *, by: str) -> bool:
        """Repair a fault as it says, if it is still there. False: it is not, or an operator must look."""
        repaired = self._store.repair(fault, check_name("client", by))
        if repaired:
            event("store.repair", logging.WARNING, kind=fault.kind, item=fault.item)
        return repaired

    # ---------------------------------------------------------------- guards

    @cached_property
    def tending(self) -> GuardTending:
        """How a service keeps the guards of locks, and how missing ones are found."""
        return GuardTending(self._store, self._guards, self._unguarded)

    def close(self) -> None:
        """Release the storage guards of this process, and undo nothing any more; the locks stay as they are."""
        leave_undone(self._store)
        self._guards.close()

    def must_outlive(self, resource: str) -> None:
        """BadValue where a storage guard would end with this process, and the lock would not."""
        if self._guards.covers(check_resource(resource)) and not self._guards.lasting:
            raise BadValue(
                "resource", resource,
                "has a storage guard, which would end with this command; use `headgate lock run`, or acquire the lock "
                "through a service (headgate up), which keeps the guard",
            )  # fmt: skip

    def _noted(self, lock: Lock) -> Lock:
        """The lock, with a note when its guard is missing."""
        found = self._guards.missing.get(lock.id)
        if found is None:
            return lock
        return replace(lock, note=f"{lock.note} [no storage guard: {found.why}]".lstrip())

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        """Be told at once when the store learns that a lock is gone."""
        return self._store.watch_loss(lock, lost)

    def _obtain(
        self,
        client: str,
        resources: Mapping[str, str],
        *,
        wait: float,
        lease: float | None,
        note: str,
        reentrant: bool = False,
        request_id: str | None = None,
    ) -> Obtained:
        request = Request(
            id=new_request_id() if request_id is None else check_request_id(request_id),
            client=check_name("client", client),
            wants=check_wants(resources, self.resource_limit),
            lease=check_lease(lease),
            lock_delay=self._lock_delay,
            reentrant=bool(reentrant),
            owner=owner(),
            note=check_note("note", note),
            fresh=request_id is None,
            principal=actor().principal,
            override=actor().override,
        )
        return self._obtaining.obtain(request, steady() + check_seconds("wait", wait))

    def _end(self, holds: Sequence[Hold]) -> HeadgateError | None:
        """Stop renewing, then give back what is still ours, or may be. Gives the first error."""
        errors: list[HeadgateError] = []
        for hold in holds:
            hold.stop()
        for hold in holds:
            try:
                if hold.lost:
                    errors.append(hold.lost)
                    self._guards.lose(hold.id, hold.token)
                    with suppress(HeadgateError):  # The store may still have it; otherwise it ends by itself.
                        self._store.release(hold.id, hold.token)
                else:
                    self.release(hold)
            except HeadgateError as error:
                errors.append(error)
                if isinstance(error, Unavailable) and hold.lease is None:
                    self._release_later(hold.lock)
        return errors[0] if errors else None

    def _release_later(self, lock: Lock) -> None:
        """Nobody will release a persistent lock whose block has ended: try again until the store answers."""

        def run() -> None:
            pause = RELEASE_AGAIN_SECONDS
            while True:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                try:
                    self._store.release(lock.id, lock.token)
                except Unavailable:
                    continue
                except HeadgateError:
                    return  # It is gone already.
                event("lock.released", lock=lock.id, token=lock.token)
                self._guards.leave(lock.id)
                return

        threading.Thread(target=run, name="headgate-release", daemon=True).start()

    def _guard_upgrade(self, lock_id: str) -> Mode | None:
        try:
            return self._guards.change(lock_id, Mode.EXCLUSIVE)
        except GuardBusy as error:
            held = self._store.get(lock_id)
            request = Request(held.request_id, held.client, (Want(held.resource, Mode.EXCLUSIVE),), held.lease)
            raise LockRefused(request, [Blocker("guard", held.resource, "", held.mode, note=str(error))]) from error

    def _changed(self, lock: LockLike, changed: Lock) -> Lock:
        self._guards.changed(changed)
        event("lock.changed", lock=changed.id, mode=changed.mode, token=changed.token)
        if isinstance(lock, Hold):
            lock.lock = changed
        return changed


def _unrenewed(lock: LockLike) -> AbstractContextManager[object]:
    """Within this a hold is not renewed, so that its renewal never meets a token that is about to change."""
    return lock.busy if isinstance(lock, Hold) else nullcontext()


def check_wants(resources: Mapping[str, str], most: int) -> tuple[Want, ...]:
    """Each resource once, sorted, with its mode; BadValue for more than `most`."""
    if not isinstance(resources, Mapping):
        raise BadValue("resources", resources, "is not a mapping of resource to mode")
    if not resources:
        raise BadValue("resources", resources, "is empty; name at least one")
    if len(resources) > most:
        why = f"are too many for one request; at most {most:,} are accepted (setting resource_limit)"
        raise BadValue("resources", f"{len(resources):,} of them", why)
    return tuple(Want(check_resource(uri), parse_mode(resources[uri])) for uri in sorted(resources, key=str))


def _reference(lock: LockLike, token: object) -> tuple[str, int]:
    """What names a grant: its id and its token."""
    if isinstance(lock, Lock | Hold):
        token = lock.token if token is None else token
        lock = lock.id
    if token is None:
        raise BadValue("token", token, "is missing; a lock id needs its token")
    return lock, check_token(token)


def _with_blockers(waiting: Sequence[Waiter], held: Sequence[Lock]) -> list[tuple[Waiter, tuple[Blocker, ...]]]:
    """Each waiter with the holders and the earlier waiters that block it."""
    found = []
    for place, waiter in enumerate(waiting):
        request = Request(str(waiter.ticket), waiter.client, (Want(waiter.resource, waiter.mode),))
        earlier = [other for other in waiting[:place] if other.ticket != waiter.ticket]
        found.append((waiter, decide(request, held, earlier).blockers))
    return found

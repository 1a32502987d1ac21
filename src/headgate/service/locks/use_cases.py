"""Locks: the use cases."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from headgate.core.access.owners import LOCAL
from headgate.core.access.principals import check_principal
from headgate.core.errors import BadValue, HeadgateError, LockLost, LockRefused, Unavailable
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.decisions import decide
from headgate.core.locks.model import Blocker, Lock, Mode, Request, Waiter, Want
from headgate.core.locks.parsing import parse_lock_id, parse_mode
from headgate.core.locks.rules import LockRules
from headgate.core.locks.tickets import Granted
from headgate.core.values.names import (
    RESOURCE_LIMIT,
    check_name,
    check_note,
    check_reason,
    check_resource,
)  # fmt: skip
from headgate.service.access.identity import owner
from headgate.service.checks import check_lease, check_limit, check_seconds, check_span, check_token
from headgate.service.guards.keeper import GuardKeeper
from headgate.service.guards.kinds import GuardBusy
from headgate.service.guards.tending import GuardTending
from headgate.service.leases.clock import steady
from headgate.service.leases.renewal import LockHold
from headgate.service.locks.obtaining import Obtained, Obtaining
from headgate.service.locks.requests import checked_request
from headgate.service.locks.steps import LockSteps
from headgate.service.locks.undoing import leave as leave_undone
from headgate.service.locks.undoing import undo_later
from headgate.service.locks.waiting import obtain
from headgate.service.locks.wants import Single, Wanted, check_wants
from headgate.stores.options import DEFAULT_OPTIONS
from headgate.stores.ports.locks import LockStore
from headgate.telemetry import event

#: Default lease of `held`: short enough to notice a dead holder, long enough for a slow store.
DEFAULT_LEASE = 60.0
LockLike = Lock | LockHold | str


class Locks:
    """Shared and exclusive locks on resources, held by named clients; `gate.locks`.

    Public methods do the work of the caller's process: they hold, renew, wait and keep storage guards. Those with a
    leading underscore check, log and call the store; `headgate.client.locks` sends them to a service.

    :param client: Name of the client: a process or a person.
    :param resource: URI of the resource, compared exactly.
    :param resources: Resources, each with a mode. All of them are locked, or none.
    :param mode: `shared` or `exclusive`; `read` and `write` mean the same.
    :param wait: Seconds to wait in the queue (default: 0, which refuses at once).
    :param lease: Lease length in seconds; None: the lock lasts until it is released.
    :param reentrant: Count the client's own holds instead of refusing a second one.
    :param note: The purpose of the lock, for display.
    :param request_id: Id of this request; a repeat with the same id returns the same lock (default: a new id).
    :param on_lost: Called with the LockLost, in another thread, as soon as the lock is lost.
    :param margin: Call `on_lost` this many seconds before an unrenewed lease expires (default: 0).
    :param lock: The lock, its hold, or its id; an id needs the `token`.
    :param lock_id: Id of the lock.
    :param token: Token of the grant (default: that of `lock`).
    :param reason: Reason, recorded in the history.
    :param by: Name of the operator or process (default: this process).
    :param limit: Largest number of results.
    :param fault: One of those that `faults` returned.
    """

    def __init__(
        self, store: LockStore, guards: GuardKeeper | None = None, lock_delay: float = 0.0,
        answer_within: float = DEFAULT_OPTIONS.answer_within, resource_limit: int = RESOURCE_LIMIT,
    ) -> None:  # fmt: skip
        self._store = store
        self._guards = guards or GuardKeeper({})
        self._obtaining = Obtaining(store, self._guards, answer_within)
        self._lock_delay = check_span("lock_delay", lock_delay)
        #: Number of resources that one request may name.
        self.resource_limit = resource_limit

    def acquire(
        self, client: str, resource: str, mode: str, *, wait: float = 0, lease: float | None = None,
        reentrant: bool = False, note: str = "", request_id: str | None = None,
    ) -> Lock:  # fmt: skip
        """Acquire a lock and return it. Raises LockRefused, which names the blocking clients."""
        wanted = Single(resource, mode)
        return self._obtain(client, wanted, wait, lease, note, reentrant=reentrant, request_id=request_id).grant[0]

    def acquire_all(
        self, client: str, resources: Mapping[str, str], *, wait: float = 0, lease: float | None = None,
        reentrant: bool = False, note: str = "", request_id: str | None = None,
    ) -> Granted:  # fmt: skip
        """Acquire locks on all of these resources or on none, and return them, sorted by resource."""
        return self._obtain(client, resources, wait, lease, note, reentrant=reentrant, request_id=request_id).grant

    @cached_property
    def steps(self) -> LockSteps:
        """The steps of waiting, for a service whose callers wait without a thread."""
        return LockSteps(self._obtaining, self._guards)

    @contextmanager
    def held(
        self, client: str, resource: str, mode: str = Mode.EXCLUSIVE, *, wait: float = 0,
        lease: float | None = DEFAULT_LEASE, note: str = "", on_lost: Callable[[LockLost], None] | None = None,
        margin: float = 0.0,
    ) -> Iterator[LockHold]:  # fmt: skip
        """Hold a lock while a block runs. It is renewed meanwhile and released at the end.

        Raises LockLost at the end of the block if the lock was lost.

        :param lease: Lease length in seconds (default: 60); None: the lock lasts until it is released.
        """
        with self._held(client, Single(resource, mode), wait, lease, note, on_lost, margin) as holds:
            yield holds[0]

    def held_all(
        self, client: str, resources: Mapping[str, str], *, wait: float = 0, lease: float | None = DEFAULT_LEASE,
        note: str = "", on_lost: Callable[[LockLost], None] | None = None, margin: float = 0.0,
    ) -> AbstractContextManager[tuple[LockHold, ...]]:  # fmt: skip
        """Hold locks on all of these resources while a block runs, as `held` does for one.

        :param lease: Lease length in seconds (default: 60); None: the locks last until they are released.
        """
        return self._held(client, resources, wait, lease, note, on_lost, margin)

    @contextmanager
    def _held(
        self, client: str, resources: Wanted, wait: float, lease: float | None, note: str,
        on_lost: Callable[[LockLost], None] | None, margin: float,
    ) -> Iterator[tuple[LockHold, ...]]:  # fmt: skip
        obtained = self._obtain(client, resources, wait, lease, note)
        holds = tuple(LockHold(self, lock, obtained.sent, on_lost, margin) for lock in obtained.grant)
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
        """Release a lock. Raises LockLost, and changes nothing, if it is not yours."""
        lock_id, number = _reference(lock, token)
        try:
            self._release(lock_id, number)
        except LockLost:
            self._guards.lose(lock_id, number)
            raise
        self._guards.leave(lock_id)

    def renew(self, lock: LockLike, token: int | None = None, *, lease: float | None = None) -> Lock:
        """Renew the lease of a lock and return the lock. Raises LockLost if the lease has expired.

        :param lease: Lease length in seconds (default: as before).
        """
        return self._renew(*_reference(lock, token), lease)

    def check(self, lock: LockLike, token: int | None = None) -> Lock:
        """Return the current lock from the store. Raises LockLost if it is no longer yours."""
        return self._check(*_reference(lock, token))

    def upgrade(self, lock: LockLike, token: int | None = None) -> Lock:
        """Change a shared lock to exclusive, with a new token. Raises LockRefused if others hold it; never waits."""
        with _unrenewed(lock):
            lock_id, number = _reference(lock, token)
            before = self._guard_upgrade(lock_id)
            try:
                changed = self._upgrade(lock_id, number)
            except BaseException:
                if before:
                    self._guards.change(lock_id, before)
                raise
            return self._changed(lock, changed)

    def downgrade(self, lock: LockLike, token: int | None = None) -> Lock:
        """Change an exclusive lock to shared, in one step."""
        with _unrenewed(lock):
            changed = self._downgrade(*_reference(lock, token))
            self._guards.change(changed.id, Mode.SHARED)
            return self._changed(lock, changed)

    def hand_over(self, lock_id: str, *, to: str, reason: str = "") -> Lock:
        """Hand a lock over to another principal, and return it with a new token. Raises NotOwner if it is not yours.

        A service reveals the new token to the new owner only; for others it is 0.

        :param to: The principal that owns the lock from now on.
        """
        handed = self._hand_over(lock_id, to, reason)
        self._guards.changed(handed)
        return handed

    def break_lock(self, lock_id: str, *, reason: str, by: str | None = None) -> Lock:
        """Break a lock, as an operator: its token becomes stale, and the reason is recorded. Returns the lock."""
        broken = self._break_lock(lock_id, reason, by)
        self._guards.lose(lock_id, broken.token)
        return broken

    def get(self, lock_id: str) -> Lock:
        """Return one lock that is held. Raises UnknownName if there is none."""
        return self._noted(self._store.get(lock_id))

    def list(
        self, resource: str | None = None, client: str | None = None, mode: str | None = None, *,
        after: str | None = None, limit: int | None = None,
    ) -> Sequence[Lock]:  # fmt: skip
        """List the locks that are held, by id.

        :param after: Id of the last lock of the previous page.
        """
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
        """List the waiters of a resource, or all of them, earliest first."""
        return self._store.waiters(None if resource is None else check_resource(resource))

    def explain(self, resource: str) -> Sequence[tuple[Waiter, tuple[Blocker, ...]]]:
        """List the waiters of a resource, earliest first, each with everything that blocks it."""
        waiting = self.waiters(resource)
        return _with_blockers(waiting, self.list(resource) if waiting else (), self._store.rules)

    def stuck(self) -> Sequence[tuple[Waiter, tuple[Blocker, ...]]]:
        """List the waiters of every resource, earliest first, each with everything that blocks it."""
        waiting = self.waiters()
        resources = {waiter.resource for waiter in waiting}
        held = [lock for each in sorted(resources) for lock in self.list(each)]
        return _with_blockers(waiting, held, self._store.rules)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        """List registered clients by name, each with the time of its registration."""
        return self._store.clients()

    def register_client(self, client: str) -> datetime:
        """Register a client and return when it was registered. Acquiring a lock does not require it."""
        return self._store.register_client(check_name("client", client))

    def forget_client(self, client: str) -> None:
        """Forget a client. Raises Refused while it holds a lock, UnknownName if it is unknown."""
        self._store.forget_client(check_name("client", client))

    def resources(self) -> Sequence[str]:
        """List known resources by name: registered or ever locked, and not forgotten."""
        return self._store.resources()

    def register_resource(self, resource: str) -> None:
        """Register a resource. Locking it also registers it."""
        self._store.register_resource(check_resource(resource))

    def forget_resource(self, resource: str) -> None:
        """Forget a resource; its token is kept. Raises Refused while it is held or waited for."""
        self._store.forget_resource(check_resource(resource))

    def expire(self, *, limit: int = 1000) -> int:
        """Free locks whose lease has expired, and return their number. Requests for a resource do so for that resource.

        :param limit: Largest number of locks to free.
        """
        return self._store.expire(check_limit(limit))

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        """Return each held resource with its mode and its number of locks, by resource."""
        return self._store.summary()

    def status(self, *, rich: bool = False) -> dict[str, Any]:
        """Return the status of locks in the format of ICAT's IDS.

        :param rich: Add the holders and waiters.
        """
        locks = [{"id": resource, "type": mode.upper(), "count": count} for resource, mode, count in self.summary()]
        status: dict[str, Any] = {"opsQueue": [], "lockCount": len(locks), "locks": locks, "failures": []}
        if rich:
            status["holders"] = [asdict(lock) for lock in self.list()]
            status["waiting"] = [asdict(waiter) for waiter in self.waiters()]
        return status

    def faults(self) -> Sequence[Fault]:
        """List damage to locks, chunks, counters, history and clock, with the effect of a repair. Changes nothing."""
        return self._store.faults()

    def repair(self, fault: Fault, *, by: str) -> bool:
        """Repair a fault, if it still exists. Returns False if it does not, or if an operator has to repair it."""
        repaired = self._store.repair(fault, check_name("client", by))
        if repaired:
            event("store.repair", logging.WARNING, kind=fault.kind, item=fault.item)
        return repaired

    # ---------------------------------------------------------------- guards

    @cached_property
    def tending(self) -> GuardTending:
        """How a service keeps the guards of locks, and finds missing ones."""
        return GuardTending(self._store, self._guards)

    def close(self) -> None:
        """Release the storage guards of this process and stop undoing requests; locks stay as they are."""
        leave_undone(self._obtaining.store)
        self._guards.close()

    def must_outlive(self, resource: str) -> None:
        """Raise BadValue if a storage guard of the resource would end with this process although the lock would not."""
        if self._guards.covers(check_resource(resource)) and not self._guards.lasting:
            raise BadValue(
                "resource", resource,
                "has a storage guard, which would end with this command; use `headgate lock run`, or acquire the lock "
                "through a service (headgate up), which keeps the guard",
            )  # fmt: skip

    def _noted(self, lock: Lock) -> Lock:
        """Return the lock, with a note if its guard is missing."""
        found = self._guards.missing.get(lock.id)
        if found is None:
            return lock
        return replace(lock, note=f"{lock.note} [no storage guard: {found.why}]".lstrip())

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        """Call `lost` as soon as the store notices that a lock is lost. Returns a function that stops watching."""
        return self._store.watch_loss(lock, lost)

    def _obtain(
        self, client: str, resources: Wanted, wait: float, lease: float | None, note: str, *, reentrant: bool = False,
        request_id: str | None = None,
    ) -> Obtained:  # fmt: skip
        seconds = check_seconds("wait", wait)
        request = self._request(client, resources, lease, note, reentrant=reentrant, request_id=request_id)
        return obtain(self._obtaining, request, steady() + seconds)

    def _end(self, holds: Sequence[LockHold]) -> HeadgateError | None:
        """Stop renewing, then release the locks that are, or may be, still ours. Returns the first error."""
        errors: list[HeadgateError] = []
        for hold in holds:
            hold.stop()
        for hold in holds:
            try:
                if hold.lost:
                    errors.append(hold.lost)
                    self._guards.lose(hold.id, hold.token)
                    with suppress(HeadgateError):  # It may still exist in the store; if it is leased it will expire.
                        self._release(hold.id, hold.token)
                else:
                    self.release(hold)
            except HeadgateError as error:
                errors.append(error)
                if isinstance(error, Unavailable) and hold.lease is None:
                    self._release_later(hold.lock)
        return errors[0] if errors else None

    def _release_later(self, lock: Lock) -> None:
        """Release a persistent lock whose block has ended, however long the store is away: nothing else ends it."""

        def release() -> None:
            self._release(lock.id, lock.token)
            self._guards.leave(lock.id)

        undo_later(lock.request_id, self._obtaining.store, release, patience=math.inf)

    def _guard_upgrade(self, lock_id: str) -> Mode | None:
        try:
            return self._guards.change(lock_id, Mode.EXCLUSIVE)
        except GuardBusy as error:
            held = self.get(lock_id)
            request = Request(held.request_id, held.client, (Want(held.resource, Mode.EXCLUSIVE),), held.lease)
            raise LockRefused(request, [Blocker("guard", held.resource, "", held.mode, note=str(error))]) from error

    def _changed(self, lock: LockLike, changed: Lock) -> Lock:
        self._guards.changed(changed)
        if isinstance(lock, LockHold):
            lock.lock = changed
        return changed

    # ---------------------------------------------------------------- checks, logging, and calls of the store

    def _request(
        self, client: str, resources: Wanted, lease: float | None, note: str, *, reentrant: bool, request_id: str | None
    ) -> Request:
        return checked_request(
            client, check_wants(resources, self.resource_limit), lease=lease, lock_delay=self._lock_delay,
            reentrant=bool(reentrant), note=note, owner=owner(), request_id=request_id,
        )  # fmt: skip

    def _release(self, lock_id: str, token: int) -> None:
        self._store.release(lock_id, check_token(token))
        event("lock.released", lock=lock_id, token=token)

    def _renew(self, lock_id: str, token: int, lease: float | None) -> Lock:
        return self._store.renew(lock_id, check_token(token), check_lease(lease))

    def _check(self, lock_id: str, token: int) -> Lock:
        return self._store.check(lock_id, check_token(token))

    def _upgrade(self, lock_id: str, token: int) -> Lock:
        return _recorded(self._store.upgrade(lock_id, check_token(token)))

    def _downgrade(self, lock_id: str, token: int) -> Lock:
        return _recorded(self._store.downgrade(lock_id, check_token(token)))

    def _hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        owner_after = LOCAL if to == LOCAL else check_principal(to)
        handed = self._store.hand_over(lock_id, owner_after, check_note("reason", reason))
        event("lock.handed_over", logging.WARNING, lock=lock_id, to=to, reason=reason)
        return handed

    def _break_lock(self, lock_id: str, reason: str, by: str | None) -> Lock:
        broken = self._store.break_lock(lock_id, check_reason(reason), owner() if by is None else check_name("by", by))
        named = {"resource": broken.resource, "client": broken.client}
        event("lock.broken", logging.WARNING, lock=lock_id, **named, reason=reason)
        return broken


def _recorded(changed: Lock) -> Lock:
    event("lock.changed", lock=changed.id, mode=changed.mode, token=changed.token)
    return changed


def _unrenewed(lock: LockLike) -> AbstractContextManager[object]:
    """Pause the renewal of a hold, so that it never uses a token that is about to change."""
    return lock.busy if isinstance(lock, LockHold) else nullcontext()


def _reference(lock: LockLike, token: int | None) -> tuple[str, int]:
    """Return the id and token of a grant."""
    if isinstance(lock, Lock | LockHold):
        token = lock.token if token is None else token
        lock = lock.id
    if token is None:
        raise BadValue("token", token, "is missing; a lock id needs its token")
    return lock, token


def _with_blockers(
    waiting: Sequence[Waiter], held: Sequence[Lock], rules: LockRules
) -> list[tuple[Waiter, tuple[Blocker, ...]]]:
    """Return each waiter with the holders and earlier waiters that block it, by the tables of their store."""
    found = []
    for place, waiter in enumerate(waiting):
        request = Request(str(waiter.ticket), waiter.client, (Want(waiter.resource, waiter.mode),))
        earlier = [other for other in waiting[:place] if other.ticket != waiter.ticket]
        found.append((waiter, decide(request, held, earlier, rules.compatible).blockers))
    return found

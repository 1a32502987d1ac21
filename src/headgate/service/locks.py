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
from typing import Any, NamedTuple

from headgate.calls.actor import actor
from headgate.core.errors import BadValue, HeadgateError, LockLost, LockRefused, Unavailable
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks import Blocker, Lock, Mode, Request, Waiter, Want, decide, parse_lock_id, parse_mode
from headgate.core.names import RESOURCE_LIMIT, check_name, check_note, check_reason, check_request_id, check_resource
from headgate.core.owners import LOCAL, check_principal
from headgate.core.tickets import Grant
from headgate.service.checks import check_lease, check_limit, check_seconds, check_span, check_token
from headgate.service.clock import steady
from headgate.service.guard_keeper import GuardKeeper
from headgate.service.guard_tending import GuardTending
from headgate.service.guards import GuardBusy
from headgate.service.identity import new_request_id, owner
from headgate.service.lock_steps import LockSteps
from headgate.service.obtaining import Obtaining
from headgate.service.renewal import LONGEST_PAUSE_SECONDS, Hold
from headgate.service.undoing import leave as leave_undone
from headgate.service.waiting import Obtained
from headgate.stores.base import LockStore
from headgate.stores.options import DEFAULT_OPTIONS
from headgate.telemetry import event

#: Leases of `held`: short enough that a dead holder is noticed, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: A persistent lock that could not be released at the end of its block is tried again after so long, then less often.
RELEASE_AGAIN_SECONDS = 0.25
LockLike = Lock | Hold | str


class Single(NamedTuple):
    """The only resource of a request, and its mode."""

    resource: str
    mode: str


#: Resources, each with a mode.
Wanted = Mapping[str, str] | Single


class Locks:
    """Shared and exclusive locks on resources, by named clients.

    Public methods do what belongs to the caller's process: hold, renew, wait, keep storage guards. Those with a leading
    underscore check, record and ask the store; `headgate.client.locks` has a service do that.
    """

    def __init__(
        self,
        store: LockStore,
        guards: GuardKeeper | None = None,
        lock_delay: float = 0.0,
        answer_within: float = DEFAULT_OPTIONS.answer_within,
        resource_limit: int = RESOURCE_LIMIT,
    ) -> None:
        self._store = store
        self._guards = guards or GuardKeeper({})
        self._obtaining = Obtaining(store, self._guards, answer_within)
        self._lock_delay = check_span("lock_delay", lock_delay)
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
        wanted = Single(resource, mode)
        return self._obtain(client, wanted, wait, lease, note, reentrant=reentrant, request_id=request_id).grant[0]

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
        return self._obtain(client, resources, wait, lease, note, reentrant=reentrant, request_id=request_id).grant

    @cached_property
    def steps(self) -> LockSteps:
        """The steps of waiting, for a service whose callers wait without a thread."""
        return LockSteps(self._obtaining, self._guards)

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
        with self._held(client, Single(resource, mode), wait, lease, note, on_lost, margin) as holds:
            yield holds[0]

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
    ) -> AbstractContextManager[tuple[Hold, ...]]:
        """As `held`, for all of these resources or none."""
        return self._held(client, resources, wait, lease, note, on_lost, margin)

    @contextmanager
    def _held(
        self, client: str, resources: Wanted, wait: float, lease: float | None, note: str,
        on_lost: Callable[[LockLost], None] | None, margin: float,
    ) -> Iterator[tuple[Hold, ...]]:  # fmt: skip
        obtained = self._obtain(client, resources, wait, lease, note)
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
            self._release(lock_id, number)
        except LockLost:
            self._guards.lose(lock_id, number)
            raise
        self._guards.leave(lock_id)

    def renew(self, lock: LockLike, token: int | None = None, *, lease: float | None = None) -> Lock:
        """Let the lease begin anew. LockLost when it has run out: an expired lease is not renewed."""
        return self._renew(*_reference(lock, token), lease)

    def check(self, lock: LockLike, token: int | None = None) -> Lock:
        """Ask the store: the lock as it is, or LockLost."""
        return self._check(*_reference(lock, token))

    def upgrade(self, lock: LockLike, token: int | None = None) -> Lock:
        """Shared to exclusive for the only holder, with a new token; LockRefused otherwise. Never waits."""
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
        """Exclusive to shared, in one step."""
        with _unrenewed(lock):
            changed = self._downgrade(*_reference(lock, token))
            self._guards.change(changed.id, Mode.SHARED)
            return self._changed(lock, changed)

    def hand_over(self, lock_id: str, *, to: str, reason: str = "") -> Lock:
        """Let a lock belong to another principal, and return it. NotOwner when it is another's.

        It has a new token, which a service tells to the new owner alone (0: it was not told).
        """
        handed = self._hand_over(lock_id, to, reason)
        self._guards.changed(handed)
        return handed

    def break_lock(self, lock_id: str, *, reason: str, by: str | None = None) -> Lock:
        """An operator's act: the lock goes, its token is stale, the reason is kept."""
        broken = self._break_lock(lock_id, reason, by)
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
            status["holders"] = [asdict(lock) for lock in self.list()]
            status["waiting"] = [asdict(waiter) for waiter in self.waiters()]
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
        return GuardTending(self._store, self._guards)

    def close(self) -> None:
        """Release the storage guards of this process, and undo nothing any more; the locks stay as they are."""
        leave_undone(self._obtaining.store)
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
        self, client: str, resources: Wanted, wait: float, lease: float | None, note: str, *, reentrant: bool = False,
        request_id: str | None = None,
    ) -> Obtained:  # fmt: skip
        seconds = check_seconds("wait", wait)
        request = self._request(client, resources, lease, note, reentrant=reentrant, request_id=request_id)
        return self._obtaining.obtain(request, steady() + seconds)

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
                        self._release(hold.id, hold.token)
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
                    self._release(lock.id, lock.token)
                except Unavailable:
                    continue
                except HeadgateError:
                    return  # It is gone already.
                self._guards.leave(lock.id)
                return

        threading.Thread(target=run, name="headgate-release", daemon=True).start()

    def _guard_upgrade(self, lock_id: str) -> Mode | None:
        try:
            return self._guards.change(lock_id, Mode.EXCLUSIVE)
        except GuardBusy as error:
            held = self.get(lock_id)
            request = Request(held.request_id, held.client, (Want(held.resource, Mode.EXCLUSIVE),), held.lease)
            raise LockRefused(request, [Blocker("guard", held.resource, "", held.mode, note=str(error))]) from error

    def _changed(self, lock: LockLike, changed: Lock) -> Lock:
        self._guards.changed(changed)
        if isinstance(lock, Hold):
            lock.lock = changed
        return changed

    # ---------------------------------------------------------------- checked, recorded, and asked of the store

    def _request(
        self, client: str, resources: Wanted, lease: float | None, note: str, *, reentrant: bool, request_id: str | None
    ) -> Request:
        return Request(
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
    """Within this a hold is not renewed, so that its renewal never meets a token that is about to change."""
    return lock.busy if isinstance(lock, Hold) else nullcontext()


def check_wants(resources: Wanted, most: int) -> tuple[Want, ...]:
    """Each resource once, sorted, with its mode; BadValue for more than `most`."""
    return tuple(Want(check_resource(uri), parse_mode(mode)) for uri, mode in sorted_pairs(resources, most))


def sorted_pairs(resources: Wanted, most: int) -> list[tuple[str, str]]:
    """Each resource with its mode, as they were given, sorted; BadValue for none, or more than `most`."""
    if isinstance(resources, Single):
        return [resources]
    if not isinstance(resources, Mapping):
        raise BadValue("resources", resources, "is not a mapping of resource to mode")
    if not resources:
        raise BadValue("resources", resources, "is empty; name at least one")
    if len(resources) > most:
        why = f"are too many for one request; at most {most:,} are accepted (setting resource_limit)"
        raise BadValue("resources", f"{len(resources):,} of them", why)
    return sorted(resources.items(), key=lambda pair: str(pair[0]))


def _reference(lock: LockLike, token: int | None) -> tuple[str, int]:
    """What names a grant: its id and its token."""
    if isinstance(lock, Lock | Hold):
        token = lock.token if token is None else token
        lock = lock.id
    if token is None:
        raise BadValue("token", token, "is missing; a lock id needs its token")
    return lock, token


def _with_blockers(waiting: Sequence[Waiter], held: Sequence[Lock]) -> list[tuple[Waiter, tuple[Blocker, ...]]]:
    """Each waiter with the holders and the earlier waiters that block it."""
    found = []
    for place, waiter in enumerate(waiting):
        request = Request(str(waiter.ticket), waiter.client, (Want(waiter.resource, waiter.mode),))
        earlier = [other for other in waiting[:place] if other.ticket != waiter.ticket]
        found.append((waiter, decide(request, held, earlier).blockers))
    return found

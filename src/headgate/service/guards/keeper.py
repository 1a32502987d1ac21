"""The real locks of this process: one for each resource, however many of our locks depend on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headgate.core.errors import BadValue, StorageGuardFailed
from headgate.core.locks.model import COMPATIBLE, Blocker, Lock, Mode, Request, Want
from headgate.service.guards.kinds import GuardBusy, StorageGuard, StorageLock
from headgate.service.leases.clock import steady
from headgate.telemetry import event

#: A waiter that has not retried for this long is gone.
LINE_SECONDS = 5.0


class GuardsBusy(Exception):
    """Real locks that a request needs are held by programs outside Headgate."""

    def __init__(self, blockers: Sequence[Blocker]) -> None:
        self.blockers = tuple(blockers)
        super().__init__("; ".join(blocker.sentence() for blocker in blockers))


@dataclass(slots=True)
class _Shared:
    """One real lock, however many of our locks depend on it."""

    hold: StorageLock
    mode: Mode
    #: Our locks that depend on it.
    users: int = 0
    #: Requests that have acquired it before asking the store.
    reserved: int = 0


@dataclass(slots=True)
class _User:
    """One of our locks that depend on a real one: its token, and the requests that hold it (several if re-entrant)."""

    resource: str
    token: int
    requests: set[str]


@dataclass(frozen=True, slots=True)
class MissingGuard:
    """A lock whose guard could not be acquired."""

    lock: Lock
    why: str


class GuardKeeper:
    """The real locks of this process, counted by resource."""

    def __init__(self, guards: Mapping[str, StorageGuard]) -> None:
        self._guards = dict(guards)
        #: Whether the guards of persistent locks are kept and restored: only by a service, which is always running.
        self.lasting = False
        #: Locks without the guard that they should have, by id.
        self.missing: dict[str, MissingGuard] = {}
        self._held: dict[str, _Shared] = {}
        self._users: dict[str, _User] = {}
        #: For each resource, the requests that wait for a program outside: request, mode, and time of the last attempt.
        self._lines: dict[str, dict[str, tuple[Mode, float]]] = {}
        self._guard = threading.Lock()

    @property
    def any(self) -> bool:
        """Whether there are any guards."""
        return bool(self._guards)

    def covers(self, resource: str) -> bool:
        """Whether a guard is responsible for this resource."""
        scheme, colon, _ = resource.partition(":")
        return bool(colon) and scheme in self._guards

    def check(self, request: Request) -> bool:
        """Whether a guard is responsible for a wanted resource. BadValue if the lock would outlive its guard."""
        covered = [want.resource for want in request.wants if self.covers(want.resource)] if self._guards else []
        if covered and request.lease is None and not self.lasting:
            raise BadValue(
                "lease",
                None,
                (
                    f"is missing: the storage guard of {covered[0]} ends with this process, but a persistent lock does "
                    "not; set a lease, or acquire the lock through a service (headgate up), which keeps the guard"
                ),
            )
        return bool(covered)

    # ---------------------------------------------------------------- before the store is asked

    @contextmanager
    def reserving(self, request: Request, *, waits: bool = False) -> Iterator[None]:
        """Hold the real locks that a grant of the request needs, while the block asks the store.

        GuardsBusy when a program outside holds one of them, or another request waits for it ahead of this one. `waits`:
        the request joins that line from now on; it must retry within LINE_SECONDS.
        """
        taken = self._reserve(request, waits=waits)
        try:
            yield
        finally:
            # Only after the store has answered, so that no other request overtakes it on the way into the queue.
            self.leave_line(request.id)
            self._unreserve(taken)

    def is_first(self, request: Request) -> bool:
        """Whether no other request is ahead of this one in the lines of this process."""
        with self._guard:
            try:
                for want in request.wants:
                    self._must_be_first(request.id, want)
            except GuardBusy:
                return False
        return True

    def leave_line(self, request_id: str) -> None:
        """The request no longer waits."""
        with self._guard:
            for line in self._lines.values():
                line.pop(request_id, None)
            self._lines = {resource: line for resource, line in self._lines.items() if line}

    def _reserve(self, request: Request, *, waits: bool) -> list[str]:
        taken: list[str] = []
        busy: list[Blocker] = []
        try:
            for want in request.wants:
                if self.covers(want.resource):
                    try:
                        self._reserve_one(request.id, want)
                        taken.append(want.resource)
                    except GuardBusy as error:
                        busy.append(Blocker("guard", want.resource, "", want.mode, note=str(error)))
        except BaseException:
            self._unreserve(taken)
            raise
        if busy:
            self._unreserve(taken)
            if waits:
                self._line_up(request, [blocker.resource for blocker in busy])
            raise GuardsBusy(busy)
        return taken

    def _reserve_one(self, request_id: str, want: Want) -> None:
        with self._guard:
            self._must_be_first(request_id, want)
            shared = self._held.get(want.resource)
            if shared is None:
                shared = self._held[want.resource] = _Shared(self._lock(want.resource, want.mode), want.mode)
            # An existing real lock is changed to the wanted mode after the store has granted ours.
            shared.reserved += 1

    def _unreserve(self, resources: Sequence[str]) -> None:
        failed: list[StorageGuardFailed] = []
        for resource in resources:
            with self._guard:
                if resource not in self._held:  # Everything was closed meanwhile.
                    continue
                self._held[resource].reserved -= 1
                try:
                    self._close_unused(resource)
                except StorageGuardFailed as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    def _must_be_first(self, request_id: str, want: Want) -> None:
        line = self._lines.get(want.resource, {})
        for earlier, (mode, seen) in line.items():
            if earlier == request_id:
                return
            if steady() - seen < LINE_SECONDS and not COMPATIBLE[want.mode, mode]:
                raise GuardBusy(
                    "another client is waiting there for a program outside Headgate and is ahead in the queue"
                )

    def _line_up(self, request: Request, resources: Sequence[str]) -> None:
        modes = {want.resource: want.mode for want in request.wants}
        with self._guard:
            for resource in resources:
                line = self._lines.setdefault(resource, {})
                line[request.id] = (modes[resource], steady())
                for other in [each for each, (_, seen) in line.items() if steady() - seen >= LINE_SECONDS]:
                    del line[other]

    # ---------------------------------------------------------------- under our locks

    def take(self, lock: Lock) -> None:
        """Acquire the real lock under ours, once for each resource. GuardBusy or StorageGuardFailed otherwise."""
        with self._guard:
            shared = self._held.get(lock.resource)
            if shared is None:
                shared = self._held[lock.resource] = _Shared(self._lock(lock.resource, lock.mode), lock.mode)
            else:
                self._swap(shared, lock.resource, lock.mode)
            if lock.id not in self._users:
                shared.users += 1
                self._users[lock.id] = _User(lock.resource, lock.token, set())
            user = self._users[lock.id]
            user.token = lock.token
            user.requests.add(lock.request_id)
            self.missing.pop(lock.id, None)

    def change(self, lock_id: str, mode: Mode) -> Mode | None:
        """Our lock is upgraded or downgraded; so is the real one. Returns the mode before; None: nothing changed."""
        with self._guard:
            user = self._users.get(lock_id)
            if user is None or self._held[user.resource].users > 1:
                return None
            shared = self._held[user.resource]
            before = shared.mode
            self._swap(shared, user.resource, mode)
            return before

    def changed(self, lock: Lock) -> None:
        """Our lock has a new token."""
        with self._guard:
            if lock.id in self._users:
                self._users[lock.id].token = lock.token

    def leave(self, lock_id: str, request_id: str | None = None) -> None:
        """One of our holds ends (of that request); the real lock ends with the last one. Errors are reported."""
        with self._guard:
            user = self._users.get(lock_id)
            if user is None:
                return
            user.requests.discard(request_id or next(iter(user.requests), ""))
            if not user.requests:
                self._drop(lock_id)

    def lose(self, lock_id: str, token: int) -> None:
        """Our lock with that token is gone with all its holds. Errors are reported."""
        with self._guard:
            user = self._users.get(lock_id)
            if user is not None and user.token == token:
                self._drop(lock_id)

    # ---------------------------------------------------------------- kept by a service

    def restore(self, lock: Lock) -> str:
        """Acquire the guard of a listed lock. Returns why that is not possible; empty: it is held."""
        try:
            self.take(lock)
        except (GuardBusy, StorageGuardFailed) as error:
            self.missing[lock.id] = MissingGuard(lock, str(error))
            return str(error)
        return ""

    def resources(self) -> list[str]:
        """Resources with a guard, or with a lock whose guard is missing."""
        with self._guard:
            named = {user.resource for user in self._users.values()}
            return sorted(named | {each.lock.resource for each in self.missing.values()})

    def reconcile(self, resource: str, ask: Callable[[], Sequence[Lock]]) -> None:
        """Release the guards of locks on a resource that no longer exist in the store. `ask`: returns the existing
        ones.
        """
        with self._guard:
            known = [lock_id for lock_id, user in self._users.items() if user.resource == resource]
        live = {lock.id: lock for lock in ask()}
        for lock_id in [each.lock.id for each in list(self.missing.values()) if each.lock.resource == resource]:
            if lock_id in live:
                self.restore(live[lock_id])
            else:
                self.missing.pop(lock_id, None)
        with self._guard:
            for lock_id in known:
                if lock_id not in live and lock_id in self._users:
                    self._drop(lock_id)

    def probe(self, lock: Lock) -> str:
        """Whether some process holds the guard of a listed lock. Returns the problem; empty: there is a real lock."""
        # A shared real lock exists if an exclusive one is busy; a missing file is reported without creating it.
        modes = (Mode.SHARED, Mode.EXCLUSIVE) if lock.mode is Mode.SHARED else (Mode.SHARED,)
        try:
            for mode in modes:
                self._lock(lock.resource, mode).close()
        except GuardBusy:
            return ""
        except Exception as error:  # noqa: BLE001 - whatever it raises, the guard is not there
            return str(error)
        return "no lock is held in the storage system"

    def close(self) -> None:
        """Release every real lock; ours are unchanged. Failures are logged."""
        with self._guard:
            held, self._held, self._users = self._held, {}, {}
            self.missing.clear()
        for resource, shared in held.items():
            try:
                shared.hold.close()
            except Exception as error:  # noqa: BLE001 - the others are released all the same
                event("guard.failed", logging.ERROR, resource=resource, why=str(error))

    # ---------------------------------------------------------------- parts

    def _drop(self, lock_id: str) -> None:
        user = self._users.pop(lock_id)
        self._held[user.resource].users -= 1
        self._close_unused(user.resource)

    def _close_unused(self, resource: str) -> None:
        shared = self._held[resource]
        if shared.users == 0 and shared.reserved == 0:
            del self._held[resource]
            with _reported(resource, "it could not be released: "):
                shared.hold.close()

    def _lock(self, resource: str, mode: Mode) -> StorageLock:
        with _reported(resource):
            return self._guards[resource.partition(":")[0]].lock(resource, mode)

    def _swap(self, shared: _Shared, resource: str, mode: Mode) -> None:
        if mode is shared.mode:
            return
        with _reported(resource):
            shared.hold.change(mode)
        shared.mode = mode


@contextmanager
def _reported(resource: str, what: str = "") -> Iterator[None]:
    """Busy stays busy; any other error of a guard means that it is broken."""
    try:
        yield
    except (GuardBusy, StorageGuardFailed):
        raise
    except Exception as error:
        raise StorageGuardFailed(resource, f"{what}{error}") from error

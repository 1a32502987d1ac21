"""Keeping storage guards for as long as their locks live, and finding locks whose guards are missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headgate.core.errors import StorageGuardFailed
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock
from headgate.service.guards.keeper import GuardKeeper, MissingGuard
from headgate.stores.ports.locks import LockStore
from headgate.telemetry import event

#: The kind of fault for a lock without its storage guard.
UNGUARDED = "unguarded"
#: Number of locks that are listed at a time, and of guarded resources that are checked in one step.
PORTION, TENDED_AT_ONCE = 1000, 100


class GuardTending:
    """The guards of one process, compared with the locks of one store."""

    def __init__(self, store: LockStore, guards: GuardKeeper) -> None:
        self._store = store
        self._guards = guards
        #: Where the next step of `tend` begins.
        self._begin = 0

    def start(self) -> int:
        """Keep guards for as long as their locks live, and acquire those of listed locks. For a service.

        Returns how many guards are missing; `tend` tries again.
        """
        self._guards.lasting = True
        after = None
        while self._guards.any and (portion := self._store.list(LockFilter(after=after, limit=PORTION))):
            for lock in portion:
                if self._guards.covers(lock.resource):
                    self._restore(lock)
            after = portion[-1].id
        return len(self._guards.missing)

    def tend(self) -> None:
        """Release the guards of removed locks, and retry missing ones. A bounded step."""
        names = self._guards.resources()
        for resource in names[self._begin : self._begin + TENDED_AT_ONCE]:
            try:
                self._guards.reconcile(resource, self._asking(resource))
            except StorageGuardFailed as error:
                event("guard.failed", logging.ERROR, resource=resource, why=str(error))
        self._begin = self._begin + TENDED_AT_ONCE if self._begin + TENDED_AT_ONCE < len(names) else 0

    def faults(self) -> list[Fault]:
        """Persistent locks whose storage guard is missing, as far as this process can see.

        The holder of a leased lock may keep its guard itself.
        """
        what = "the persistent lock on {} has no storage guard: {}"
        return [Fault(UNGUARDED, each.lock.id, what.format(each.lock.resource, each.why)) for each in self._unguarded()]

    def _unguarded(self) -> Sequence[MissingGuard]:
        if self._guards.lasting or not self._guards.any:
            return [each for each in self._guards.missing.values() if each.lock.lease is None]
        listed = [lock for lock in self._store.list(LockFilter()) if lock.lease is None]
        probed = [MissingGuard(lock, self._guards.probe(lock)) for lock in listed if self._guards.covers(lock.resource)]
        return [each for each in probed if each.why]

    def _restore(self, lock: Lock) -> None:
        if why := self._guards.restore(lock):
            # The holder of a leased lock may be a process that keeps the guard itself.
            level = logging.INFO if lock.lease is not None else logging.WARNING
            event("guard.not_restored", level, lock=lock.id, resource=lock.resource, why=why)

    def _asking(self, resource: str) -> Callable[[], Sequence[Lock]]:
        return lambda: self._store.list(LockFilter(resource=resource))

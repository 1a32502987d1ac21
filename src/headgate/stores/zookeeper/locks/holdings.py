"""The leased locks that this process knows to be alive, and those that end when it ends cleanly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from headgate.calls.actor import actor
from headgate.core.locks.model import Lock

#: Number of other clients' locks (clients of a service) that are remembered.
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class KnownGrant:
    """A leased lock."""

    token: int
    #: On the monotonic clock: it lives until then, whatever the leader's clock says.
    until: float
    #: It ends with this process.
    own: bool
    #: Its owner.
    principal: str = ""


class Holdings:
    """The leased locks that one process knows of."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._known: dict[str, KnownGrant] = {}

    def note(self, locks: Iterable[Lock], sent: float, *, own: bool | None = None) -> None:
        """They were alive after `sent`, for their remaining time. `own`: None leaves the earlier value."""
        if self._pid != os.getpid():  # After a fork, the held locks belong to the parent.
            self._pid, self._known = os.getpid(), {}
        for lock in locks:
            if lock.expires_in is None:
                self._known.pop(lock.id, None)
                continue
            known = self._known.get(lock.id)
            ours = own if own is not None else known is not None and known.own
            self._known[lock.id] = KnownGrant(lock.token, sent + lock.expires_in, ours, lock.principal)
        if len(self._known) > MOST_REMEMBERED:
            self._known = {lock_id: each for lock_id, each in self._known.items() if each.own}

    def left(self, lock_id: str, token: int) -> float:
        """Seconds that it certainly lives; 0: unknown, or it does not belong to the acting principal."""
        known = self._known.get(lock_id)
        if known is None or known.token != token or not actor().may_touch(known.principal):
            return 0.0
        return max(known.until - time.monotonic(), 0.0)

    def forget(self, lock_id: str) -> None:
        """It ended, or belongs to another process now."""
        self._known.pop(lock_id, None)

    def own(self) -> list[tuple[str, int]]:
        """Id and token of each one that ends with this process, and may still be alive."""
        if self._pid != os.getpid():
            return []
        now = time.monotonic()
        return [(lock_id, each.token) for lock_id, each in self._known.items() if each.own and now < each.until]

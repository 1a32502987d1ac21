"""Renewing a leased lock or claim, and reporting its loss at once.

The holder's own deadline runs on its monotonic clock from the moment that the last good renewal was *sent*,
so it is never later than the store's. Two threads: one renews (it may hang in a dead network), one watches. They start
when the first renewal is due: most work has ended before, and needs none.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headgate.core.errors import ClaimLost, HeadgateError, ItemLost, LockLost, Lost, StoreMisconfigured, Unavailable
from headgate.core.ledger.model import Claim
from headgate.core.locks.model import Lock, Mode
from headgate.service.leases.clock import steady
from headgate.service.leases.later import later
from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.core.queue.model import Item, Taken

#: The number of renewals within one lease, and the maximum interval, so that a broken lock is noticed soon.
RENEWALS = 4
LONGEST_PAUSE_SECONDS = 5.0
#: Pause after a renewal that did not reach the store.
RETRY_SECONDS = 0.25
#: Maximum number of acquired items that are remembered until they are renewed.
MOST_ASKED = 1000


class KeptAlive(ABC):
    """A leased lock, claim or item that is renewed until it is stopped."""

    def __init__(
        self,
        until: float | None,
        lease: float | None,
        on_lost: Callable[[Any], None] | None,
        margin: float,
    ) -> None:
        self._until = until
        self._lease = lease
        self._on_lost = on_lost
        self._margin = margin
        self._lost: Lost | None = None
        #: Held while it is renewed or changed: a renewal during an upgrade would use the old token.
        self.busy = threading.Lock()
        self._changed = threading.Condition()
        self._done = threading.Event()

    @property
    def lease(self) -> float | None:
        """Lease length in seconds; None: no lease."""
        return self._lease

    @property
    def gone(self) -> Lost | None:
        """Why it was lost; None while it is held."""
        self._look_at_clock()
        return self._lost

    @property
    def deadline(self) -> float | None:
        """When it may be lost if the store does not answer, on the monotonic clock; None: never."""
        return self._until

    def start(self) -> None:
        """Start renewing and watching."""
        if self._lease is not None:
            first = steady() + _pause(self._lease)
            later(min(first, (self._until or first) - self._margin), self._begin)

    def _begin(self) -> None:
        """The first renewal is due, or the deadline is near. `on_lost` is not called here: it may take long."""
        if self._done.is_set() or self._lost is not None:
            return
        try:
            threading.Thread(target=self._watch_deadline, name="headgate-deadline", daemon=True).start()
            threading.Thread(target=self._renew_on, name="headgate-renewal", args=(self._lease,), daemon=True).start()
        except RuntimeError as error:  # Too many threads. If both threads find it, they report the same.
            self._log("renewal_failed", str(error))
            later(steady() + RETRY_SECONDS, self._begin)

    def stop(self) -> None:
        """Stop renewing. Nothing is renewed after this returns."""
        with self._changed:
            self._done.set()
            self._changed.notify_all()

    def give_up(self, why: str) -> None:
        """Abandon it: its worker is notified that it is lost."""
        self._declare_lost(why)

    @abstractmethod
    def _renewed(self) -> float | None:
        """Renew it in the store. Returns the remaining seconds, None for no end. Raises Lost if it is gone."""

    @abstractmethod
    def loss(self, why: str) -> Lost:
        """Return the error that reports the loss."""

    @abstractmethod
    def _log(self, name: str, why: str) -> None:
        """Log an event."""

    def _renew_on(self, lease: float) -> None:
        """Renew until it is stopped or lost. A lock that its holder believes lost must not live on."""
        while not self.gone and not self._done.wait(self._renew_once(lease)):
            pass

    def _renew_once(self, lease: float) -> float:
        """Renew once. Returns the pause until the next renewal."""
        try:
            with self.busy:
                if self.gone:
                    return 0.0
                sent = steady()
                self._prolong(sent, self._renewed())
        except Lost as error:
            if not self._done.is_set():
                self._declare_lost(getattr(error, "why", str(error)))
        except (Unavailable, StoreMisconfigured) as error:
            self._log("renewal_failed", str(error))
            return min(RETRY_SECONDS, lease / 10)
        except HeadgateError as error:
            self._declare_lost(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, renewing goes on while the lease does
            self._log("renewal_failed", repr(error))
            return min(RETRY_SECONDS, lease / 10)
        return _pause(lease)

    def _prolong(self, sent: float, left: float | None) -> None:
        """Extend the deadline, unless the holder was already notified of the loss."""
        with self._changed:
            if self._lost is None:
                self._until = deadline_after(sent, left)

    def _watch_deadline(self) -> None:
        """Declare it lost `margin` seconds before that can happen, so that there is time to stop."""
        with self._changed:
            while not self._done.is_set() and self._lost is None:
                left = (self.deadline or math.inf) - self._margin - steady()
                if left <= 0:
                    break
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
        if not self._done.is_set():
            self._declare_lost("it could not be renewed in time")

    def _look_at_clock(self) -> None:
        if self._lost is None and self.deadline is not None and steady() >= self.deadline:
            self._declare_lost("it could not be renewed in time")

    def _declare_lost(self, why: str) -> None:
        with self._changed:
            if self._lost is not None or self._done.is_set():
                return
            self._lost = self.loss(why)
            self._changed.notify_all()
        self._log("lost", why)
        if self._on_lost:
            self._on_lost(self._lost)


class Renewer(Protocol):
    """The part of the service that a hold needs."""

    def renew(self, lock: Lock | str, token: int | None = None) -> Lock: ...

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]: ...


class LockHold(KeptAlive):
    """A lock that is renewed while a block runs. It has the attributes of the lock."""

    def __init__(
        self,
        service: Renewer,
        lock: Lock,
        sent: float,
        on_lost: Callable[[LockLost], None] | None,
        margin: float,
    ) -> None:
        super().__init__(deadline_after(sent, lock.expires_in), lock.lease, on_lost, margin)
        self._service = service
        #: The current grant: upgrades and downgrades change it.
        self.lock = lock
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def id(self) -> str:
        """Id of the lock."""
        return self.lock.id

    @property
    def token(self) -> int:
        """Token of the lock: pass it to whatever you write to."""
        return self.lock.token

    @property
    def client(self) -> str:
        """Name of the client that holds it."""
        return self.lock.client

    @property
    def resource(self) -> str:
        """URI of the resource."""
        return self.lock.resource

    @property
    def mode(self) -> Mode:
        """Shared or exclusive."""
        return self.lock.mode

    @property
    def since(self) -> datetime:
        """When it was granted, by the store's clock."""
        return self.lock.since

    @property
    def lost(self) -> LockLost | None:
        """Why the lock is no longer yours; None while it is."""
        self._look_at_clock()
        return self._lost if isinstance(self._lost, LockLost) else None

    def check(self) -> None:
        """Raise LockLost if the lock is lost or its local deadline has passed. The store is not asked."""
        if self.lost:
            raise self.lost

    def start(self) -> None:
        """Start renewing and watching."""
        self._unwatch = self._service.watch_loss(self.lock, self._declare_lost)
        super().start()

    def stop(self) -> None:
        """Stop renewing. Nothing is renewed after this returns."""
        super().stop()
        self._unwatch()

    def _renewed(self) -> float | None:
        return self._service.renew(self.lock).expires_in

    def loss(self, why: str) -> LockLost:
        """Return the error that reports the loss."""
        return LockLost(self.lock.id, self.lock.token, why)

    def _log(self, name: str, why: str) -> None:
        event(f"lock.{name}", lock=self.lock.id, resource=self.lock.resource, client=self.lock.client, why=why)


class ClaimHold(KeptAlive):
    """A claim on a chunk that is renewed while its worker runs."""

    def __init__(
        self,
        heartbeat: Callable[[Claim], float],
        claim: Claim,
        sent: float,
        on_lost: Callable[[ClaimLost], None] | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__(deadline_after(sent, claim.expires_in), claim.lease, on_lost, margin)
        self._heartbeat = heartbeat
        #: What was claimed.
        self.claim = claim

    @property
    def lost(self) -> ClaimLost | None:
        """Why the claim is no longer yours; None while it is."""
        self._look_at_clock()
        return self._lost if isinstance(self._lost, ClaimLost) else None

    def _renewed(self) -> float:
        return self._heartbeat(self.claim)

    def loss(self, why: str) -> ClaimLost:
        """Return the error that reports the loss."""
        return ClaimLost(self.claim.job, self.claim.dataid, self.claim.token, why)

    def _log(self, name: str, why: str) -> None:
        event(f"claim.{name}", job=self.claim.job, dataid=self.claim.dataid, token=self.claim.token, why=why)


class ItemHold(KeptAlive):
    """A batch or ingest job that is renewed while a consumer works on it."""

    def __init__(
        self,
        renew: Callable[[Item], float],
        item: Item,
        sent: float,
        on_lost: Callable[[ItemLost], None] | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__(deadline_after(sent, item.lease), item.lease, on_lost, margin)
        self._renew = renew
        #: What was taken.
        self.item = item

    @property
    def lost(self) -> ItemLost | None:
        """Why the item is no longer yours; None while it is."""
        self._look_at_clock()
        return self._lost if isinstance(self._lost, ItemLost) else None

    def check(self) -> None:
        """Raise ItemLost if the item is lost or its local deadline has passed. The store is not asked."""
        if self.lost:
            raise self.lost

    def _renewed(self) -> float:
        return self._renew(self.item)

    def loss(self, why: str) -> ItemLost:
        """Return the error that reports the loss."""
        return ItemLost(self.item.id, self.item.token, why)

    def _log(self, name: str, why: str) -> None:
        event(f"queue.{name}", item=self.item.id, state=self.item.state, token=self.item.token, why=why)


class AskedItems:
    """When the last acquired items were requested (steady), until they are renewed."""

    def __init__(self) -> None:
        self._moments: dict[tuple[str, int], float] = {}
        self._guard = threading.Lock()

    def note(self, item: Item, moment: float) -> None:
        """An item was acquired by a request sent at that moment."""
        with self._guard:
            self._moments.setdefault((item.id, item.token), moment)
            if len(self._moments) > MOST_ASKED:
                del self._moments[next(iter(self._moments))]

    def renewed(self, item: Item | Taken, moment: float) -> None:
        """Record that its lease was renewed by a request sent at that moment."""
        with self._guard:
            if (item.id, item.token) in self._moments:
                self._moments[item.id, item.token] = moment

    def began(self, item: Item) -> float:
        """The earliest time at which its lease can have begun; now, if unknown."""
        with self._guard:
            return self._moments.pop((item.id, item.token), None) or steady()


def deadline_after(sent: float, left: float | None) -> float | None:
    """Return when a lease expires that had `left` seconds at the time `sent` (monotonic clock); None: never."""
    return None if left is None else sent + left


def _pause(lease: float) -> float:
    return min(lease / RENEWALS, LONGEST_PAUSE_SECONDS)

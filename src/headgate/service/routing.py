"""Two stores as one: locks on `data:` chunks are beside the ledger, all others in the coordination store."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from headgate.calls.idempotency import Kept, Keyed
from headgate.core.errors import BadValue, Refused
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Mode, Request, Waiter
from headgate.core.locks.tickets import Granted, Ticket
from headgate.stores.ports.history import MergedHistory
from headgate.stores.ports.ledger import LedgerStore
from headgate.stores.ports.locks import LockStore
from headgate.stores.ports.repeats import RepeatStore
from headgate.stores.store import Outages, Store

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.stores.ports.epochs import EpochStore
    from headgate.stores.ports.history import HistoryKeeper, HistorySource, HistoryStore
    from headgate.stores.ports.inventory import InventoryStore
    from headgate.stores.ports.logs import LogBook
    from headgate.stores.ports.queue import QueueStore
    from headgate.stores.ports.tokens import SessionStore, TokenStore
    from headgate.stores.ports.watches import WatchStore

#: Resources of this scheme are the ledger's chunks.
LEDGER_SCHEME = "data:"


class JoinedOutages:
    """The outages of a service that works on several stores."""

    def __init__(self, parts: Sequence[Outages]) -> None:
        self._parts = parts

    def report_alive(self) -> None:
        """A service lives."""
        for part in self._parts:
            part.report_alive()

    def bridge(self) -> float:
        """Extend leases by the time without a service. Returns the longest, in seconds."""
        return max((part.bridge() for part in self._parts), default=0.0)


class JoinedStore:
    """The root of two stores that act as one: the ledger's, and the one that coordinates locks and queue."""

    def __init__(self, beside_ledger: Store, coordination: Store) -> None:
        self.name = f"{coordination.name} (data: in {beside_ledger.name})"
        self.tag = coordination.tag
        self.side_by_side = coordination.side_by_side
        self.parts = (beside_ledger, coordination)
        self.locks = RoutedLocks(self.name, beside_ledger.locks, coordination.locks)
        self._beside_ledger, self._coordination = beside_ledger, coordination
        if beside_ledger.keeper is not None:
            coordination.keep_history_in(beside_ledger.keeper)

    @property
    def queue(self) -> QueueStore:
        """The queue is in the same store as the locks."""
        return self._coordination.queue

    @property
    def ledger(self) -> LedgerStore | None:
        """The ledger, with the locks on its chunks."""
        return self._beside_ledger.ledger

    @property
    def watches(self) -> WatchStore | None:
        """The watchers, beside the ledger."""
        return self._beside_ledger.watches

    @property
    def inventory(self) -> InventoryStore | None:
        """The inventory, beside the ledger."""
        return self._beside_ledger.inventory

    @property
    def tokens(self) -> TokenStore | None:
        """API tokens are kept beside the ledger."""
        return self._beside_ledger.tokens

    @property
    def sessions(self) -> SessionStore | None:
        """Browser sessions are kept where the tokens are."""
        return self._beside_ledger.sessions

    @property
    def repeats(self) -> RepeatStore | None:
        """The records of requests with an idempotency key, each in the store of its effect."""
        here, there = self._beside_ledger.repeats, self._coordination.repeats
        return None if here is None or there is None else JoinedRepeats(here, there)

    @property
    def epochs(self) -> EpochStore | None:
        """Each of the two has its own: see `parts`."""
        return None

    @property
    def outages(self) -> JoinedOutages:
        """The times without a service, as recorded in both."""
        return JoinedOutages([each.outages for each in self.parts if each.outages is not None])

    @property
    def history(self) -> HistoryStore:
        """The history of both, by time."""
        return MergedHistory(*(book for each in self.parts for book in each.history.books))

    @property
    def logs(self) -> LogBook | None:
        """Logs are large, and kept beside the ledger."""
        return self._beside_ledger.logs

    @property
    def keeper(self) -> HistoryKeeper | None:
        """Storage for the history of other stores."""
        return self._beside_ledger.keeper

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Old history may be stored there: read it too."""
        self._coordination.keep_history_in(keeper)

    def history_sources(self) -> Sequence[HistorySource]:
        """Return the histories of the coordination store, if the other one can keep them."""
        return () if self.keeper is None else self._coordination.history_sources()

    def files(self) -> Sequence[Path]:
        """Return the files and folders of both."""
        return [path for each in self.parts for path in each.files()]

    def notices(self) -> Sequence[str]:
        """Return warnings for an operator about the connections to both."""
        return [line for each in self.parts for line in each.notices()]

    def ping(self) -> None:
        """Send the shortest possible query to both."""
        for each in self.parts:
            each.ping()

    def close(self) -> None:
        """Close both."""
        for each in self.parts:
            each.close()


class RoutedLocks:
    """Sends each request to the store of its resource."""

    def __init__(self, name: str, ledger_side: LockStore, coordination: LockStore) -> None:
        self.name = name
        self.tag, self.rules = coordination.tag, coordination.rules
        self._ledger_side = ledger_side
        self._coordination = coordination
        self._both = (ledger_side, coordination)

    def acquire(self, request: Request) -> Granted:
        return self._for_request(request).acquire(request)

    def queue_up(self, request: Request) -> Granted | Ticket:
        return self._for_request(request).queue_up(request)

    def place_of(self, request: Request) -> Ticket | None:
        return self._for_request(request).place_of(request)

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        self._for_request(ticket.request).listen(ticket, wake)

    def look(self, ticket: Ticket) -> float:
        return self._for_request(ticket.request).look(ticket)

    def take_turn(self, ticket: Ticket) -> Granted | None:
        return self._for_request(ticket.request).take_turn(ticket)

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        for store in self._both:
            own = [ticket for ticket in tickets if self._for_request(ticket.request) is store]
            if own:
                store.keep_places(own)

    def give_up(self, ticket: Ticket) -> Granted:
        return self._for_request(ticket.request).give_up(ticket)

    def withdraw(self, ticket: Ticket) -> None:
        self._for_request(ticket.request).withdraw(ticket)

    def release(self, lock_id: str, token: int) -> None:
        self._for_id(lock_id).release(lock_id, token)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        return self._for_id(lock_id).renew(lock_id, token, lease)

    def check(self, lock_id: str, token: int) -> Lock:
        return self._for_id(lock_id).check(lock_id, token)

    def upgrade(self, lock_id: str, token: int) -> Lock:
        return self._for_id(lock_id).upgrade(lock_id, token)

    def downgrade(self, lock_id: str, token: int) -> Lock:
        return self._for_id(lock_id).downgrade(lock_id, token)

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        return self._for_id(lock_id).hand_over(lock_id, to, reason)

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        return self._for_id(lock.id).watch_loss(lock, lost)

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        return self._for_id(lock_id).break_lock(lock_id, reason, by)

    def get(self, lock_id: str) -> Lock:
        return self._for_id(lock_id).get(lock_id)

    def list(self, which: LockFilter) -> Sequence[Lock]:
        found = heapq.merge(*(store.list(which) for store in self._both), key=lambda lock: lock.id)
        return list(islice(found, which.limit))

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        return sorted(row for store in self._both for row in store.summary())

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        found = [waiter for store in self._both for waiter in store.waiters(resource)]
        return sorted(found, key=lambda waiter: waiter.since)

    def expire(self, limit: int = 1000) -> int:
        return sum(store.expire(limit) for store in self._both)

    def register_client(self, client: str) -> datetime:
        return self._coordination.register_client(client)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        return self._coordination.clients()

    def forget_client(self, client: str) -> None:
        if self._ledger_side.list(LockFilter(client=client, limit=1)):
            raise Refused(f"client {client!r} holds a lock on a chunk; release it first")
        self._coordination.forget_client(client)

    def register_resource(self, resource: str) -> None:
        self._for_resource(resource).register_resource(resource)

    def resources(self) -> Sequence[str]:
        return sorted(resource for store in self._both for resource in store.resources())

    def forget_resource(self, resource: str) -> None:
        self._for_resource(resource).forget_resource(resource)

    def faults(self) -> Sequence[Fault]:
        return [fault for store in self._both for fault in store.faults()]

    def repair(self, fault: Fault, who: str) -> bool:
        return any(store.repair(fault, who) for store in self._both)

    def _for_resource(self, resource: str) -> LockStore:
        return self._ledger_side if resource.startswith(LEDGER_SCHEME) else self._coordination

    def _for_request(self, request: Request) -> LockStore:
        stores = {id(store): store for want in request.wants for store in [self._for_resource(want.resource)]}
        if len(stores) > 1:
            raise BadValue(
                "resources",
                [want.resource for want in request.wants],
                (
                    "are in two stores (data: next to the ledger, the others in coordination_url), which cannot be "
                    "changed in one step; request them separately"
                ),
            )
        return next(iter(stores.values()))

    def _for_id(self, lock_id: str) -> LockStore:
        ours = str(lock_id).startswith(f"{self._ledger_side.tag}-")
        return self._ledger_side if ours else self._coordination


class JoinedRepeats:
    """The records of two stores: each is in the store of its effect. Answers are kept beside the ledger."""

    def __init__(self, beside_ledger: RepeatStore, coordination: RepeatStore) -> None:
        self._beside_ledger = beside_ledger
        self._coordination = coordination

    def find(self, record_id: str) -> Kept | None:
        return self._beside_ledger.find(record_id) or self._coordination.find(record_id)

    def answered(self, keyed: Keyed, status: int, answer: str) -> None:
        self._beside_ledger.answered(keyed, status, answer)

    def drop(self, record_id: str) -> None:
        self._beside_ledger.drop(record_id)
        self._coordination.drop(record_id)

    def clean(self, limit: int = 1000) -> int:
        return self._beside_ledger.clean(limit) + self._coordination.clean(limit)

"""Locks of a service: each operation as declared in `headgate.operations`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from headgate.calls.deadlines import LOCK_CALLS, answered_in_time, bulk, current, within
from headgate.client.connection import ServiceConnection
from headgate.client.sending import ServicePart, check_text, known_by, remote, same_as, send
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Mode, Request, Waiter, Want
from headgate.core.locks.parsing import parse_lock_id, parse_mode
from headgate.core.locks.rules import LOCK_RULES
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.values.names import RESOURCE_LIMIT
from headgate.operations import locks, whole
from headgate.operations.declaring import Operation
from headgate.service.access.identity import owner
from headgate.service.guards.keeper import GuardKeeper
from headgate.service.guards.tending import UNGUARDED, GuardTending
from headgate.service.leases.clock import steady
from headgate.service.locks.obtaining import Obtaining
from headgate.service.locks.use_cases import Locks
from headgate.service.locks.wants import Wanted, sorted_pairs

#: A request waits at the service for at most this long, so that its queue position there is kept.
LOOK_SECONDS = 3.0
#: The pause after a request that found nothing.
SOON_SECONDS = 0.001
#: A grant from a waiting request is used unchanged if the request took at most this part of its lease.
USABLE_PART = 0.1


@answered_in_time(LOCK_CALLS)
@remote("locks", locks.declared, whole.declared, here=("acquire",))
class RemoteLocks(Locks):
    """Locks, queues, clients and resources behind a service, which checks and records each operation."""

    def __init__(
        self, connection: ServiceConnection, guards: GuardKeeper | None = None, lock_delay: float = 0.0,
        resource_limit: int = RESOURCE_LIMIT,
    ) -> None:  # fmt: skip
        """`guards`: the storage guards of this process, as opposed to the service's."""
        self.connection, self.options = connection, connection.options
        self.resource_limit = resource_limit
        self._guards = guards or GuardKeeper({})
        self._obtaining = Obtaining(RemoteGrants(connection), self._guards, self.options.answer_within, records=False)
        self._lock_delay = lock_delay

    @same_as(Locks.list)
    def list(self, *, after: str | None, **which: Any) -> Any:
        behind = None if after is None else parse_lock_id(after)
        return send(self.connection, locks.list_locks, after=behind, **which)

    def expire(self, *, limit: int = 1000) -> int:
        return int(send(self.connection, whole.reap, of="locks", limit=limit))

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        found = send(self.connection, whole.status)["locks"]
        return [(each["id"], Mode(each["type"].lower()), each["count"]) for each in found]

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        del lock, lost  # The holder learns of it when it renews.
        return lambda: None

    @cached_property
    def tending(self) -> GuardTending:
        return RemoteTending(self.connection)

    def _request(
        self, client: str, resources: Wanted, lease: float | None, note: str, *, reentrant: bool, request_id: str | None
    ) -> Request:
        pairs = sorted_pairs(resources, self.resource_limit)
        return Request(
            id=known_by(request_id),
            client=client,
            wants=tuple(Want(check_text("resource", uri), parse_mode(mode)) for uri, mode in pairs),
            lease=lease,
            lock_delay=self._lock_delay,
            reentrant=bool(reentrant),
            owner=owner(),
            note=note,
            fresh=request_id is None,
        )


class RemoteTending(ServicePart, GuardTending):
    """Storage guards of a service."""

    def faults(self) -> list[Fault]:
        """Locks whose storage guard is missing at the service."""
        return [Fault(UNGUARDED, each.lock, each.what) for each in send(self.connection, locks.unguarded)]


@answered_in_time({"list": LOCK_CALLS["list"], "waiters": LOCK_CALLS["waiters"], "look": bulk})
class RemoteGrants(ServicePart):
    """The steps of acquiring locks from a service. `look` waits for the turn, up to the caller's deadline."""

    def __init__(self, connection: ServiceConnection) -> None:
        super().__init__(connection)
        #: The service decides; this process only guesses whether it would refuse.
        self.rules = LOCK_RULES
        #: The grants that waiters received, and when their requests began (steady).
        self._found: dict[int, tuple[Granted, float]] = {}

    def acquire(self, request: Request) -> Granted:
        return _granted(request, send(self.connection, locks.acquire, **_asked(request), request_id=request.id))

    def queue_up(self, request: Request) -> Granted | Ticket:
        found = send(self.connection, locks.queue_up, **_asked(request), request_id=request.id)
        return Ticket(found, request) if isinstance(found, int) else _granted(request, found)

    def place_of(self, request: Request) -> Ticket | None:
        del request  # The service knows it.
        return None

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        del ticket, wake  # The service holds its answer to `look` until the turn comes.

    def look(self, ticket: Ticket) -> float:
        left = current(self.options.answer_within).left - self.options.answer_within
        seconds, began = min(max(left, 0.0), LOOK_SECONDS), steady()
        with within(seconds + self.options.answer_within):
            found = self._of_waiter(locks.take_turn, ticket, wait=seconds)
        if found is not None:
            self._found[ticket.number] = found, began
        return SOON_SECONDS if found is None else 0.0

    def take_turn(self, ticket: Ticket) -> Granted | None:
        """A received grant, with the part of its lease that is certainly left: the service may have granted it as soon
        as the request arrived. If that is too little, ask again: either the lease restarts, or the turn has passed.
        """
        found, began = self._found.pop(ticket.number, ((), 0.0))
        lasted = steady() - began
        if found and all(each.lease is None or lasted <= each.lease * USABLE_PART for each in found):
            return tuple(_shortened(each, lasted) for each in found)
        return self._of_waiter(locks.take_turn, ticket)

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self._of_waiter(locks.take_turn, ticket)

    def give_up(self, ticket: Ticket) -> Granted:
        return self._of_waiter(locks.give_up, ticket) or ()  # It is refused, or granted.

    def withdraw(self, ticket: Ticket) -> None:
        self._found.pop(ticket.number, None)
        self._of_waiter(locks.withdraw, ticket)

    def release(self, lock_id: str, token: int) -> None:
        send(self.connection, locks.release, lock_id=lock_id, token=token)

    def list(self, which: LockFilter) -> Sequence[Lock]:
        found: Sequence[Lock] = send(self.connection, locks.list_locks, resource=which.resource)
        return found

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        found: Sequence[Waiter] = send(self.connection, locks.waiters, resource=resource)
        return found

    def _of_waiter(self, operation: Operation, ticket: Ticket, wait: float = 0.0) -> Granted | None:
        request = ticket.request
        asked = {**_asked(request), "ticket": ticket.number, "request_id": request.id, "wait": wait}
        found = send(self.connection, operation, **asked)
        return None if found is None else _granted(request, found)


def _shortened(lock: Lock, seconds: float) -> Lock:
    return lock if lock.expires_in is None else replace(lock, expires_in=lock.expires_in - seconds)


def _asked(request: Request) -> dict[str, Any]:
    return {
        "client": request.client, "resources": {want.resource: want.mode for want in request.wants},
        "lease": request.lease, "reentrant": request.reentrant, "note": request.note, "owner": request.owner,
        "lock_delay": request.lock_delay,
    }  # fmt: skip


def _granted(request: Request, found: Sequence[Lock]) -> Granted:
    return tuple(replace(each, request_id=request.id) for each in found)

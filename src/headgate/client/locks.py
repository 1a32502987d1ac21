"""Locks of a service: each operation as it is declared in `headgate.operations`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from headgate.calls.deadlines import LOCK_CALLS, answered_in_time, bulk, current, within
from headgate.client.connection import Connection
from headgate.client.sending import send, sends
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks import Lock, Mode, Request, parse_lock_id
from headgate.core.tickets import Grant, Ticket
from headgate.core.wire import plain
from headgate.operations import locks, whole
from headgate.operations.declaring import Operation
from headgate.service.clock import steady

#: A look waits at the service for at most this long, so that its place there is kept.
LOOK_SECONDS = 3.0
#: The pause after a look that found nothing.
SOON_SECONDS = 0.001
#: A grant that a look brought is used as it is when the look took at most this part of its lease.
USABLE_PART = 0.1


def _of_lock(operation: Operation) -> Callable[..., Any]:
    """The method that asks for an operation on one lock."""
    call = sends(operation)
    return lambda self, lock_id, *given, **named: call(self, parse_lock_id(lock_id), *given, **named)


@answered_in_time({**LOCK_CALLS, "look": bulk})  # It waits for the turn, up to the caller's deadline.
class ServiceLocks:
    """Locks, queues, clients, resources and history behind a service."""

    def __init__(self, connection: Connection, tag: str) -> None:
        self.name, self.tag = connection.name, tag
        self.options = connection.options
        self.connection = connection
        #: What waiters were granted when they looked, and when they began to look (steady).
        self._found: dict[int, tuple[Grant, float]] = {}

    def acquire(self, request: Request) -> Grant:
        return _granted(request, send(self.connection, locks.acquire, **_asked(request), request_id=request.id))

    def queue_up(self, request: Request) -> Grant | Ticket:
        found = send(self.connection, locks.queue_up, **_asked(request), request_id=request.id)
        return Ticket(found, request) if isinstance(found, int) else _granted(request, found)

    def place_of(self, request: Request) -> Ticket | None:
        del request  # The service finds it.
        return None

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        del ticket, wake  # The service holds back its answer to `look` until the turn comes.

    def look(self, ticket: Ticket) -> float:
        left = current(self.options.answer_within).left - self.options.answer_within
        seconds, began = min(max(left, 0.0), LOOK_SECONDS), steady()
        with within(seconds + self.options.answer_within):
            found = self._of_waiter(locks.take_turn, ticket, wait=seconds)
        if found is not None:
            self._found[ticket.number] = found, began
        return SOON_SECONDS if found is None else 0.0

    def take_turn(self, ticket: Ticket) -> Grant | None:
        """What a look brought, with what is left of its lease for certain: the service may have granted it as soon as
        the look began. When that is too little, ask again: the lease then begins anew, or the turn is over.
        """
        found, began = self._found.pop(ticket.number, ((), 0.0))
        lasted = steady() - began
        if found and all(each.lease is None or lasted <= each.lease * USABLE_PART for each in found):
            return tuple(_shortened(each, lasted) for each in found)
        return self._of_waiter(locks.take_turn, ticket)

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self._of_waiter(locks.take_turn, ticket)

    def give_up(self, ticket: Ticket) -> Grant:
        return self._of_waiter(locks.give_up, ticket) or ()  # It is refused, or granted.

    def withdraw(self, ticket: Ticket) -> None:
        self._found.pop(ticket.number, None)
        self._of_waiter(locks.withdraw, ticket)

    release = _of_lock(locks.release)
    renew = _of_lock(locks.renew)
    check = _of_lock(locks.check)
    upgrade = _of_lock(locks.upgrade)
    downgrade = _of_lock(locks.downgrade)
    hand_over = _of_lock(locks.hand_over)
    break_lock = _of_lock(locks.break_lock)
    get = _of_lock(locks.get)

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        del lock, lost  # The holder learns of it when it renews.
        return lambda: None

    def list(self, which: LockFilter) -> Sequence[Lock]:
        found: Sequence[Lock] = send(
            self.connection, locks.list_locks, resource=which.resource, client=which.client, mode=which.mode,
            after=which.after, limit=which.limit,
        )  # fmt: skip
        return found

    waiters = sends(locks.waiters)

    register_client = sends(whole.register_client)
    forget_client = sends(whole.forget_client)
    register_resource = sends(whole.register_resource)
    resources = sends(whole.resources)
    forget_resource = sends(whole.forget_resource)
    faults = sends(whole.faults)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        return [(each.name, each.since) for each in send(self.connection, whole.clients)]

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        found = send(self.connection, whole.status)["locks"]
        return [(each["id"], Mode(each["type"].lower()), each["count"]) for each in found]

    def expire(self, limit: int = 1000) -> int:
        return int(send(self.connection, whole.reap, of="locks", limit=limit))

    def repair(self, fault: Fault, who: str) -> bool:
        return bool(send(self.connection, whole.repair, **plain(fault), by=who))

    def _of_waiter(self, operation: Operation, ticket: Ticket, wait: float = 0.0) -> Grant | None:
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


def _granted(request: Request, found: Sequence[Lock]) -> Grant:
    return tuple(replace(each, request_id=request.id) for each in found)

"""Locks of a service: the port over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from headgate.client.connection import Connection
from headgate.core.faults import Fault
from headgate.core.locks import Lock, Mode, Request, Waiter, parse_lock_id
from headgate.core.wire import parse, plain
from headgate.stores.base import Grant, LockFilter, Ticket
from headgate.stores.deadlines import LOCK_CALLS, answered_in_time, bulk, current, within

#: A look waits at the service for at most this long, so that its place there is kept.
LOOK_SECONDS = 3.0
#: The pause after a look that found nothing.
SOON_SECONDS = 0.001


@answered_in_time({**LOCK_CALLS, "look": bulk})  # It waits for the turn, up to the caller's deadline.
class ServiceLocks:
    """Locks, queues, clients, resources and history behind a service."""

    def __init__(self, connection: Connection, tag: str) -> None:
        self.name, self.tag = connection.name, tag
        self.options = connection.options
        self._connection = connection
        #: What waiters were granted when they looked.
        self._found: dict[int, Grant] = {}

    def acquire(self, request: Request) -> Grant:
        return _granted(request, self._connection.send("POST", "locks", body=_asked(request), request_id=request.id))

    def queue_up(self, request: Request) -> Grant | Ticket:
        found = self._connection.send("POST", "waiters", body=_asked(request), request_id=request.id)
        return Ticket(found["ticket"], request) if "ticket" in found else _granted(request, found)

    def place_of(self, request: Request) -> Ticket | None:
        del request  # The service finds it.
        return None

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        del ticket, wake  # The service holds back its answer to `look` until the turn comes.

    def look(self, ticket: Ticket) -> float:
        left = current(self.options.answer_within).left - self.options.answer_within
        seconds = min(max(left, 0.0), LOOK_SECONDS)
        with within(seconds + self.options.answer_within):
            found = self._waiter(ticket, "turn", wait=seconds)
        if found is not None:
            self._found[ticket.number] = _granted(ticket.request, found)
        return SOON_SECONDS if found is None else 0.0

    def take_turn(self, ticket: Ticket) -> Grant | None:
        if found := self._found.pop(ticket.number, None):
            return found
        answer = self._waiter(ticket, "turn")
        return None if answer is None else _granted(ticket.request, answer)

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self._waiter(ticket, "turn")

    def give_up(self, ticket: Ticket) -> Grant:
        return _granted(ticket.request, self._waiter(ticket, "give-up"))

    def withdraw(self, ticket: Ticket) -> None:
        self._found.pop(ticket.number, None)
        self._waiter(ticket, "withdraw")

    def release(self, lock_id: str, token: int) -> None:
        # Sent once: a second one would be told that it is released already, though it was this very one.
        self._connection.send("DELETE", "locks", parse_lock_id(lock_id), token=token, again=False)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        return self._change(lock_id, "renew", {"token": token, "lease": lease})

    def check(self, lock_id: str, token: int) -> Lock:
        return self._change(lock_id, "check", {"token": token})

    def upgrade(self, lock_id: str, token: int) -> Lock:
        return self._change(lock_id, "upgrade", {"token": token}, once=True)

    def downgrade(self, lock_id: str, token: int) -> Lock:
        return self._change(lock_id, "downgrade", {"token": token}, once=True)

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        return self._change(lock_id, "hand-over", {"to": to, "reason": reason}, once=True)

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        del lock, lost  # The holder learns of it when it renews.
        return lambda: None

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        return self._change(lock_id, "break", {"reason": reason, "by": by}, once=True)

    def get(self, lock_id: str) -> Lock:
        found: Lock = parse(Lock, self._connection.get("locks", parse_lock_id(lock_id)))
        return found

    def list(self, which: LockFilter) -> Sequence[Lock]:
        query: dict[str, Any] = {
            "resource": which.resource, "client": which.client, "mode": which.mode, "after": which.after
        }  # fmt: skip
        return [parse(Lock, each) for each in self._connection.pages("locks", limit=which.limit, **query)]

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        found = self._connection.get("status")["locks"]
        return [(each["id"], Mode(each["type"].lower()), each["count"]) for each in found]

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        return [parse(Waiter, each) for each in self._connection.pages("waiters", resource=resource)]

    def expire(self, limit: int = 1000) -> int:
        return int(self._connection.send("POST", "reap", of="locks", limit=limit)["count"])

    def register_client(self, client: str) -> datetime:
        return datetime.fromisoformat(self._connection.send("PUT", "clients", client)["since"])

    def clients(self) -> Sequence[tuple[str, datetime]]:
        found = self._connection.pages("clients")
        return [(str(each["name"]), datetime.fromisoformat(each["since"])) for each in found]

    def forget_client(self, client: str) -> None:
        self._connection.send("DELETE", "clients", client, again=False)

    def register_resource(self, resource: str) -> None:
        self._connection.send("PUT", "resources", resource=resource)

    def resources(self) -> Sequence[str]:
        return list(self._connection.pages("resources"))

    def forget_resource(self, resource: str) -> None:
        self._connection.send("DELETE", "resources", resource=resource, again=False)

    def faults(self) -> Sequence[Fault]:
        return [parse(Fault, each) for each in self._connection.pages("store", "faults")]

    def repair(self, fault: Fault, who: str) -> bool:
        body = {**plain(fault), "by": who}
        return bool(self._connection.once("store", "repair", body=body)["repaired"])

    def _change(self, lock_id: str, act: str, body: dict[str, Any], *, once: bool = False) -> Lock:
        path = ("locks", parse_lock_id(lock_id), act)
        send = self._connection.once if once else partial(self._connection.send, "POST")
        changed: Lock = parse(Lock, send(*path, body=body))
        return changed

    def _waiter(self, ticket: Ticket, act: str, wait: float = 0.0) -> Any:
        body = {**_asked(ticket.request), "request_id": ticket.request.id, "wait": wait}
        return self._connection.send("POST", "waiters", str(ticket.number), act, body=body, wait=wait)


def _asked(request: Request) -> dict[str, Any]:
    return {
        "client": request.client, "resources": {want.resource: want.mode.value for want in request.wants},
        "lease": request.lease, "reentrant": request.reentrant, "note": request.note, "owner": request.owner,
        "lock_delay": request.lock_delay,
    }  # fmt: skip


def _granted(request: Request, document: Any) -> Grant:
    return tuple(replace(parse(Lock, each), request_id=request.id) for each in document["locks"])

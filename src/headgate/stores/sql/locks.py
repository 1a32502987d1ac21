"""Locks in SQL: the port's methods. The quick way is one trip; whatever it does not grant goes the careful way."""

from __future__ import annotations

import base64
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headgate.core.errors import LockLost, LockRefused, Refused, StoreUnavailable, UnknownName
from headgate.core.history import Entry
from headgate.core.locks import (
    ENDINGS,
    Blocker,
    Lock,
    Mode,
    Request,
    Waiter,
    Want,
    check_lock_id,
    decide,
    decide_upgrade,
    find_cycle,
    resource_digest,
    resource_key,
)
from headgate.stores.base import Grant, HistoryFilter, LockFilter, Ticket
from headgate.stores.sql import lock_statements as sql
from headgate.stores.sql.engine import Database, Duplicate, Transaction
from headgate.stores.sql.scene import (
    MICROSECONDS,
    TRIAL,
    WAITER_LEASE,
    Place,
    Scene,
    heads,
    moment,
    read_lock,
    read_places,
    ticket_columns,
    to_micro,
    to_seconds,
)
from headgate.stores.sql.statement import Row
from headgate.stores.sql.waiting import Wakeups

Wakes = Iterable[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class _Outlook:
    """How it stands for a waiter."""

    #: It may be its turn, or it was handed its lock already.
    ready: bool
    #: How many stand before it.
    position: int = 0
    #: Seconds until a lease in its way runs out.
    soonest: float = math.inf


@dataclass(frozen=True, slots=True)
class _Standing:
    """How many stand before a waiter, and since when it is so many (monotonic)."""

    position: int
    since: float


class SqlLocks:
    """Locks, queues, clients, resources and history in one SQL database."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self._database = database
        self._wakeups = Wakeups(database)
        #: Keys of resources that somebody had to wait for lately: a hint for which way to go first.
        self._contended: set[str] = set()
        self.tag = str(database.read(lambda tx: tx.one(sql.READ_TAG))[0])

    def acquire(self, request: Request) -> Grant:
        quick = self._grant_quickly(request)
        if quick:
            return quick
        return self._wake_and_return(self._database.write(lambda tx: self._grant_or_refuse(tx, request)))

    def queue_up(self, request: Request) -> Grant | Ticket:
        quick = self._queue_up_quickly(request)
        if quick:
            return quick
        channel = self._wakeups.channel
        result, wakes = self._database.write(lambda tx: self._grant_or_queue(tx, request, channel))
        self._wakeups.wake(wakes)
        return result if isinstance(result, tuple) else Ticket(result, request)

    def await_turn(self, ticket: Ticket, seconds: float) -> None:
        event = self._wakeups.event(ticket.number)
        until = time.monotonic() + seconds
        place = _Standing(0, time.monotonic())
        seen = self._database.changed()
        while not event.is_set() and (left := until - time.monotonic()) > 0:
            outlook = self._look(ticket)
            if outlook.ready:
                break
            if outlook.position != place.position:
                place = _Standing(outlook.position, time.monotonic())
            seen = self._sleep(event, seen, place, min(left, outlook.soonest))
        event.clear()

    def take_turn(self, ticket: Ticket) -> Grant | None:
        grant = self._take_up_hand_over(ticket) or self._take_turn_myself(ticket)
        if grant:
            self._wakeups.forget(ticket.number)
        return grant

    def give_up(self, ticket: Ticket) -> Grant:
        self._wakeups.forget(ticket.number)
        return self._wake_and_return(self._database.write(lambda tx: self._give_up(tx, ticket)))

    def withdraw(self, ticket: Ticket) -> None:
        self._wakeups.forget(ticket.number)
        self._wakeups.wake(self._database.write(lambda tx: self._withdraw(tx, ticket)))

    def release(self, lock_id: str, token: int) -> None:
        check_lock_id(lock_id, self.tag, self.name)
        key = lock_id.split("-")[1]
        params = {"id": lock_id, "token": token}
        freed = self._database.dialect.release(self._database, params, contended=key in self._contended)
        if freed is None:
            self._wakeups.wake(self._database.write(lambda tx: self._release(tx, lock_id, token)))
        elif freed.waiting:
            self._wake_heads(freed.rkey)
        elif not freed.handed:
            self._contended.discard(key)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)

        def work(tx: Transaction) -> Lock:
            changed = tx.count(sql.RENEW_LOCK, id=lock_id, token=token, lease=to_micro(lease))
            lock = self._held(tx, lock_id, token)
            if not changed and lock.lease is not None:
                raise LockLost(lock_id, token, "its lease has run out")
            return lock

        return self._database.write(work)

    def check(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        return self._database.read(lambda tx: self._held(tx, lock_id, token))

    def upgrade(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        result = self._database.write(lambda tx: self._upgrade(tx, lock_id, token))
        if isinstance(result, LockRefused):
            raise result
        return result

    def downgrade(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)

        def work(tx: Transaction) -> tuple[Lock, Wakes]:
            scene, lock = self._scene_of_held(tx, lock_id, token)
            if tx.again and lock.mode is Mode.SHARED:
                return lock, ()
            return scene.change(lock, "downgrade"), scene.settle()

        lock, wakes = self._database.write(work)
        self._wakeups.wake(wakes)
        return lock

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        del lock, lost  # A database says nothing by itself: the holder learns of it when it renews.
        return lambda: None

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)

        def work(tx: Transaction) -> tuple[Lock, Wakes]:
            found = tx.one(sql.READ_LOCK, id=lock_id)
            scene = Scene(tx, [found[1]], self.tag) if found else None
            lock = next((each for each in scene.locks if each.id == lock_id), None) if scene else None
            if scene is None or lock is None:
                raise UnknownName("lock", lock_id, "It may have been released; see: headgate lock list")
            scene.end(lock, "break", reason, by)
            return lock, scene.settle()

        lock, wakes = self._database.write(work)
        self._wakeups.wake(wakes)
        return lock

    def get(self, lock_id: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        row = self._database.read(lambda tx: tx.one(sql.READ_LOCK, id=lock_id))
        if row is None or not (lock := read_lock(row)).alive:
            raise UnknownName("lock", lock_id, "It may have been released; see: headgate lock list")
        return lock

    def list(self, which: LockFilter) -> Sequence[Lock]:
        from headgate.stores.sql.questions import ask_locks

        return ask_locks(self._database, which)

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        from headgate.stores.sql.questions import ask_summary

        return ask_summary(self._database)

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        from headgate.stores.sql.questions import ask_waiters

        return ask_waiters(self._database, resource)

    def history(self, which: HistoryFilter) -> Sequence[Entry]:
        from headgate.stores.sql.questions import ask_history

        return ask_history(self._database, which)

    def expire(self, limit: int = 1000) -> int:
        from headgate.stores.sql.questions import ask_expired

        resources = ask_expired(self._database, limit)
        return sum(self._expire_one(resource) for resource in resources)

    def register_client(self, client: str) -> datetime:
        def work(tx: Transaction) -> datetime:
            tx.run(sql.WRITE_CLIENT, name=client)
            return moment(tx.one(sql.READ_CLIENT, name=client)[0])

        return self._database.write(work)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        rows = self._database.read(lambda tx: tx.all(sql.READ_CLIENTS))
        return sorted((str(name), moment(since)) for name, since in rows)

    def forget_client(self, client: str) -> None:
        def work(tx: Transaction) -> None:
            held = int(tx.one(sql.COUNT_CLIENT_LOCKS, name=client)[0])
            if held:
                raise Refused(f"client {client!r} holds {held} lock(s); release them first")
            if not tx.count(sql.DELETE_CLIENT, name=client):
                raise UnknownName("client", client)

        self._database.write(work)

    def register_resource(self, resource: str) -> None:
        def work(tx: Transaction) -> None:
            Scene(tx, [resource], self.tag).settle()

        self._database.write(work)

    def resources(self) -> Sequence[str]:
        return sorted(str(row[0]) for row in self._database.read(lambda tx: tx.all(sql.READ_RESOURCES, known=True)))

    def forget_resource(self, resource: str) -> None:
        key = resource_digest(resource)
        gone = self._database.write(lambda tx: tx.count(sql.FORGET_RESOURCE, rkey=key, known=True, unknown=False))
        if gone:
            return
        if resource not in self.resources():
            raise UnknownName("resource", resource)
        raise Refused(f"resource {resource!r} is held or waited for; release it first")

    def close(self) -> None:
        self._wakeups.close()
        self._database.close()

    def _grant_quickly(self, request: Request) -> Grant:
        if len(request.wants) > 1 or request.reentrant:
            return ()
        want = request.wants[0]
        lock_id = request.lock_id(self.tag, want.resource)
        params = {
            "rkey": resource_digest(want.resource), "uri": want.resource, "mode": want.mode.value, "id": lock_id,
            "client": request.client, "lease": to_micro(request.lease), "lock_delay": to_micro(request.lock_delay),
            "request_id": request.id, "owner": request.owner, "note": request.note,
        }  # fmt: skip
        try:
            row = self._database.dialect.grant(self._database, params)
        except Duplicate:  # The same request was granted before: the careful way finds it.
            return ()
        if row is None:
            return ()
        token, since = row
        return (
            Lock(
                lock_id, want.resource, request.client, want.mode, int(token), moment(since), request.lease,  # type: ignore[arg-type]
                request.lease, 1, request.owner, request.note, request.id,
            ),
        )  # fmt: skip

    def _queue_up_quickly(self, request: Request) -> Grant | Ticket | None:
        if len(request.wants) > 1 or request.reentrant or not request.fresh:
            return None
        key = resource_key(request.wants[0].resource)
        if key not in self._contended:
            grant = self._grant_quickly(request)
            if grant:
                return grant
            self._remember_contended(key)
        number = self._enqueue_quickly(request)
        return None if number is None else Ticket(number, request)

    def _enqueue_quickly(self, request: Request) -> int | None:
        want = request.wants[0]
        columns = ticket_columns(request, self.tag, self._wakeups.channel)
        try:
            return self._database.dialect.enqueue(
                self._database, {"rkey": resource_digest(want.resource), "mode": want.mode.value, **columns}
            )
        except StoreUnavailable:  # The answer may have been lost: the careful way looks for a number that was taken.
            return None

    def _remember_contended(self, key: str) -> None:
        if len(self._contended) > 10_000:
            self._contended.clear()
        self._contended.add(key)

    def _take_up_hand_over(self, ticket: Ticket) -> Grant | None:
        """The grant, if whoever released the resource handed it over."""
        if len(ticket.request.wants) > 1:
            return None
        lock_id = ticket.request.lock_id(self.tag, ticket.request.wants[0].resource)
        row = next(iter(self._database.single(sql.READ_LOCK, id=lock_id)), None)
        lock = None if row is None else read_lock(row)
        if lock is None or not lock.alive or lock.request_id != ticket.request.id:
            return None
        if lock.expires_in is None or (lock.lease is not None and lock.lease * MICROSECONDS <= TRIAL):
            return (lock,)
        confirmed = self._database.write(lambda tx: tx.count(sql.CONFIRM_LOCK, id=lock.id, token=lock.token))
        return (replace(lock, expires_in=lock.lease),) if confirmed else None

    def _take_turn_myself(self, ticket: Ticket) -> Grant | None:
        if not self._look(ticket).ready and self._touch(ticket):
            return None
        channel = self._wakeups.channel
        grant, wakes = self._database.write(lambda tx: self._take_turn(tx, ticket, channel))
        self._wakeups.wake(wakes)
        return grant or None

    def _grant_or_refuse(self, tx: Transaction, request: Request) -> tuple[Grant | LockRefused, Wakes]:
        scene = Scene(tx, [want.resource for want in request.wants], self.tag)
        if repeated := scene.repeated(request):
            return repeated, scene.settle()
        decision = scene.decide(request)
        if decision.granted:
            return scene.grant(request, decision), scene.settle()
        scene.refuse(request, decision.blockers)
        return LockRefused(request, decision.blockers), scene.settle()

    def _grant_or_queue(self, tx: Transaction, request: Request, channel: str) -> tuple[Grant | int, Wakes]:
        scene = Scene(tx, [want.resource for want in request.wants], self.tag)
        scene.leave_queue([int(row[0]) for row in tx.all(sql.READ_TICKETS, request_id=request.id)])  # type: ignore[arg-type]
        if repeated := scene.repeated(request):
            return repeated, scene.settle()
        decision = scene.decide(request)
        if decision.granted:
            return scene.grant(request, decision), scene.settle()
        return scene.join_queue(request, channel), scene.settle()

    def _take_turn(self, tx: Transaction, ticket: Ticket, channel: str) -> tuple[Grant, Wakes]:
        request = ticket.request
        scene = Scene(tx, [want.resource for want in request.wants], self.tag)
        if repeated := scene.repeated(request):
            scene.leave_queue([ticket.number])
            return repeated, scene.settle()
        decision = scene.decide(request, ticket.number)
        if decision.granted:
            scene.leave_queue([ticket.number])
            return scene.grant(request, decision), scene.settle()
        if not scene.stands_in_queue(request, ticket.number):
            scene.leave_queue([ticket.number])
            scene.rejoin_queue(request, ticket.number, channel)
        return (), scene.settle()

    def _give_up(self, tx: Transaction, ticket: Ticket) -> tuple[Grant | LockRefused, Wakes]:
        request = ticket.request
        scene = Scene(tx, [want.resource for want in request.wants], self.tag)
        scene.leave_queue([ticket.number])
        if repeated := scene.repeated(request):
            return repeated, scene.settle()
        decision = scene.decide(request, ticket.number)
        if decision.granted:
            return scene.grant(request, decision), scene.settle()
        scene.refuse(request, decision.blockers)
        cycle = self._cycle(tx, request.client, decision.blockers)
        return LockRefused(request, decision.blockers, cycle), scene.settle()

    def _withdraw(self, tx: Transaction, ticket: Ticket) -> Wakes:
        scene = Scene(tx, [want.resource for want in ticket.request.wants], self.tag)
        scene.leave_queue([ticket.number])
        for lock in scene.repeated(ticket.request):
            scene.end(lock, "release")
        return scene.settle()

    def _release(self, tx: Transaction, lock_id: str, token: int) -> Wakes:
        try:
            scene, lock = self._scene_of_held(tx, lock_id, token)
        except LockLost:
            if tx.again and self._ended(tx, lock_id, "release", token):
                return ()
            raise
        if lock.count > 1:
            scene.change(lock, "leave", count=-1)
        else:
            scene.end(lock, "release")
        return scene.settle()

    def _upgrade(self, tx: Transaction, lock_id: str, token: int) -> Lock | LockRefused:
        found = tx.one(sql.READ_LOCK, id=lock_id)
        if tx.again and found and read_lock(found).mode is Mode.EXCLUSIVE:
            return read_lock(found)
        scene, lock = self._scene_of_held(tx, lock_id, token)
        blockers = decide_upgrade(lock, scene.locks)
        if not blockers:
            lock = scene.change(lock, "upgrade")
            scene.settle()
            return lock
        request = _upgrade_request(lock)
        scene.refuse(request, blockers)
        scene.settle()
        return LockRefused(request, blockers)

    def _scene_of_held(self, tx: Transaction, lock_id: str, token: int) -> tuple[Scene, Lock]:
        seen = self._held(tx, lock_id, token)
        scene = Scene(tx, [seen.resource], self.tag)
        lock = next((each for each in scene.locks if each.id == lock_id and each.token == token), None)
        if lock is None or not lock.alive:
            raise self._lost(tx, lock_id, token)
        return scene, lock

    def _held(self, tx: Transaction, lock_id: str, token: int) -> Lock:
        row = tx.one(sql.READ_LOCK, id=lock_id)
        if row is None:
            raise self._lost(tx, lock_id, token)
        lock = read_lock(row)
        if lock.token != token:
            raise LockLost(lock_id, token, f"the token is not that of the grant, which has {lock.token}")
        if not lock.alive:
            raise LockLost(lock_id, token, "its lease has run out")
        return lock

    def _lost(self, tx: Transaction, lock_id: str, token: int) -> LockLost:
        low, high = _key_range(lock_id)
        ends = [row for row in tx.all(sql.READ_END, low=low, high=high, lock_id=lock_id) if row[0] in ENDINGS]
        if not ends:
            return LockLost(lock_id, token, "there is no such lock, and none is known to have been")
        event, _token, _client, reason, at = ends[0]
        why = f": {reason}" if reason else ""
        return LockLost(lock_id, token, f"{ENDINGS[str(event)]} {moment(at):%Y-%m-%d %H:%M:%S} UTC{why}")

    def _ended(self, tx: Transaction, lock_id: str, event: str, token: int) -> bool:
        low, high = _key_range(lock_id)
        rows = tx.all(sql.READ_END, low=low, high=high, lock_id=lock_id)
        return any(row[0] == event and row[1] == token for row in rows)

    def _cycle(self, tx: Transaction, client: str, blockers: Sequence[Blocker]) -> tuple[str, ...]:
        waits_for: dict[str, list[str]] = {client: [blocker.client for blocker in blockers]}
        for waiter, holder in tx.all(sql.READ_WAITS_FOR):
            waits_for.setdefault(str(waiter), []).append(str(holder))
        return find_cycle(client, waits_for)

    def _look(self, ticket: Ticket) -> _Outlook:
        """How it stands for a ticket, as far as can be told without writing."""
        keys = [resource_digest(want.resource) for want in ticket.request.wants]

        def read(tx: Transaction) -> tuple[Sequence[Row], Sequence[Place]]:
            return tx.all(sql.READ_LOCKS, keys=keys), read_places(tx, keys)

        rows, places = self._database.read(read)
        locks = [(read_lock(row), to_seconds(row[12])) for row in rows]
        if any(lock.request_id == ticket.request.id for lock, _ in locks):
            return _Outlook(ready=True)
        earlier = [p.waiter for p in places if p.alive and p.waiter.ticket < ticket.number]
        held = [lock for lock, left in locks if left is None or left > 0]
        if decide(ticket.request, held, earlier).granted:
            return _Outlook(ready=True)
        ends = [left for _, left in locks if left is not None and left > 0]
        return _Outlook(ready=False, position=len(earlier), soonest=min(ends, default=math.inf) + 0.001)

    def _sleep(self, event: threading.Event, seen: object, place: _Standing, seconds: float) -> object:
        """Sleep until woken, or until another process wrote something, where that can be seen at small cost."""
        until = time.monotonic() + seconds
        while not event.wait(min(self._pause(place), max(until - time.monotonic(), 0))):
            now = self._database.changed()
            if now is None or now != seen or time.monotonic() >= until:
                return now
        return seen

    def _pause(self, place: _Standing) -> float:
        return self._wakeups.pause(time.monotonic() - place.since, place.position)

    def _touch(self, ticket: Ticket) -> bool:
        return bool(
            self._database.write(lambda tx: tx.count(sql.TOUCH_TICKET, ticket=ticket.number, alive=WAITER_LEASE))
        )

    def _expire_one(self, resource: str) -> int:
        def work(tx: Transaction) -> tuple[int, Wakes]:
            before = int(tx.one(sql.COUNT_LOCKS, rkey=resource_digest(resource))[0])
            scene = Scene(tx, [resource], self.tag)
            return before - len(scene.locks), scene.settle()

        count, wakes = self._database.write(work)
        self._wakeups.wake(wakes)
        return count

    def _wake_heads(self, key: bytes) -> None:
        self._wakeups.wake(heads(self._database.read(lambda tx: read_places(tx, [key]))))

    def _wake_and_return(self, outcome: tuple[Grant | LockRefused, Wakes]) -> Grant:
        result, wakes = outcome
        self._wakeups.wake(wakes)
        if isinstance(result, LockRefused):
            raise result
        return result


def _upgrade_request(lock: Lock) -> Request:
    return Request(lock.request_id, lock.client, (Want(lock.resource, Mode.EXCLUSIVE),), lock.lease)


def _key_range(lock_id: str) -> tuple[bytes, bytes]:
    """A lock's id has the first ten bytes of its resource's key."""
    try:
        start = base64.b32decode(lock_id.split("-")[1].upper())
    except ValueError:
        start = b"\0" * 10
    return start + b"\0" * 22, start + b"\xff" * 22

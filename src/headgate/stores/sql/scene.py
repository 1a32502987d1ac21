"""Some resources, their locks and their queues, held still within one transaction.

The careful way: everything is read under the resources' rows, decided by the core, and written back.
The quick way (a dialect's grant and release) must come to the same result whenever it says yes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headgate.core.locks import (
    COMPATIBLE,
    Blocker,
    Decision,
    Lock,
    Mode,
    Request,
    Waiter,
    claim_blockers,
    decide,
    refusal_reason,
    repeated_grant,
    resource_digest,
)
from headgate.core.machine import Also
from headgate.core.owners import Actor
from headgate.core.states import LOCK
from headgate.stores.acting import acting, actor
from headgate.stores.sql import lock_statements as sql
from headgate.stores.sql.dialects.base import Columns
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.moments import MICROSECONDS, micro, moment, to_micro, to_seconds
from headgate.stores.sql.running import running_on
from headgate.stores.sql.statement import Row, Statement

#: Why an expired lock ended, as the history has it.
EXPIRED = "the lease ran out"
#: A waiter that was not heard of for this long has died.
WAITER_LEASE = 10 * MICROSECONDS
#: The first column behind those of a lock, where a statement has one.
BESIDE = 13
#: A lock that is handed to a waiter lives only this long until the waiter takes it up, since it may have died.
TRIAL = 30 * MICROSECONDS


def read_lock(row: Row) -> Lock:
    """A row of lock columns as a lock."""
    lock_id, uri, client, mode, token, since, lease, left, count, owner, note, request_id, principal = row[:BESIDE]
    return Lock(
        id=str(lock_id),
        resource=str(uri),
        client=str(client),
        mode=Mode(mode),
        token=int(token),
        since=moment(since),
        lease=to_seconds(lease),
        expires_in=to_seconds(left),
        count=int(count),
        owner=str(owner),
        note=str(note),
        request_id=str(request_id),
        principal=str(principal),
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A waiter, where its process listens, and what may be handed to it."""

    waiter: Waiter
    channel: str
    alive: bool
    #: The id of its grant; empty: it waits for several resources, and takes its turn itself.
    lock_id: str
    lease: int | None
    #: The owner of its grant.
    principal: str = ""


@dataclass(slots=True)
class _Resource:
    """A resource's row as it was read, and its newest token."""

    key: bytes
    uri: str
    token: int
    known: bool
    written: tuple[object, ...]
    #: The next token is greater than this, too.
    floor: int


def ticket_columns(request: Request, tag: str, channel: str) -> dict[str, object]:
    """What a ticket's row says of its request; a single resource can be handed over to it."""
    single = len(request.wants) == 1 and not request.reentrant
    return {
        "request_id": request.id, "client": request.client, "owner": request.owner, "alive": WAITER_LEASE,
        "channel": channel, "lock_id": request.lock_id(tag, request.wants[0].resource) if single else "",
        "lease": to_micro(request.lease), "lock_delay": to_micro(request.delay_of(request.wants[0].mode)),
        "note": request.note, "principal": request.principal,
    }  # fmt: skip


def read_places(tx: Transaction, keys: Sequence[bytes]) -> list[Place]:
    """The queues of these resources, earliest first."""
    return [_read_place(row) for row in tx.all(sql.READ_QUEUE, keys=keys)]


def _read_place(row: Row) -> Place:
    ticket, uri, client, mode, since, owner, left, channel, lock_id, lease, principal = row
    waiter = Waiter(int(ticket), str(uri), str(client), Mode(mode), moment(since), str(owner))
    return Place(waiter, str(channel), int(left) > 0, str(lock_id), lease, str(principal))


class Scene:
    """What is true of some resources now, and what becomes of it. Make it, act, then `settle`."""

    def __init__(self, tx: Transaction, resources: Sequence[str], tag: str) -> None:
        self._tx = tx
        self._tag = tag
        self._resources = self._take_rows(resources)
        keys = [each.key for each in self._resources.values()]
        self._freed: set[str] = set()
        self.places = read_places(tx, keys)
        rows = tx.all(sql.READ_LOCKS, keys=keys)
        self.locks = [read_lock(row) for row in rows]
        left = (row[BESIDE] for row in rows)
        gone = [lock for lock, each in zip(self.locks, left, strict=True) if each is not None and int(each) <= 0]
        self._end(gone, "expire", EXPIRED)
        #: How many had expired, and are gone now.
        self.expired = len(gone)
        self._drop_dead_waiters()
        #: What the ledger's jobs are doing on these resources, as the locks that it acts as.
        self.claims = running_on(tx, self._resources, tag, hold_still=True)

    def decide(self, request: Request, number: int | None = None) -> Decision:
        """May the request be granted, from this place in the queue (or from behind its end)?"""
        earlier = [p.waiter for p in self.places if number is None or p.waiter.ticket < number]
        decision = decide(request, self.locks, earlier)
        return replace(decision, blockers=(*decision.blockers, *claim_blockers(request, self.claims)))

    def repeated(self, request: Request) -> tuple[Lock, ...]:
        """The grant that this very request was given already, or nothing."""
        return tuple(self._confirm(lock) for lock in repeated_grant(request, self._tag, self.locks))

    def _confirm(self, lock: Lock) -> Lock:
        """A lock that may have been handed over on trial lives as long as it was asked for."""
        if lock.expires_in is not None:
            self._tx.run(sql.CONFIRM_LOCK, id=lock.id, token=lock.token)
        return replace(lock, expires_in=lock.lease)

    def grant(self, request: Request, decision: Decision, *, waited: bool = False) -> tuple[Lock, ...]:
        """Nothing is in the way: hold all of it."""
        return tuple(
            self._enter(request, decision.entered[want.resource], want.mode)
            if want.resource in decision.entered
            else self._grant_one(request, want.resource, want.mode, "waiting" if waited else "new")
            for want in request.wants
        )

    def join_queue(self, request: Request, channel: str) -> int:
        """Take a number, and the last place in each queue."""
        self._tx.run(sql.WRITE_TICKET, **ticket_columns(request, self._tag, channel))
        number, since = self._tx.one(sql.READ_NUMBER, request_id=request.id)
        self._take_places(request, int(number), channel, moment(since))
        return int(number)

    def rejoin_queue(self, request: Request, number: int, channel: str) -> None:
        """Take the same number again after it was voided."""
        self._tx.run(sql.TAKE_NUMBER_AGAIN, ticket=number, **ticket_columns(request, self._tag, channel))
        self._take_places(request, number, channel, self._wall)

    def stands_in_queue(self, request: Request, number: int) -> bool:
        """Whether the number still has its place in every queue."""
        standing = [p for p in self.places if p.waiter.ticket == number]
        return len(standing) == len(request.wants)

    def leave_queue(self, numbers: Sequence[int]) -> None:
        """These numbers leave the queues of these resources."""
        if not numbers:
            return
        keys = [each.key for each in self._resources.values()]
        self._tx.all(sql.TAKE_TICKETS, tickets=sorted(numbers))
        self._tx.run(sql.DELETE_PLACES, tickets=list(numbers), keys=keys)
        self._tx.run(sql.DELETE_TICKETS, tickets=list(numbers))
        left = [p for p in self.places if p.waiter.ticket in numbers]
        self._freed |= {p.waiter.resource for p in left}
        self.places = [p for p in self.places if p not in left]

    def refuse(self, request: Request, blockers: Sequence[Blocker], before: str = "new") -> None:
        """Count it; the history is told once in a minute."""
        for resource in dict.fromkeys(blocker.resource for blocker in blockers):
            row = self._resources[resource]
            if self._tx.count(sql.COUNT_REFUSAL, rkey=row.key, client=request.client):
                continue
            lock_id = request.lock_id(self._tag, resource)
            reason = refusal_reason(request, blockers, resource)
            self._tell("refuse", resource, request.client, lock_id, row.token, before, "refused", reason)
            self._tx.run(sql.WRITE_REFUSAL, rkey=row.key, client=request.client, lock_id=lock_id)

    def end(self, lock: Lock, event: str, reason: str = "", by: str | None = None) -> None:
        """A lock ends: release, expire or break, as the table says."""
        self._end([lock], event, f"{by}: {reason}" if by else actor().reason(reason))

    def _end(self, locks: Sequence[Lock], event: str, reason: str) -> None:
        """Locks end in the same way: in few statements, however many they are."""
        if not locks:
            return
        ids = {lock.id for lock in locks}
        target = {mode: str(LOCK.find(mode, event)[0].target) for mode in {lock.mode for lock in locks}}
        self._tx.run(sql.DELETE_LOCKS, ids=sorted(ids))
        self.locks = [other for other in self.locks if other.id not in ids]
        self._freed |= {lock.resource for lock in locks}
        columns: Columns = {
            "rkey": [self._resources[lock.resource].key for lock in locks],
            "client": [lock.client for lock in locks],
            "lock_id": [lock.id for lock in locks],
            "token": [lock.token for lock in locks],
            "before": [lock.mode.value for lock in locks],
            "after": [target[lock.mode] for lock in locks],
            # Nobody did it: what has expired is told of its owner.
            "principal": [lock.principal if event == "expire" else actor().principal for lock in locks],
        }
        self._tx.many(sql.WRITE_HISTORY, columns, event=event, reason=reason[:1000])

    def change(
        self, lock: Lock, event: str, *, count: int = 0, request_id: str | None = None, owner: str | None = None,
        reason: str = "",
    ) -> Lock:  # fmt: skip
        """A lock stays, with another mode, token, count or owner, as the table says."""
        row = LOCK.find(lock.mode, event)[0]
        new = replace(
            lock,
            mode=Mode(row.target),
            token=self._next_token(lock.resource) if Also.NEW_TOKEN in row.also else lock.token,
            count=lock.count + count,
            request_id=request_id or lock.request_id,
            principal=lock.principal if owner is None else owner,
        )
        self._tx.run(
            sql.CHANGE_LOCK,
            id=new.id,
            mode=new.mode.value,
            token=new.token,
            count=new.count,
            request_id=new.request_id,
            owner=new.principal,
        )
        self.locks = [new if other.id == lock.id else other for other in self.locks]
        if event == "downgrade":
            self._freed.add(lock.resource)
        self._tell(event, lock.resource, lock.client, lock.id, new.token, lock.mode, row.target, actor().reason(reason))
        return new

    def make_known(self) -> None:
        """These resources are listed from now on."""
        for each in self._resources.values():
            each.known = True

    def reconsider(self) -> None:
        """Look at the queues of these resources as if something had come free."""
        self._freed |= set(self._resources)

    def settle(self) -> list[tuple[str, int]]:
        """Hand over what came free, bring the resources' rows into line. Gives whom to wake: (channel, ticket)."""
        queued = {place.waiter.resource for place in self.places}
        freed = sorted(self._freed & queued)
        handed = [wake for uri in freed for wake in self._hand_over(uri)]
        locks, waiting = _by_resource(self.locks), Counter(place.waiter.resource for place in self.places)
        same: dict[tuple[int, str, int, bool], list[bytes]] = {}
        for each in self._resources.values():
            here = locks.get(each.uri, ())
            exclusive = any(lock.mode is Mode.EXCLUSIVE for lock in here)
            mode = Mode.EXCLUSIVE if exclusive else Mode.SHARED
            known = each.known or bool(here) or waiting[each.uri] > 0
            row = (len(here), mode.value, waiting[each.uri], known)
            if (each.token, *row) == each.written:
                continue
            if each.token == each.written[0]:
                same.setdefault(row, []).append(each.key)
            else:
                self._write(sql.WRITE_RESOURCE, row, rkey=each.key, token=each.token)
        for row, keys in same.items():
            self._write(sql.WRITE_RESOURCES, row, keys=keys)
        return handed + [wake for uri in freed for wake in heads(self._queue(uri))]

    def _write(self, statement: Statement, row: tuple[int, str, int, bool], **params: object) -> None:
        holders, mode, waiting, known = row
        self._tx.run(statement, holders=holders, mode=mode, waiting=waiting, known=known, **params)

    def _queue(self, resource: str) -> list[Place]:
        return [place for place in self.places if place.waiter.resource == resource]

    def _hand_over(self, resource: str) -> list[tuple[str, int]]:
        """Grant to the first in the queue, and on to the first that cannot be, or that waits for more than this."""
        handed = []
        for place in self._queue(resource):
            held = [lock for lock in (*self.locks, *self.claims) if lock.resource == resource]
            free = all(COMPATIBLE[place.waiter.mode, lock.mode] for lock in held)
            if not free or not place.lock_id:
                break
            self._hand_to(place)
            handed.append((place.channel, place.waiter.ticket))
        return handed

    def _hand_to(self, place: Place) -> None:
        waiter, resource = place.waiter, place.waiter.resource
        trial = min(TRIAL, place.lease or TRIAL)
        token = self._next_token(resource)
        self._tx.run(
            sql.HAND_LOCK,
            rkey=self._resources[resource].key, mode=waiter.mode.value, token=token, since=micro(self._wall),
            trial=trial, ticket=waiter.ticket,
        )  # fmt: skip
        lease = to_seconds(place.lease)
        self.locks.append(
            Lock(
                place.lock_id, resource, waiter.client, waiter.mode, token, self._wall, lease, trial / MICROSECONDS,
                principal=place.principal,
            )
        )  # fmt: skip
        with acting(Actor(place.principal)):
            self._tell("grant", resource, waiter.client, place.lock_id, token, "waiting", waiter.mode, "")
        self.leave_queue([waiter.ticket])

    def _take_rows(self, resources: Sequence[str]) -> dict[str, _Resource]:
        keys = {resource_digest(uri): uri for uri in resources}
        rows = self._tx.all(sql.LOCK_RESOURCES, keys=sorted(keys))
        if len(rows) < len(keys):
            present = {bytes(row[0]) for row in rows}
            for key in sorted(set(keys) - present):
                self._tx.run(sql.ADD_RESOURCE, rkey=key, uri=keys[key], known=False)
            rows = self._tx.all(sql.LOCK_RESOURCES, keys=sorted(keys))
        for key, uri, *_ in rows:
            if uri != keys[bytes(key)]:  # The doctor put the row back without its name; this caller knows it.
                self._tx.run(sql.NAME_RESOURCE, rkey=key, uri=keys[bytes(key)])
        self._wall = moment(rows[0][7])
        return {
            keys[bytes(key)]: _Resource(
                bytes(key),
                keys[bytes(key)],
                token,
                bool(known),
                (token, holders, mode, waiting, bool(known)),
                int(floor),
            )
            for key, _, token, holders, mode, waiting, known, _, floor in rows
        }

    def _drop_dead_waiters(self) -> None:
        self.leave_queue(sorted({p.waiter.ticket for p in self.places if not p.alive}))

    def _take_places(self, request: Request, number: int, channel: str, since: datetime) -> None:
        for want in request.wants:
            key = self._resources[want.resource].key
            self._tx.run(sql.WRITE_PLACE, rkey=key, ticket=number, mode=want.mode.value)
            waiter = Waiter(number, want.resource, request.client, want.mode, since, request.owner)
            self.places.append(Place(waiter, channel, alive=True, lock_id="", lease=None))
        self.places.sort(key=lambda place: place.waiter.ticket)

    def _grant_one(self, request: Request, resource: str, mode: Mode, before: str) -> Lock:
        lock = Lock(
            id=request.lock_id(self._tag, resource),
            resource=resource,
            client=request.client,
            mode=mode,
            token=self._next_token(resource),
            since=self._wall,
            lease=request.lease,
            expires_in=request.lease,
            owner=request.owner,
            note=request.note,
            request_id=request.id,
            principal=request.principal,
        )
        # An id that is taken is a dead lock of the same request, kept by its lock-delay.
        self._tx.run(
            sql.WRITE_LOCK,
            id=lock.id, rkey=self._resources[resource].key, client=lock.client, mode=mode.value, token=lock.token,
            since=micro(self._wall), lease=to_micro(request.lease),
            lock_delay=to_micro(request.delay_of(mode)), request_id=request.id, owner=request.owner, note=request.note,
            principal=request.principal,
        )  # fmt: skip
        self.locks.append(lock)
        with acting(request.actor):
            self._tell("grant", resource, lock.client, lock.id, lock.token, before, mode, "")
        return lock

    def _enter(self, request: Request, own: Lock, wanted: Mode) -> Lock:
        if own.request_id == request.id:
            return own
        if own.mode is Mode.SHARED and wanted is Mode.EXCLUSIVE:
            own = self.change(own, "upgrade")
        if own.lease is not None:
            lease = None if request.lease is None else max(own.lease, request.lease)
            self._tx.run(sql.LENGTHEN_LOCK, id=own.id, lease=to_micro(lease))
            own = replace(own, lease=lease, expires_in=lease)
        return self.change(own, "enter", count=1, request_id=request.id)

    def _next_token(self, resource: str) -> int:
        row = self._resources[resource]
        row.token = max(row.token, row.floor) + 1
        return row.token

    def _tell(
        self,
        event: str,
        resource: str,
        client: str,
        lock_id: str,
        token: int,
        before: str,
        after: str,
        reason: str,
    ) -> None:
        self._tx.run(
            sql.WRITE_HISTORY,
            event=event, rkey=self._resources[resource].key, client=client, lock_id=lock_id, token=token,
            before=str(before), after=str(after), reason=reason[:1000],
        )  # fmt: skip


def _by_resource(locks: Iterable[Lock]) -> dict[str, list[Lock]]:
    found: dict[str, list[Lock]] = {}
    for lock in locks:
        found.setdefault(lock.resource, []).append(lock)
    return found


def heads(places: Iterable[Place]) -> list[tuple[str, int]]:
    """Whose turn may have come in one queue: the first, and with a reader all readers up to the next writer."""
    found: list[tuple[str, int]] = []
    for place in places:
        if found and place.waiter.mode is Mode.EXCLUSIVE:
            break
        found.append((place.channel, place.waiter.ticket))
        if place.waiter.mode is Mode.EXCLUSIVE:
            break
    return found

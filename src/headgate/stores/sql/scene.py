"""Some resources, their locks and their queues, held still within one transaction.

The careful way: everything is read under the resources' rows, decided by the core, and written back.
The quick way (a dialect's grant and release) must come to the same result whenever it says yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    Want,
    by_resource,
    claim_blockers,
    decide,
    refusal_reasons,
    repeated_grant,
    resource_digest,
)
from headgate.core.machine import Also
from headgate.core.states import LOCK
from headgate.stores.acting import actor
from headgate.stores.sql import lock_statements as sql
from headgate.stores.sql.dialects.base import Columns
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.moments import MICROSECONDS, micro, moment, to_micro, to_seconds
from headgate.stores.sql.running import running_on
from headgate.stores.sql.statement import Row

#: Why an expired lock ended, as the history has it.
EXPIRED = "the lease expired"
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
    #: Tokens that were given on it since.
    given: int = 0


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
        found = repeated_grant(request, self._tag, self.locks)
        # What may have been handed over on trial lives as long as it was asked for.
        if leased := [lock.id for lock in found if lock.expires_in is not None]:
            self._tx.run(sql.CONFIRM_LOCKS, ids=leased)
        return tuple(replace(lock, expires_in=lock.lease) for lock in found)

    def grant(self, request: Request, decision: Decision, *, waited: bool = False) -> tuple[Lock, ...]:
        """Nothing is in the way: hold all of it, in as many statements for many resources as for one."""
        new = [want for want in request.wants if want.resource not in decision.entered]
        held = self._grant_new(request, new, "waiting" if waited else "new") if new else {}
        if decision.entered:
            modes = {want.resource: want.mode for want in request.wants}
            held |= self._enter(request, [(own, modes[uri]) for uri, own in decision.entered.items()])
        return tuple(held[want.resource] for want in request.wants)

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
        leaving = set(numbers)
        self._freed |= {p.waiter.resource for p in self.places if p.waiter.ticket in leaving}
        self.places = [p for p in self.places if p.waiter.ticket not in leaving]

    def refuse(self, request: Request, blockers: Sequence[Blocker], before: str = "new") -> None:
        """Count it; the history is told once in a minute."""
        reasons = refusal_reasons(request, blockers)
        keys = {self._resources[resource].key: resource for resource in reasons}
        known = {bytes(row[0]) for row in self._tx.all(sql.READ_REFUSALS, keys=sorted(keys), client=request.client)}
        if known:
            self._tx.run(sql.COUNT_REFUSALS, keys=sorted(known), client=request.client)
        first = [resource for key, resource in keys.items() if key not in known]
        if not first:
            return
        told = [
            _Told(resource, request.client, request.lock_id(self._tag, resource), self._resources[resource].token,
                  before, "refused", reasons[resource], actor().principal)
            for resource in first
        ]  # fmt: skip
        self._tell("refuse", told)
        first_keys = [self._resources[resource].key for resource in first]
        ids = [each.lock_id for each in told]
        self._tx.run(sql.WRITE_REFUSALS, keys=first_keys, ids=ids, client=request.client)

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
        # Nobody did it: what has expired is told of its owner.
        told = [
            _told(lock, lock.mode, target[lock.mode], reason, lock.principal if event == "expire" else None)
            for lock in locks
        ]
        self._tell(event, told)

    def change(
        self, lock: Lock, event: str, *, count: int = 0, request_id: str | None = None, owner: str | None = None,
        reason: str = "",
    ) -> Lock:  # fmt: skip
        """A lock stays, with another mode, token, count or owner, as the table says."""
        changed = self._change_all([lock], event, count=count, request_id=request_id, owner=owner, reason=reason)
        new = changed[lock.resource]
        self._tx.run(
            sql.CHANGE_LOCK,
            id=new.id,
            mode=new.mode.value,
            token=new.token,
            count=new.count,
            request_id=new.request_id,
            owner=new.principal,
        )
        if event == "downgrade":
            self._freed.add(lock.resource)
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
        queues = self._queues()
        freed = sorted(self._freed & set(queues))
        locks = by_resource((*self.locks, *self.claims)) if freed else {}
        wakes = [wake for uri in freed for wake in self._hand_over(queues[uri], locks.get(uri, []))]
        left = self._queues() if wakes else queues
        self._write_resources({uri: len(places) for uri, places in left.items()})
        return wakes + [wake for uri in freed for wake in heads(left.get(uri, ()))]

    def _write_resources(self, waiting: Mapping[str, int]) -> None:
        """Bring the rows into line: those that come to the same together."""
        locks = by_resource(self.locks)
        same: dict[tuple[int, str, int, bool, int], list[bytes]] = {}
        for each in self._resources.values():
            here, queued = locks.get(each.uri, ()), waiting.get(each.uri, 0)
            mode = Mode.EXCLUSIVE if any(lock.mode is Mode.EXCLUSIVE for lock in here) else Mode.SHARED
            row = (len(here), mode.value, queued, each.known or bool(here) or queued > 0)
            if (each.token, *row) != each.written:
                same.setdefault((*row, each.given), []).append(each.key)
        for (holders, mode_value, queued, known, given), keys in same.items():
            self._tx.run(
                sql.WRITE_RESOURCES,
                holders=holders, mode=mode_value, waiting=queued, known=known, given=given,
                floor=self._floor if given else 0, keys=keys,
            )  # fmt: skip

    def _queues(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for place in self.places:
            found.setdefault(place.waiter.resource, []).append(place)
        return found

    def _hand_over(self, queue: Sequence[Place], held: list[Lock]) -> list[tuple[str, int]]:
        """Grant to the first in the queue, and on to the first that cannot be, or that waits for more than this."""
        handed = []
        for place in queue:
            free = all(COMPATIBLE[place.waiter.mode, lock.mode] for lock in held)
            if not free or not place.lock_id:
                break
            held.append(self._hand_to(place))
            handed.append((place.channel, place.waiter.ticket))
        return handed

    def _hand_to(self, place: Place) -> Lock:
        waiter, resource = place.waiter, place.waiter.resource
        trial = min(TRIAL, place.lease or TRIAL)
        token = self._next_token(resource)
        self._tx.run(
            sql.HAND_LOCK,
            rkey=self._resources[resource].key, mode=waiter.mode.value, token=token, since=micro(self._wall),
            trial=trial, ticket=waiter.ticket,
        )  # fmt: skip
        lease = to_seconds(place.lease)
        lock = Lock(
            place.lock_id, resource, waiter.client, waiter.mode, token, self._wall, lease, trial / MICROSECONDS,
            principal=place.principal,
        )  # fmt: skip
        self.locks.append(lock)
        self._tell("grant", [_told(lock, "waiting", waiter.mode, principal=place.principal)])
        self.leave_queue([waiter.ticket])
        return lock

    def _take_rows(self, resources: Sequence[str]) -> dict[str, _Resource]:
        keys = {resource_digest(uri): uri for uri in resources}
        rows = self._tx.all(sql.LOCK_RESOURCES, keys=sorted(keys))
        if len(rows) < len(keys):
            present = {bytes(row[0]) for row in rows}
            missing = sorted(set(keys) - present)
            uris = [keys[key] for key in missing]
            self._tx.many(sql.ADD_RESOURCE, {"rkey": missing, "uri": uris}, known=False)
            rows = self._tx.all(sql.LOCK_RESOURCES, keys=sorted(keys))
        for key, uri, *_ in rows:
            if uri != keys[bytes(key)]:  # The doctor put the row back without its name; this caller knows it.
                self._tx.run(sql.NAME_RESOURCE, rkey=key, uri=keys[bytes(key)])
        self._wall, self._floor = moment(rows[0][7]), int(rows[0][8])
        return {
            keys[bytes(key)]: _Resource(
                bytes(key),
                keys[bytes(key)],
                token,
                bool(known),
                (token, holders, mode, waiting, bool(known)),
            )
            for key, _, token, holders, mode, waiting, known, *_ in rows
        }

    def _drop_dead_waiters(self) -> None:
        self.leave_queue(sorted({p.waiter.ticket for p in self.places if not p.alive}))

    def _take_places(self, request: Request, number: int, channel: str, since: datetime) -> None:
        keys = [self._resources[want.resource].key for want in request.wants]
        modes = [want.mode.value for want in request.wants]
        self._tx.many(sql.WRITE_PLACE, {"rkey": keys, "mode": modes}, ticket=number)
        for want in request.wants:
            waiter = Waiter(number, want.resource, request.client, want.mode, since, request.owner)
            self.places.append(Place(waiter, channel, alive=True, lock_id="", lease=None))
        self.places.sort(key=lambda place: place.waiter.ticket)

    def _grant_new(self, request: Request, wants: Sequence[Want], before: str) -> dict[str, Lock]:
        locks = [
            Lock(
                request.lock_id(self._tag, want.resource), want.resource, request.client, want.mode,
                self._next_token(want.resource), self._wall, request.lease, request.lease, 1, request.owner,
                request.note, request.id, request.principal,
            )
            for want in wants
        ]  # fmt: skip
        columns: Columns = {
            "id": [lock.id for lock in locks],
            "rkey": [self._resources[lock.resource].key for lock in locks],
            "mode": [lock.mode.value for lock in locks],
            "token": [lock.token for lock in locks],
            "lock_delay": [to_micro(request.delay_of(lock.mode)) for lock in locks],
        }
        # An id that is taken is a dead lock of the same request, kept by its lock-delay.
        self._tx.many(
            sql.WRITE_LOCK, columns,
            client=request.client, since=micro(self._wall), lease=to_micro(request.lease), request_id=request.id,
            owner=request.owner, note=request.note, principal=request.principal,
        )  # fmt: skip
        self.locks += locks
        self._tell("grant", [_told(lock, before, lock.mode, principal=request.principal) for lock in locks])
        return {lock.resource: lock for lock in locks}

    def _enter(self, request: Request, wanted: Sequence[tuple[Lock, Mode]]) -> dict[str, Lock]:
        """Locks of the same client are held once more, by the longer of the two leases."""
        held = {own.resource: own for own, _ in wanted}
        joined = [(own, mode) for own, mode in wanted if own.request_id != request.id]
        upgraded = [own for own, mode in joined if (own.mode, mode) == (Mode.SHARED, Mode.EXCLUSIVE)]
        if upgraded:
            held |= self._change_all(upgraded, "upgrade")
            ids = [own.id for own in upgraded]
            self._tx.run(sql.UPGRADE_LOCKS, ids=ids, mode=Mode.EXCLUSIVE.value, floor=self._floor)
        if leased := [own.id for own, _ in joined if own.lease is not None]:
            lease = to_micro(request.lease)
            self._tx.run(sql.KEEP_LOCKS if lease is None else sql.LENGTHEN_LOCKS, ids=leased, lease=lease)
        if joined:
            own = [_lengthened(held[lock.resource], request.lease) for lock, _ in joined]
            held |= self._change_all(own, "enter", count=1, request_id=request.id)
            self._tx.run(sql.ENTER_LOCKS, ids=[lock.id for lock in own], request_id=request.id)
        return held

    def _change_all(
        self, locks: Sequence[Lock], event: str, *, count: int = 0, request_id: str | None = None,
        owner: str | None = None, reason: str = "",
    ) -> dict[str, Lock]:  # fmt: skip
        """Locks as they are after an event, which is told; the caller writes them."""
        rows = {mode: LOCK.find(mode, event)[0] for mode in {lock.mode for lock in locks}}
        new = [
            replace(
                lock,
                mode=Mode(rows[lock.mode].target),
                token=self._next_token(lock.resource) if Also.NEW_TOKEN in rows[lock.mode].also else lock.token,
                count=lock.count + count,
                request_id=request_id or lock.request_id,
                principal=lock.principal if owner is None else owner,
            )
            for lock in locks
        ]
        changed = {lock.id: lock for lock in new}
        self.locks = [changed.get(other.id, other) for other in self.locks]
        why = actor().reason(reason)
        self._tell(event, [_told(after, lock.mode, after.mode, why) for lock, after in zip(locks, new, strict=True)])
        return {lock.resource: lock for lock in new}

    def _next_token(self, resource: str) -> int:
        row = self._resources[resource]
        row.token = max(row.token, self._floor) + 1
        row.given += 1
        return row.token

    def _tell(self, event: str, told: Sequence[_Told]) -> None:
        """The history of an event, on however many resources."""
        columns: Columns = {
            "rkey": [self._resources[each.resource].key for each in told],
            "client": [each.client for each in told],
            "lock_id": [each.lock_id for each in told],
            "token": [each.token for each in told],
            "before": [str(each.before) for each in told],
            "after": [str(each.after) for each in told],
            "reason": [each.reason[:1000] for each in told],
            "principal": [each.principal for each in told],
        }
        self._tx.many(sql.WRITE_HISTORY, columns, event=event)


@dataclass(frozen=True, slots=True)
class _Told:
    """An entry of the history in the making."""

    resource: str
    client: str
    lock_id: str
    token: int
    before: str
    after: str
    reason: str
    #: Who did it.
    principal: str


def _told(lock: Lock, before: str, after: str, reason: str = "", principal: str | None = None) -> _Told:
    """What an event made of a lock; by whoever acts, unless said otherwise."""
    who = actor().principal if principal is None else principal
    return _Told(lock.resource, lock.client, lock.id, lock.token, before, after, reason, who)


def _lengthened(lock: Lock, lease: float | None) -> Lock:
    """A lock that lives by the longer of two leases, which begins anew."""
    if lock.lease is None:
        return lock
    longer = None if lease is None else max(lock.lease, lease)
    return replace(lock, lease=longer, expires_in=longer)


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

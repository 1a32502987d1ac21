"""Waiting: joining a queue, sleeping until the turn may have come, acquiring, giving up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from headgate.core.errors import LockRefused
from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.locks import work as lock_work
from headgate.core.locks.decisions import find_cycle
from headgate.core.locks.draft import TRIAL_SECONDS, LockDraft
from headgate.core.locks.model import Lock, Request, resource_digest, resource_key
from headgate.core.locks.snapshot import LockOutcome, LockSnapshot, QueueEntry
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.locks.work import MustWait
from headgate.stores.sql.database.engine import Database, FastPath
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.mapping_statements import NAME_OTHER_HOLDERS
from headgate.stores.sql.locks import statements as sql
from headgate.stores.sql.locks.changes import WAITER_LEASE, Committed, carry_out, ticket_columns
from headgate.stores.sql.locks.granting import grant_quickly
from headgate.stores.sql.locks.snapshots import read_lock, view
from headgate.stores.sql.locks.waiting import Wakeups
from headgate.stores.sql.news.topics import News, Subscription, of_data, of_job

T = TypeVar("T")

#: Number of resources that are remembered as contended.
MOST_REMEMBERED = 10_000
#: A waiter reads the tables at least this often, even if no other process seems to have written.
UNSEEN_SECONDS = 3.0
#: Number of waiters whose sign of life is one statement.
MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _Outlook:
    """The situation of a waiter."""

    #: Its turn may have come, or it was granted its lock already.
    ready: bool
    #: Number of blockers before it.
    position: int = 0
    #: Seconds until a blocking lease expires.
    soonest: float = math.inf
    #: Whether a running claim blocks it. The end of that claim is announced as news.
    claimed: bool = False
    #: The bell of the nearest conflicting waiter before it, or else of a holder.
    before: str = ""


@dataclass(frozen=True, slots=True)
class _Standing:
    """The situation of a waiter when it last checked."""

    #: Number of blockers before it, and since when it has been that number (monotonic).
    position: int
    since: float
    #: Whether a claim blocks it.
    claimed: bool
    #: Whether the waiter is woken when its turn may have come.
    told: bool
    #: A value that changes when another process has written, and when a blocking lease expires (monotonic).
    seen: object
    due: float


class Queueing:
    """The queues of one store, as this process sees them."""

    def __init__(self, database: Database, tag: str, wakeups: Wakeups, news: News) -> None:
        self._database = database
        self._tag = tag
        self._wakeups = wakeups
        self._news = news
        #: By ticket, for this process's waiters for locks on chunks.
        self._listening: dict[int, Subscription] = {}
        #: Keys of resources with recent waiters: a hint for which path to try first.
        self._contended: set[str] = set()
        #: By ticket, what this process's waiters last saw.
        self._standings: dict[int, _Standing] = {}

    def contended(self, key: str) -> bool:
        """Whether another client is likely to be waiting for the resource."""
        return key in self._contended

    def calm(self, key: str) -> None:
        """The resource has no waiters any more."""
        self._contended.discard(key)

    def queue_up(self, request: Request) -> Granted | Ticket:
        """A grant, or a position at the end of the queue."""
        quick = self._queue_up_quickly(request)
        if quick:
            return quick
        done = self._carry_out(request, lambda snapshot: lock_work.queue_up(snapshot, request))
        self._wakeups.wake(done.wakes)
        if not isinstance(done.result, MustWait):
            return done.result
        return Ticket(done.result.number or done.number or 0, request)

    def place_of(self, request: Request) -> Ticket | None:
        """The position of this request."""
        numbers = [int(row[0]) for row in self._database.single(sql.READ_TICKETS, request_id=request.id)]
        return Ticket(min(numbers), request) if numbers else None

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        """Call `wake` when the turn may have come."""
        self._wakeups.listen(ticket.number, wake)
        if chunks := list(filter(None, (parse_chunk_resource(want.resource) for want in ticket.request.wants))):
            datasets = sorted({dataset for dataset, _ in chunks})
            # A claim that reads a chunk by a mapping, or makes it by fan-out, has another data id.
            others = self._database.single(NAME_OTHER_HOLDERS, names=datasets)
            topics = [*(of_data(dataid) for _, dataid in chunks), *(of_job(str(job)) for (job,) in others)]
            self._end_listening(ticket)
            self._listening[ticket.number] = self._news.listen(topics, wake)

    def look(self, ticket: Ticket) -> float:
        """0: the turn may have come; else the seconds after which to check again."""
        now = time.monotonic()
        known = self._standings.get(ticket.number)
        seen = self._database.changed()
        # Changes that this process itself wrote on the same connection, such as a report, are not detected.
        if known and not known.claimed and seen is not None and seen == known.seen and now < known.due:
            return min(self._pause(known), known.due - now)
        outlook = self._look(ticket)
        if outlook.ready:
            return 0.0
        place = (outlook.position, outlook.claimed)
        since = known.since if known is not None and (known.position, known.claimed) == place else now
        told = self._is_woken(ticket, outlook)
        due = now + min(outlook.soonest, UNSEEN_SECONDS)
        known = _Standing(outlook.position, since, outlook.claimed, told, seen, due)
        self._standings[ticket.number] = known
        return min(self._pause(known), outlook.soonest)

    def take_turn(self, ticket: Ticket) -> Granted | None:
        """The grant, received from the last holder or acquired; None when the turn has not come."""
        grant = self._take_up_hand_over(ticket) or self._take_turn_myself(ticket)
        if grant:
            self._leave(ticket, grant)
        return grant

    def keep_places(self, numbers: Sequence[int]) -> None:
        """Record a sign of life of these waiters."""
        for start in range(0, len(numbers), MOST_AT_ONCE):
            self._touch(numbers[start : start + MOST_AT_ONCE])

    def give_up(self, ticket: Ticket) -> Committed[Granted | LockRefused]:
        """Leave the queue: granted at the last moment, or refused and counted."""
        wanted = [want.resource for want in ticket.request.wants]

        def work(tx: Transaction) -> Committed[Granted | LockRefused]:
            unit = partial(lock_work.give_up, request=ticket.request, number=ticket.number)
            done = carry_out(tx, self._tag, wanted, unit)
            return done._replace(result=_with_cycle(tx, done.result))

        try:
            return self._database.write(work)
        finally:
            self._leave(ticket)

    def withdraw(self, ticket: Ticket) -> Committed[None]:
        """Leave the queue, and release what was granted meanwhile."""
        wanted = [want.resource for want in ticket.request.wants]
        unit = partial(lock_work.withdraw, request=ticket.request)
        try:
            return self._database.write(lambda tx: carry_out(tx, self._tag, wanted, unit))
        finally:
            self._leave(ticket)

    def _queue_up_quickly(self, request: Request) -> Granted | Ticket | None:
        resource = request.wants[0].resource
        if len(request.wants) > 1 or request.reentrant or not request.fresh or parse_chunk_resource(resource):
            return None
        key = resource_key(resource)
        if not self.contended(key):
            grant = grant_quickly(self._database, self._tag, request)
            if grant:
                return grant
            self._remember_contended(key)
        number = self._enqueue_quickly(request)
        return None if number is None else Ticket(number, request)

    def _enqueue_quickly(self, request: Request) -> int | None:
        want = request.wants[0]
        if want.mode not in self._database.options.lock_rules.fast.wait:
            return None
        columns = ticket_columns(request, self._tag, self._wakeups.channel)
        with FastPath():
            return self._database.dialect.enqueue(
                self._database, {"rkey": resource_digest(want.resource), "mode": want.mode.value, **columns}
            )
        return None  # The answer was lost: the slow path looks for a number that was already assigned.

    def _remember_contended(self, key: str) -> None:
        if len(self._contended) > MOST_REMEMBERED:
            self._contended.clear()
        self._contended.add(key)

    def _take_up_hand_over(self, ticket: Ticket) -> Granted | None:
        """Return the grant, if the last holder handed the resource over."""
        if len(ticket.request.wants) > 1:
            return None
        lock_id = ticket.request.lock_id(self._tag, ticket.request.wants[0].resource)
        row = next(iter(self._database.single(sql.READ_LOCK, id=lock_id)), None)
        lock = None if row is None else read_lock(row)
        if lock is None or not lock.alive or lock.request_id != ticket.request.id:
            return None
        return self._confirmed(lock)

    def _confirmed(self, lock: Lock) -> Granted | None:
        """Give a provisionally granted lock its requested lease."""
        if lock.expires_in is None or (lock.lease is not None and lock.lease <= TRIAL_SECONDS):
            return (lock,)
        confirmed = self._database.write(lambda tx: tx.count(sql.CONFIRM_LOCK, id=lock.id, token=lock.token))
        return (replace(lock, expires_in=lock.lease),) if confirmed else None

    def _take_turn_myself(self, ticket: Ticket) -> Granted | None:
        if not self._look(ticket).ready and self._touch([ticket.number]):
            return None
        unit = partial(lock_work.take_turn, request=ticket.request, number=ticket.number)
        done = self._carry_out(ticket.request, unit)
        self._wakeups.wake(done.wakes)
        return None if isinstance(done.result, MustWait) else done.result

    def _carry_out(self, request: Request, unit: Callable[[LockSnapshot], LockOutcome[T]]) -> Committed[T]:
        channel, wanted = self._wakeups.channel, [want.resource for want in request.wants]
        return self._database.write(lambda tx: carry_out(tx, self._tag, wanted, unit, channel))

    def _look(self, ticket: Ticket) -> _Outlook:
        """Return the situation of a ticket, as far as reading shows it."""
        request, wanted = ticket.request, [want.resource for want in ticket.request.wants]
        snapshot, left = self._database.read(lambda tx: view(tx, self._tag, wanted))
        draft = LockDraft(snapshot)
        if any(lock.request_id == request.id for lock in snapshot.locks()):
            return _Outlook(ready=True)
        decision = draft.decide(request, ticket.number)
        if decision.granted:
            return _Outlook(ready=True)
        obstacle = draft.obstacle(request, ticket.number)
        return _Outlook(
            ready=False,
            position=len(draft.ahead(request, ticket.number)),
            soonest=min(left, default=math.inf) + 0.001,
            claimed=any(blocker.is_claim for blocker in decision.blockers),
            before=self._bell_before(obstacle),
        )

    def _bell_before(self, obstacle: QueueEntry | Lock | None) -> str:
        if isinstance(obstacle, QueueEntry):
            return self._bell(obstacle.waiter.ticket, obstacle.lock_id)
        return obstacle.id if obstacle else ""

    def _bell(self, number: int, lock_id: str) -> str:
        """The name of a waiter's bell: the id of the lock that it may be granted, or its number."""
        return lock_id or f"{self._tag}-{number}"

    def _bell_of(self, ticket: Ticket) -> str:
        return self._bell(ticket.number, str(ticket_columns(ticket.request, self._tag, "")["lock_id"]))

    def _leave(self, ticket: Ticket, grant: Granted = ()) -> None:
        self._standings.pop(ticket.number, None)
        self._end_listening(ticket)
        bell = self._bell_of(ticket)
        self._wakeups.forget(ticket.number, bell, granted=any(lock.id == bell for lock in grant))

    def _end_listening(self, ticket: Ticket) -> None:
        if listening := self._listening.pop(ticket.number, None):
            listening.end()

    def _is_woken(self, ticket: Ticket, outlook: _Outlook) -> bool:
        told = self._wakeups.is_woken(ticket.number, self._bell_of(ticket), outlook.before)
        return told and (not outlook.claimed or self._news.told)

    def _pause(self, place: _Standing) -> float:
        return self._wakeups.pause(time.monotonic() - place.since, place.position, told=place.told)

    def _touch(self, numbers: Sequence[int]) -> int:
        return self._database.write(lambda tx: tx.count(sql.TOUCH_TICKETS, tickets=numbers, alive=WAITER_LEASE))


def _with_cycle(tx: Transaction, result: Granted | LockRefused) -> Granted | LockRefused:
    """A refusal, with the cycle of clients that wait for each other, if this request closed it."""
    if not isinstance(result, LockRefused):
        return result
    client = result.request.client
    waits_for: dict[str, list[str]] = {client: [blocker.client for blocker in result.blockers]}
    for waiter, holder in tx.all(sql.READ_WAITS_FOR):
        waits_for.setdefault(waiter, []).append(holder)
    return LockRefused(result.request, result.blockers, find_cycle(client, waits_for))

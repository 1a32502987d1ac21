"""Locks in SQL: the port's methods. The fast path takes one trip; the slow path does the rest."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from headgate.calls.actor import actor
from headgate.calls.deadlines import LOCK_CALLS, answered_in_time
from headgate.core.errors import BadValue, LockLost, LockRefused, UnknownName
from headgate.core.filters import LockFilter
from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.locks import work as lock_work
from headgate.core.locks.draft import first_in_line
from headgate.core.locks.model import Lock, Mode, Request, Waiter
from headgate.core.locks.parsing import check_lock_id
from headgate.core.locks.snapshot import LockOutcome, LockSnapshot
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.locks.work import unknown_lock
from headgate.stores.sql.database.engine import Database, FastPath
from headgate.stores.sql.database.facts import READ_TAG
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.database.parts import Parts
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.store import SqlLedger
from headgate.stores.sql.locks import held as holding
from headgate.stores.sql.locks import statements as sql
from headgate.stores.sql.locks.changes import Committed, carry_out, wakes
from headgate.stores.sql.locks.expiring import Expiry
from headgate.stores.sql.locks.granting import grant_quickly
from headgate.stores.sql.locks.snapshots import BESIDE, read_line, read_lock
from headgate.stores.sql.news.topics import News, of_dataset

if TYPE_CHECKING:
    from headgate.core.faults import Fault
    from headgate.stores.sql.locks.turns import Queueing
    from headgate.stores.sql.locks.waiting import Wakeups

T = TypeVar("T")


@answered_in_time(LOCK_CALLS)
class SqlLocks:
    """Locks, queues, clients, resources and history in one SQL database."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self.options = database.options
        self.rules = database.options.lock_rules
        self._database = database
        self._built = Parts()
        self.tag = str(database.single(READ_TAG)[0][0])
        self._expiry = Expiry(database, self.tag)
        #: The ledger beside it: a job running on a chunk acts as a lock, and vice versa.
        self.news = News(database, self.tag)
        self.ledger = SqlLedger(database, self.tag, self.news)

    # These are imported on first use: callers that only use the ledger start faster without them.
    @property
    def _wakeups(self) -> Wakeups:
        from headgate.stores.sql.locks.waiting import Wakeups

        return self._built.only(Wakeups, self._database)

    @property
    def _queueing(self) -> Queueing:
        from headgate.stores.sql.locks.turns import Queueing

        return self._built.only(Queueing, self._database, self.tag, self._wakeups, self.news)

    def acquire(self, request: Request) -> Granted:
        quick = grant_quickly(self._database, self.tag, request)
        if quick:
            return quick
        wanted, unit = [want.resource for want in request.wants], partial(lock_work.acquire, request=request)
        return _granted(self._wake(self._database.write(lambda tx: carry_out(tx, self.tag, wanted, unit))))

    def queue_up(self, request: Request) -> Granted | Ticket:
        return self._queueing.queue_up(request)

    def place_of(self, request: Request) -> Ticket | None:
        return self._queueing.place_of(request)

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        self._queueing.listen(ticket, wake)

    def look(self, ticket: Ticket) -> float:
        return self._queueing.look(ticket)

    def take_turn(self, ticket: Ticket) -> Granted | None:
        return self._queueing.take_turn(ticket)

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        self._queueing.keep_places([ticket.number for ticket in tickets])

    def give_up(self, ticket: Ticket) -> Granted:
        return _granted(self._wake(self._queueing.give_up(ticket)))

    def withdraw(self, ticket: Ticket) -> None:
        self._wake(self._queueing.withdraw(ticket))

    def release(self, lock_id: str, token: int) -> None:
        key = check_lock_id(lock_id, self.tag, self.name).split("-")[1]
        contended = self._queueing.contended(key)
        freed = None
        with FastPath() as fast:
            freed = self._database.dialect.release(self._database, {"id": lock_id, "token": token}, contended=contended)
        if freed is None:
            with self._explaining_claims(lock_id):
                self._release_slowly(lock_id, token, cut_off=fast.cut_off)
            return
        if freed.chunk and (chunk := parse_chunk_resource(freed.chunk)):
            self.news.announce([of_dataset(chunk[0])])
        if freed.waiting:
            queue, held = self._database.read(lambda tx: read_line(tx, freed.rkey))
            self._wakeups.wake(wakes(first_in_line(queue, held, self.rules)))
            self._wakeups.ring(lock_id, waited_for=True)
        elif not freed.handed:
            self._queueing.calm(key)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        return self._database.write(lambda tx: holding.renew(tx, lock_id, token, lease))

    def check(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        rows = self._database.single(sql.CHECK_LOCK, id=lock_id)
        lock = read_lock(rows[0]) if rows and rows[0][BESIDE] else None
        mine = lock is not None and actor().may_touch(lock.principal)
        if lock is not None and mine and lock.alive and lock.token == token:
            return lock
        return self._database.read(lambda tx: holding.held(tx, lock_id, token), look=True)

    def upgrade(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        return _granted(self._wake(self._on_held(lock_id, token, lock_work.upgrade)))

    def downgrade(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        lock = self._wake(self._on_held(lock_id, token, lock_work.downgrade))
        self._wakeups.ring(lock_id, waited_for=True)
        return lock

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        return self._wake(self._on_anybodys(lock_id, partial(lock_work.hand_over, to=to, reason=reason)))

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        del lock, lost  # A database does not report it: the holder learns of it when it renews.
        return lambda: None

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        return self._wake(self._on_anybodys(lock_id, partial(lock_work.break_lock, reason=reason, by=by)))

    def get(self, lock_id: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        row = self._database.read(lambda tx: tx.one(sql.READ_LOCK, id=lock_id))
        lock = self._claim(lock_id) if row is None else read_lock(row)
        if lock is None or not lock.alive:
            raise unknown_lock(lock_id)
        return lock

    def list(self, which: LockFilter) -> Sequence[Lock]:
        from headgate.stores.sql.locks.questions import ask_locks

        running = [lock for lock in self.ledger.running() if which.admits(lock)]
        found = heapq.merge(ask_locks(self._database, which), running, key=lambda lock: lock.id)
        return list(islice(found, which.limit))

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        from headgate.stores.sql.locks.questions import ask_summary

        counts = {(resource, mode): count for resource, mode, count in ask_summary(self._database)}
        for lock in self.ledger.running():
            counts[lock.resource, lock.mode] = counts.get((lock.resource, lock.mode), 0) + 1
        return sorted((resource, mode, count) for (resource, mode), count in counts.items())

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        from headgate.stores.sql.locks.questions import ask_waiters

        return ask_waiters(self._database, resource)

    def expire(self, limit: int = 1000) -> int:
        return sum(self._wake(done) for done in self._expiry.expire(limit))

    def register_client(self, client: str) -> datetime:
        def work(tx: Transaction) -> datetime:
            tx.run(sql.WRITE_CLIENT, name=client)
            return moment(tx.one(sql.READ_CLIENT, name=client)[0])

        return self._database.write(work)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        rows = self._database.read(lambda tx: tx.all(sql.READ_CLIENTS))
        return sorted((name, moment(since)) for name, since in rows)

    def forget_client(self, client: str) -> None:
        def work(tx: Transaction) -> None:
            lock_work.forget_client(client, tx.one(sql.COUNT_CLIENT_LOCKS, name=client)[0])
            if not tx.count(sql.DELETE_CLIENT, name=client):
                raise UnknownName("client", client)

        self._database.write(work)

    def register_resource(self, resource: str) -> None:
        self._wake(self._database.write(lambda tx: carry_out(tx, self.tag, [resource], lock_work.register)))

    def resources(self) -> Sequence[str]:
        return sorted(row[0] for row in self._database.read(lambda tx: tx.all(sql.READ_RESOURCES, known=True)))

    def forget_resource(self, resource: str) -> None:
        unit = partial(lock_work.forget, resource=resource)
        self._wake(self._database.write(lambda tx: carry_out(tx, self.tag, [resource], unit)))

    def faults(self) -> Sequence[Fault]:
        from headgate.stores.sql.faults import faults

        return faults(self._database)

    def repair(self, fault: Fault, who: str) -> bool:
        from headgate.stores.sql.faults import repair

        done = repair(self._database, self.tag, fault, who)
        return self._wake(done)

    def close(self) -> None:
        """Stop listening for wake-ups. The database is closed by the module that opened it."""
        self.news.close()
        self._built.close()

    def _claim(self, lock_id: str) -> Lock | None:
        """The running job on a chunk, by the id with which it is listed."""
        return next((lock for lock in self.ledger.running() if lock.id == lock_id), None)

    @contextmanager
    def _explaining_claims(self, lock_id: str) -> Iterator[None]:
        """A lock that does not exist may be a claim, which is listed with the locks and ended in another way."""
        try:
            yield
        except (LockLost, UnknownName):
            claim = self._claim(lock_id)
            if claim is None:
                raise
            how = "It ends when its worker reports; `headgate job resubmit` with --steal overrides it"
            raise BadValue("lock", lock_id, f"is a claim: {claim.note}. {how}") from None

    def _on_held(
        self, lock_id: str, token: int, unit: Callable[[LockSnapshot, str, int], LockOutcome[T]]
    ) -> Committed[T]:
        return self._database.write(lambda tx: holding.on_held(tx, self.tag, lock_id, token, unit))

    def _on_anybodys(self, lock_id: str, unit: Callable[..., LockOutcome[T]]) -> Committed[T]:
        with self._explaining_claims(lock_id):
            given = partial(unit, lock_id=lock_id)
            return self._database.write(lambda tx: holding.on_anybodys(tx, self.tag, lock_id, given))

    def _release_slowly(self, lock_id: str, token: int, *, cut_off: bool) -> None:
        done = self._database.write(lambda tx: holding.release(tx, self.tag, lock_id, token), again=cut_off)
        self._wake(done)
        self._wakeups.ring(lock_id, waited_for=bool(done.wakes))
        if not done.wakes:
            self._queueing.calm(lock_id.split("-")[1])

    def _wake(self, done: Committed[T]) -> T:
        self._wakeups.wake(done.wakes)
        if done.freed:
            self.news.announce(map(of_dataset, done.freed), listened=done.listened)
        return done.result


def _granted(result: T | LockRefused) -> T:
    if isinstance(result, LockRefused):
        raise result
    return result

"""A database: its transactions, deadlines and retries, and the conversion of its errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from typing import Any, Self, TypeVar

from headgate import chance
from headgate.calls import deadlines
from headgate.calls.deadlines import Deadline
from headgate.calls.idempotency import is_keyed
from headgate.core.errors import ForeignStore, HeadgateError, StoreMisconfigured, StoreUnavailable
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions
from headgate.stores.sql.database.clock import ClockJump, ServerClock, steady
from headgate.stores.sql.database.dialect import Dialect, DriverConnection, Trouble
from headgate.stores.sql.database.groups import Groups
from headgate.stores.sql.database.pool import NoConnection, Pool
from headgate.stores.sql.database.request_keys import keep_key
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Duplicate, Transaction, with_actor
from headgate.telemetry import report_store_call

T = TypeVar("T")

#: A random pause between two attempts: short, since a commit is; random, so that no caller starves.
PAUSE_SECONDS = (0.0001, 0.001)
#: How often a transaction is restarted because another one wrote the same row first.
MOST_TRIES = 20
#: The outcome of a failed call: it certainly changed nothing, or it may have taken effect.
NONE, UNKNOWN = "none", "unknown"
#: How often one call follows a server other than the one that wrote the store before.
MOST_CHANGES = 5


class FastPath:
    """Context of a fast path whose answer may get lost: the slow path then checks whether it took effect.

    StoreUnavailable passes through only when it certainly had no effect.
    """

    #: Whether the answer was lost.
    cut_off = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> bool:
        self.cut_off = isinstance(error, StoreUnavailable) and error.outcome != NONE
        return self.cut_off


class ServerChanged(Exception):
    """Another server has taken over, or its clock was set: nothing was done yet. For Database, never for callers."""

    def __init__(self, *, epoch: bool, jump: ClockJump | None, again: bool) -> None:
        super().__init__()
        #: Whether the store's epoch differs from the server's.
        self.epoch = epoch
        self.jump = jump
        #: Whether an earlier attempt at the transaction was interrupted.
        self.again = again


class _Sent:
    """Whether a statement was sent that may take effect even if no answer comes."""

    __slots__ = ("may_count",)

    def __init__(self, *, may_count: bool) -> None:
        self.may_count = may_count


class Database:
    """One database, by its dialect."""

    def __init__(self, dialect: Dialect, options: StoreOptions = DEFAULT_OPTIONS) -> None:
        self.dialect = dialect
        self.options = options
        dialect.options = options
        self.name = dialect.name
        #: Adjusts the store to a server that has taken over, or whose clock was set. None: nobody looks.
        self.follower: Callable[[Database, ServerChanged], None] | None = None
        self._pool = Pool(dialect)
        self._clock = ServerClock()
        #: The group in which one thread writes for all waiting ones; None: the database itself runs them concurrently.
        self._groups = Groups(dialect, partial(self._write_now, look=False)) if dialect.one_writer else None

    def write(self, work: Callable[[Transaction], T], *, again: bool = False, look: bool = True) -> T:
        """Run it in one transaction that may write; restarted when the database asks for that.

        `again` says that an earlier try was cut off, so that it may have happened already. `look`: only on the server
        that the store has followed.
        """
        return self._following(lambda cut: self._write(work, again=cut, look=look), again=again)

    def write_through(self, work: Callable[[Transaction], T], *, again: bool = False) -> T:
        """The same; restarted when another transaction wrote the same row first."""
        for _ in range(MOST_TRIES - 1):
            try:
                return self.write(work, again=again)
            except Duplicate:
                continue
        return self.write(work, again=again)

    def read(self, work: Callable[[Transaction], T], *, look: bool = False) -> T:
        """Run it in one transaction that only reads. `look`: only on the server that the store has followed."""

        def transact(connection: DriverConnection, again: bool, sent: _Sent) -> T:  # noqa: FBT001 - as all are called
            return self._transact(connection, work, sent, again=again, write=False, look=look)

        return self._following(lambda _cut: self._try(transact, _Sent(may_count=False)), again=False)

    def single(self, statement: Statement, **params: object) -> list[Row]:
        """One statement, one trip, one commit."""
        return self._try(
            lambda connection, _again, sent: self._ask(connection, statement, params, sent), _Sent(may_count=False)
        )

    def single_once(self, statement: Statement, **params: object) -> list[Row]:
        """The same, but StoreUnavailable is raised instead of repeating it when the answer was lost."""
        return self._try(
            lambda connection, _again, sent: self._ask(connection, statement, params, sent),
            _Sent(may_count=False),
            once=True,
        )

    def hear(self, now: int, sent: int) -> None:
        """A fast path read the server's clock: the next transaction adjusts the store if the clock was set."""
        if self.follower is not None and self.dialect.epoch:
            self._clock.observe(now, sent, steady())

    @contextmanager
    def still(self) -> Iterator[DriverConnection]:
        """A connection with a consistent view of the present, while others work. It has no time limit."""
        with deadlines.within(deadlines.WHOLE_SECONDS) as deadline:
            connection = self._take(deadline, _Sent(may_count=False))
            try:
                self.dialect.limit(connection, deadline)
                with self.translated(), self.dialect.unlimited(connection), self.dialect.still(connection) as still:
                    yield still
            except BaseException:
                self._pool.drop(connection)
                raise
            self._pool.give(connection)

    def changed(self) -> object:
        """A value that changes when another process has written; None if that is unknown."""
        return self._try(lambda connection, _again, _sent: self.dialect.changed(connection), _Sent(may_count=False))

    def notices(self) -> Sequence[str]:
        """Warnings for an operator about the connection to this database."""
        with self.translated():
            return self.dialect.notices()

    def lend(self, work: Callable[[DriverConnection], T]) -> T:
        """Run a migration's statements on a separate connection; again when the database asks for that."""

        def run(connection: DriverConnection, _again: bool, sent: _Sent) -> T:  # noqa: FBT001 - as all are called
            sent.may_count = True
            with self.dialect.unlimited(connection):
                return work(connection)

        with deadlines.within(deadlines.WHOLE_SECONDS):
            return self._try(run, _Sent(may_count=False))

    @contextmanager
    def translated(self) -> Iterator[None]:
        """The one place where a driver's errors are converted to ours."""
        try:
            yield
        except self.dialect.errors() as error:
            raise self.translate(error) from error

    def translate(self, error: BaseException, outcome: str = UNKNOWN) -> HeadgateError:
        """The error that callers get for a driver's error: no error of a driver reaches them."""
        trouble = self.dialect.classify(error)
        why = self.dialect.why(error)
        if trouble is Trouble.FOREIGN:
            return ForeignStore(f"{self.name} is not a database of Headgate: {why}")
        if trouble is Trouble.SETUP:
            return StoreMisconfigured(self.name, why, self.dialect.advice(error))
        if trouble is Trouble.BUG:
            advice = "Compare its tables with: headgate doctor. If nobody changed them, report this as a bug"
            return StoreMisconfigured(self.name, f"the database refused a statement: {why}", advice)
        return StoreUnavailable(self.name, why, outcome=outcome)

    def close(self) -> None:
        """Close what is open."""
        self._pool.close()
        self.dialect.close()

    def _deadline(self) -> Deadline:
        return deadlines.current(self.options.answer_within)

    def _write(self, work: Callable[[Transaction], T], *, again: bool, look: bool) -> T:
        def work_and_keep(tx: Transaction) -> T:
            result = work(tx)
            keyed = keep_key(tx, result)
            tx.keyed += [keyed] if keyed else []
            return result

        whole = work_and_keep if is_keyed() else work
        if self._groups is not None:
            return self._groups.write(whole, self._deadline(), again=again)
        return self._write_now(whole, self._deadline(), again=again, look=look)

    def _write_now(self, work: Callable[[Transaction], T], deadline: Deadline, *, again: bool, look: bool) -> T:
        def transact(connection: DriverConnection, cut: bool, sent: _Sent) -> T:  # noqa: FBT001 - as all are called
            return self._transact(connection, work, sent, again=again or cut, write=True, look=look)

        with self.dialect.turn(deadline.busy_left):
            return self._try(transact, _Sent(may_count=again), deadline)

    def _following(self, once: Callable[[bool], T], *, again: bool) -> T:
        """Run it, after adjusting the store to its server if necessary."""
        for _ in range(MOST_CHANGES):
            try:
                return once(again)
            except ServerChanged as change:
                again = again or change.again
                # In a separate context: all tokens are raised, which may take longer than the time left for the call.
                Context().run(self._follow, change)
                if change.jump is not None:
                    self._clock.settle()
        raise StoreUnavailable(
            self.name, ("several servers answer at this address in turn; use the address of one primary")
        )

    def _follow(self, change: ServerChanged) -> None:
        assert self.follower  # noqa: S101 - without one nobody looks
        with deadlines.within(deadlines.BULK_SECONDS):
            self.follower(self, change)

    def _try(
        self,
        work: Callable[[DriverConnection, bool, _Sent], T],
        sent: _Sent,
        deadline: Deadline | None = None,
        *,
        once: bool = False,
    ) -> T:
        began = time.perf_counter()
        try:
            return self._try_on(work, sent, deadline or self._deadline(), once=once)
        finally:
            report_store_call(time.perf_counter() - began)

    def _try_on(
        self, work: Callable[[DriverConnection, bool, _Sent], T], sent: _Sent, deadline: Deadline, *, once: bool
    ) -> T:
        again = once
        while True:
            connection = self._take(deadline, sent)
            before = sent.may_count
            try:
                self.dialect.limit(connection, deadline)
                result = work(connection, again, sent)
            except self.dialect.errors() as error:
                if self._failed(error, connection) not in (Trouble.GONE, Trouble.MOVED):
                    sent.may_count = before  # The database answered, and rolled it back.
                again = self._again(error, sent, deadline, again=again)
                _pause()
            except (HeadgateError, ServerChanged):
                self._put_back(connection)
                raise
            except BaseException:
                self._pool.drop(connection)
                raise
            else:
                self._pool.give(connection)
                return result

    def _failed(self, error: BaseException, connection: DriverConnection) -> Trouble:
        """Return the connection. Returns the meaning of the error; Duplicate is raised at once."""
        trouble = self.dialect.classify(error)
        self._after(trouble, connection)
        if trouble is Trouble.DUPLICATE:
            raise Duplicate(str(error)) from error
        return trouble

    def _again(self, error: BaseException, sent: _Sent, deadline: Deadline, *, again: bool) -> bool:
        """Whether the next attempt has to check whether this one took effect; raises the caller's error when there is
        no next attempt.
        """
        trouble = self.dialect.classify(error)
        lost_first_time = trouble is Trouble.GONE and not again and deadline.left > 0
        if not (lost_first_time or self._may_pass(trouble, deadline)):
            raise self.translate(error, UNKNOWN if sent.may_count else NONE) from error
        return again or lost_first_time

    def _may_pass(self, trouble: Trouble, deadline: Deadline) -> bool:
        """Whether to retry: another transaction blocked it, and there is time for the database to wait once more."""
        if trouble is Trouble.CONFLICT:
            return deadline.busy_left > 0
        return trouble is Trouble.BUSY and deadline.busy_left > self.dialect.lock_wait

    def _take(self, deadline: Deadline, sent: _Sent) -> DriverConnection:
        outcome = UNKNOWN if sent.may_count else NONE
        try:
            return self._pool.take(deadline)
        except NoConnection as error:
            raise StoreUnavailable(self.name, str(error), outcome=outcome) from error
        except self.dialect.errors() as error:
            raise self.translate(error, outcome) from error

    def _ask(
        self, connection: DriverConnection, statement: Statement, params: Mapping[str, object], sent: _Sent
    ) -> list[Row]:
        # Where writers take turns, everything that writes is a transaction.
        sent.may_count = sent.may_count or not self.dialect.one_writer
        return self.dialect.ask(connection, statement, with_actor(statement, params))

    def _put_back(self, connection: DriverConnection) -> None:
        """Return a connection to the pool, unless its rollback was not answered in time."""
        if self.dialect.closed(connection):
            self._pool.drop(connection)
        else:
            self._pool.give(connection)

    def _after(self, trouble: Trouble, connection: DriverConnection) -> None:
        """Keep or discard a connection after an error. Its transaction has been rolled back already."""
        if trouble in (Trouble.BUSY, Trouble.CONFLICT, Trouble.DUPLICATE):
            self._put_back(connection)
            return
        self._pool.drop(connection)
        if trouble in (Trouble.GONE, Trouble.MOVED):
            self._pool.empty()

    def _transact(
        self,
        connection: DriverConnection,
        work: Callable[[Transaction], T],
        sent: _Sent,
        *,
        again: bool,
        write: bool,
        look: bool,
    ) -> T:
        cursor = connection.cursor()
        try:
            listened = self._begin(cursor, again=again, write=write, look=look)
            try:
                tx = Transaction(self.dialect, cursor, again=again, listened=listened)
                result = work(tx)
                sent.may_count = sent.may_count or write
                self._commit(cursor)
            except BaseException:
                with suppress(*self.dialect.errors()):
                    cursor.execute("rollback")
                raise
            self.dialect.verify(connection)
        finally:
            with suppress(*self.dialect.errors()):
                cursor.close()
        for keyed in tx.keyed:
            keyed.kept = True
        return result

    def _begin(self, cursor: Any, *, again: bool, write: bool, look: bool) -> bool:
        """Start a transaction; returns whether another process may be waiting for its news. If the store must follow
        its server first: ServerChanged, without an open transaction.
        """
        if not look or self.follower is None:
            self.dialect.begin(cursor, write=write)
            return True
        sent = steady()
        seen = self.dialect.begin_looking(cursor, write=write)
        if seen is None:
            return True
        current, now, listened = seen
        if not current:
            self._clock.forget()
        jump = self._clock.observe(now, sent, steady()) if current else None
        if jump is not None or not current:
            cursor.execute("rollback")
            raise ServerChanged(epoch=not current, jump=jump, again=again)
        return listened

    def _commit(self, cursor: Any) -> None:
        """Commit. A busy SQLite file may refuse only the commit, with the transaction still open: repeat it."""
        deadline = self._deadline()
        while True:
            try:
                cursor.execute("commit")
            except self.dialect.errors() as error:
                if self.dialect.classify(error) is not Trouble.BUSY or not deadline.busy_left:
                    raise
                _pause()
            else:
                return


def _pause() -> None:
    time.sleep(chance.between(*PAUSE_SECONDS))

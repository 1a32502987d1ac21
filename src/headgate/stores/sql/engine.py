"""A database: its connections, its transactions, what is tried again, and what its errors become."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.core.errors import ForeignStore, HeadgateError, StoreUnavailable
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions
from headgate.stores.sql.dialects.base import Columns, Connection, Dialect, Trouble
from headgate.stores.sql.statement import Row, Statement
from headgate.telemetry import tell_store_call

if TYPE_CHECKING:
    from sqlalchemy import Select

T = TypeVar("T")

#: How long a busy database is asked again before it counts as unavailable.
BUSY_SECONDS = 30.0
#: A random pause between two tries: short, since a commit is; random, so that nobody is starved.
PAUSE_SECONDS = (0.0001, 0.001)
#: How often a transaction is begun again because somebody else wrote the same row first.
MOST_TRIES = 20
#: Connections of a parent process: kept untouched, since closing them would end the parent's.
_inherited: list[list[Connection]] = []


class Duplicate(Exception):
    """The row is there already. For the stores, never for callers."""


class Transaction:
    """Statements that happen together or not at all."""

    def __init__(self, dialect: Dialect, cursor: Any, *, again: bool) -> None:
        self._dialect = dialect
        self._cursor = cursor
        #: True when an earlier try was cut off, so that it may have happened already.
        self.again = again

    def all(self, statement: Statement, **params: object) -> list[Row]:
        """Every row."""
        self._execute(statement, params)
        return [tuple(row) for row in self._cursor.fetchall()]

    def one(self, statement: Statement, **params: object) -> Any:
        """The first row, or None."""
        self._execute(statement, params)
        return self._cursor.fetchone()

    def ask(self, question: Select[Any]) -> list[Row]:
        """Every row of a question written with SQLAlchemy."""
        from headgate.stores.sql.reading import compiled

        self._cursor.execute(*compiled(self._dialect.kind, question))
        return [tuple(row) for row in self._cursor.fetchall()]

    def run(self, statement: Statement, **params: object) -> None:
        """Just do it."""
        self._execute(statement, params)

    def many(self, statement: Statement, columns: Columns, **fixed: object) -> None:
        """Insert many rows, given by their columns, in as few trips as may be; `fixed` is the same in all rows."""
        if any(columns.values()):
            self._dialect.insert_many(self._cursor, statement, columns, fixed)

    def insert(self, text: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows of any kind; `text` is built of the schema's own names."""
        self._cursor.executemany(self._dialect.spell(text), rows)

    def count(self, statement: Statement, **params: object) -> int:
        """Do it, and tell how many rows it changed."""
        self._execute(statement, params)
        return int(self._cursor.rowcount)

    def next_token(self) -> int:
        """A token for a claim: never given before."""
        return self._dialect.next_token(self)

    def last_id(self) -> int:
        """The number that the last insert was given, where the database numbers rows."""
        return int(self._cursor.lastrowid)

    def _execute(self, statement: Statement, params: dict[str, object]) -> None:
        self._cursor.execute(*self._dialect.prepare(statement, params))


class Pool:
    """Open connections that nobody uses now, last used first. Safe over threads and forks."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._places = threading.BoundedSemaphore(dialect.connections)
        self._closed = False

    def take(self) -> Connection:
        """An idle connection, or a new one."""
        self._places.acquire()
        try:
            if self._pid != os.getpid():
                self._disown()
            return self._idle.pop() if self._idle else self._dialect.connect()
        except BaseException:
            self._places.release()
            raise

    def give(self, connection: Connection) -> None:
        """Done with it, and it is in order. A thread may be late: after the end nothing is kept."""
        self._idle.append(connection)
        self._places.release()
        if self._closed:
            self.empty()

    def drop(self, connection: Connection) -> None:
        """Done with it, and nobody should use it again (but a database in memory lives in its one connection)."""
        if self._dialect.in_memory:
            self.give(connection)
            return
        self._places.release()
        with suppress(Exception):
            connection.close()

    def empty(self) -> None:
        """Close all that are idle."""
        while self._idle:
            with suppress(Exception):
                self._idle.pop().close()

    def close(self) -> None:
        """Close what is idle now, and later what is in use."""
        self._closed = True
        self.empty()

    def _disown(self) -> None:
        _inherited.append(self._idle)
        self._idle = []
        self._pid = os.getpid()


class Database:
    """One database, by its dialect."""

    def __init__(self, dialect: Dialect, options: StoreOptions = DEFAULT_OPTIONS) -> None:
        self.dialect = dialect
        self.options = options
        self.name = dialect.name
        self._pool = Pool(dialect)

    def write(self, work: Callable[[Transaction], T], *, again: bool = False) -> T:
        """Run it in one transaction that may write; from the start again when the database says so.

        `again` says that an earlier try was cut off, so that it may have happened already.
        """
        with self.dialect.turn(self.options.answer_within):
            return self._try(lambda connection, cut: self._transact(connection, work, again=again or cut, write=True))

    def write_through(self, work: Callable[[Transaction], T], *, again: bool = False) -> T:
        """The same; begun again when somebody else wrote the same row first."""
        for _ in range(MOST_TRIES - 1):
            try:
                return self.write(work, again=again)
            except Duplicate:
                continue
        return self.write(work, again=again)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run it in one transaction that only reads."""
        return self._try(lambda connection, again: self._transact(connection, work, again=again, write=False))

    def single(self, statement: Statement, **params: object) -> list[Row]:
        """One statement, one trip, one commit."""
        return self._try(lambda connection, _again: self.dialect.ask(connection, statement, params))

    def single_once(self, statement: Statement, **params: object) -> list[Row]:
        """The same, but StoreUnavailable rather than sent again when the answer was lost."""
        return self._try(lambda connection, _again: self.dialect.ask(connection, statement, params), once=True)

    @contextmanager
    def still(self) -> Iterator[Connection]:
        """A connection on which everything stays as it is now, while others work."""
        connection = self._take()
        try:
            with self.translated(), self.dialect.still(connection) as still:
                yield still
        except BaseException:
            self._pool.drop(connection)
            raise
        self._pool.give(connection)

    def changed(self) -> object:
        """Something that differs when another process wrote since; None where that cannot be told."""
        return self._try(lambda connection, _again: self.dialect.changed(connection))

    def lend(self, work: Callable[[Connection], T]) -> T:
        """Run somebody else's statements (a migration's) on a connection; again when the database says so."""
        return self._try(lambda connection, _again: work(connection))

    @contextmanager
    def translated(self) -> Iterator[None]:
        """The one place where a driver's errors become ours."""
        try:
            yield
        except self.dialect.errors() as error:
            raise self.translate(error) from error

    def translate(self, error: BaseException) -> BaseException:
        """What a driver's error is to callers. A wrong statement stays what it is: nobody should catch it."""
        trouble = self.dialect.classify(error)
        if trouble is Trouble.BUG:
            return error
        why = self.dialect.why(error)
        if trouble is Trouble.FOREIGN:
            return ForeignStore(f"{self.name} is no database of Headgate's: {why}")
        return StoreUnavailable(self.name, why)

    def close(self) -> None:
        """Close what is open."""
        self._pool.close()
        self.dialect.close()

    def _try(self, work: Callable[[Connection, bool], T], *, once: bool = False) -> T:
        began = time.perf_counter()
        try:
            return self._try_on(work, once=once)
        finally:
            tell_store_call(time.perf_counter() - began)

    def _try_on(self, work: Callable[[Connection, bool], T], *, once: bool) -> T:
        deadline = time.monotonic() + BUSY_SECONDS
        again = once
        while True:
            connection = self._take()
            try:
                result = work(connection, again)
            except self.dialect.errors() as error:
                trouble = self.dialect.classify(error)
                self._after(trouble, connection)
                if trouble is Trouble.DUPLICATE:
                    raise Duplicate(str(error)) from error
                lost_first_time = trouble is Trouble.GONE and not again
                passing = trouble in (Trouble.BUSY, Trouble.CONFLICT) and time.monotonic() < deadline
                if not (lost_first_time or passing):
                    raise self.translate(error) from error
                again = again or lost_first_time
                _pause()
            except HeadgateError:
                self._pool.give(connection)
                raise
            except BaseException:
                self._pool.drop(connection)
                raise
            else:
                self._pool.give(connection)
                return result

    def _take(self) -> Connection:
        try:
            return self._pool.take()
        except self.dialect.errors() as error:
            raise self.translate(error) from error

    def _after(self, trouble: Trouble, connection: Connection) -> None:
        """What becomes of a connection after an error: its transaction has been rolled back already."""
        if trouble in (Trouble.BUSY, Trouble.CONFLICT, Trouble.DUPLICATE):
            self._pool.give(connection)
            return
        self._pool.drop(connection)
        if trouble in (Trouble.GONE, Trouble.MOVED):
            self._pool.empty()

    def _transact(self, connection: Connection, work: Callable[[Transaction], T], *, again: bool, write: bool) -> T:
        cursor = connection.cursor()
        try:
            self.dialect.begin(cursor, write=write)
            try:
                result = work(Transaction(self.dialect, cursor, again=again))
                self._commit(cursor)
            except BaseException:
                with suppress(*self.dialect.errors()):
                    cursor.execute("rollback")
                raise
            self.dialect.verify(connection)
        finally:
            with suppress(*self.dialect.errors()):
                cursor.close()
        return result

    def _commit(self, cursor: Any) -> None:
        """Commit. A busy SQLite file may refuse the commit alone, with the transaction still open: ask again."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                cursor.execute("commit")
            except self.dialect.errors() as error:
                if self.dialect.classify(error) is not Trouble.BUSY or time.monotonic() > deadline:
                    raise
                _pause()
            else:
                return


def _pause() -> None:
    import random

    time.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311 - spreads tries, keeps no secret

"""A transaction: the queries and changes that its callers run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headgate.calls.actor import actor
from headgate.calls.idempotency import Keyed
from headgate.stores.options import StoreOptions
from headgate.stores.sql.database.dialect import Columns, Dialect, Trouble
from headgate.stores.sql.database.sql_text import Row, Statement

if TYPE_CHECKING:
    from sqlalchemy import Select

    from headgate.core.ledger.rules import ChunkRules
    from headgate.core.locks.rules import LockRules


class Duplicate(Exception):
    """The row exists already. For the stores, never for callers."""


class Transaction:
    """Statements that take effect together or not at all."""

    def __init__(self, dialect: Dialect, cursor: Any, *, again: bool, listened: bool = True) -> None:
        self._dialect = dialect
        self._cursor = cursor
        #: Whether another process may be waiting for its news.
        self.listened = listened
        #: True when an earlier attempt was interrupted, so that it may have taken effect.
        self.again = again
        #: Requests whose records were written with their effects.
        self.keyed: list[Keyed] = []

    @property
    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """The errors of the driver."""
        return self._dialect.errors()

    @contextmanager
    def part(self, *, again: bool) -> Iterator[Transaction]:
        """A part of this transaction that is rolled back alone when it fails. A driver's error may end the whole
        transaction.
        """
        self._cursor.execute("savepoint part")
        part = Transaction(self._dialect, self._cursor, again=again)
        try:
            yield part
        except self._dialect.errors() as error:
            if self._dialect.classify(error) is not Trouble.DUPLICATE:
                raise
            self._undo_part()
            raise Duplicate(str(error)) from error
        except Exception:
            self._undo_part()
            raise
        self._cursor.execute("release savepoint part")
        self.keyed += part.keyed

    def _undo_part(self) -> None:
        self._cursor.execute("rollback to part")
        self._cursor.execute("release savepoint part")

    @property
    def options(self) -> StoreOptions:
        """The options of the store."""
        return self._dialect.options

    @property
    def lock_rules(self) -> LockRules:
        """The tables that decide about locks."""
        return self._dialect.options.lock_rules

    @property
    def chunk_rules(self) -> ChunkRules:
        """The tables that decide about chunks."""
        return self._dialect.options.chunk_rules

    def all(self, statement: Statement, **params: object) -> list[Row]:
        """Every row."""
        self._execute(statement, params)
        return [tuple(row) for row in self._cursor.fetchall()]

    def one(self, statement: Statement, **params: object) -> Any:
        """The first row, or None."""
        self._execute(statement, params)
        return self._cursor.fetchone()

    def ask(self, question: Select[Any]) -> list[Row]:
        """All rows of a query written with SQLAlchemy."""
        from headgate.stores.sql.database.reading import compiled

        self._cursor.execute(*compiled(self._dialect.kind, question))
        return [tuple(row) for row in self._cursor.fetchall()]

    def run(self, statement: Statement, **params: object) -> None:
        """Run it, and ignore its rows."""
        self._execute(statement, params)

    def many(self, statement: Statement, columns: Columns, **fixed: object) -> None:
        """Insert many rows, given by their columns, in as few trips as possible; `fixed` is the same in all rows."""
        if any(columns.values()):
            given = fixed if "principal" in columns else with_actor(statement, fixed)
            self._dialect.insert_many(self._cursor, statement, columns, given)

    def insert(self, text: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows of any kind; `text` is built from the schema's own names."""
        self._cursor.executemany(self._dialect.spell(text), rows)

    def count(self, statement: Statement, **params: object) -> int:
        """Run it, and return how many rows it changed."""
        self._execute(statement, params)
        return int(self._cursor.rowcount)

    def next_token(self) -> int:
        """A token for a claim that was never issued before."""
        return self._dialect.next_token(self)

    def last_id(self) -> int:
        """The number of the last insert, where the database numbers rows."""
        return int(self._cursor.lastrowid)

    def _execute(self, statement: Statement, params: dict[str, object]) -> None:
        self._cursor.execute(*self._dialect.prepare(statement, with_actor(statement, params)))


def by_column(rows: Iterable[object], *names: str) -> dict[str, list[Any]]:
    """These attributes of all rows, as `Transaction.many` takes them."""
    kept = list(rows)
    return {name: [getattr(row, name) for row in kept] for name in names}


def with_actor(statement: Statement, params: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters, with the acting principal if the statement uses one and the caller does not pass it."""
    if "principal" in params or not statement.acts:
        return params
    return {**params, "principal": actor().principal}

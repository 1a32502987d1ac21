"""Moving a whole database: it is read as of one moment, written into an empty one, compared, and released."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Boolean, LargeBinary, Table

from headgate.core.errors import BadPayload, BadValue, ForeignStore, HalfMoved, StoreInUse
from headgate.core.jumps import NUMBERED, Jump, next_jump
from headgate.core.values.plurals import plural
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions
from headgate.stores.ports.moving import PORTION, Contents, Digest, Row
from headgate.stores.sql import opening
from headgate.stores.sql.database import facts
from headgate.stores.sql.database.columns import LEASE_CLOCK
from headgate.stores.sql.database.dialect import DriverConnection, Trouble
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Duplicate, Transaction
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.moving import contents as moved
from headgate.stores.sql.moving import statements as sql
from headgate.stores.sql.queue.statements import ADD_COUNTER
from headgate.stores.sql.schema import metadata
from headgate.stores.sql.schema_versions import versions

#: The tables that are not copied row by row, and why.
NOT_ROWS = {
    "hg_meta": "the facts about the store go as such; those about its place stay there",
    "hg_token": "it has no rows: the last issued number is copied, and tokens continue after it",
    "hg_session": "a browser is signed in at one store, and signs in again at another",
    "hg_daemon": "daemons work on one store, and sign on at another by themselves",
    "hg_watcher": "watchers work on one store, and start at another by themselves; the files that were counted move",
    "hg_turn": "what one process does for all at one store, another one does at another",
    "hg_repeat": "a request that is repeated at another store is another request",
    "hg_mark": "only PostgreSQL has it, and writes it again where it is missing",
}
TABLES: tuple[Table, ...] = tuple(table for table in metadata.sorted_tables if table.name not in NOT_ROWS)
#: On the lease clock: values from here on mean never.
NEVER = 1 << 60


class SqlSource:
    """A database at the moment when this was created. Unless it may be `in_use`, StoreInUse when it has an active
    lease.
    """

    def __init__(
        self,
        database: Database,
        still: DriverConnection,
        clocks: tuple[int, int],
        tables: Sequence[Table],
        *,
        in_use: bool,
    ) -> None:
        self.name = database.name
        self._database = database
        self._still = still
        self._tables = {table.name: table for table in tables}
        self._in_use = in_use
        self._lasts = _lasts(self._ask, tables)
        self.contents = self._look(*clocks)
        # Counted in exactly the rows that are copied: work that begins later is found at the end.
        self._refuse_users(self._ask(sql.COUNT_LEASES, now=clocks[1], never=NEVER))

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        return _read(self._database, self._still, self._tables[table])

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        """Raise StoreInUse when work began after the rows were read, unless the store may be in use."""
        del digests
        if not self._in_use:
            self._database.read(self._check_unused)

    def jump(self) -> Jump:
        """Return a jump beyond those of earlier copies; ids do not jump when nobody works on the source."""

        def remember(tx: Transaction) -> Jump:
            found = tx.one(facts.HOLD_FACT, name=moved.JUMPED)
            known = moved.read_jump(found[0]) if found else Jump()
            jump = next_jump(known, secrets.randbelow)
            kept = jump if self._in_use else replace(jump, ids=known.ids)
            facts.write_fact(tx, moved.JUMPED, moved.write_jump(kept))
            return jump if self._in_use else replace(jump, ids=0)

        return self._database.write_through(remember)

    def _look(self, at: int, now: int) -> Contents:
        known = {str(name): str(value) for name, value in self._ask(facts.READ_FACTS)}
        counts = {name: int(last[0]) for name, last in self._lasts.items()}
        numbers = {str(name): int(value) for name, value in self._ask(sql.READ_COUNTERS)}
        # Issued after the rows' moment, so it is greater than all tokens of claims in them.
        token = self._database.write(lambda tx: tx.next_token())
        greatest = int(self._ask(sql.READ_LAST_TOKEN)[0][0] or 0)
        columns = {name: [column.name for column in table.columns] for name, table in self._tables.items()}
        return Contents(
            schema=versions()[-1], tag=known["tag"], at=at, now=now,
            token=max(token, greatest, int(known.get(facts.TOKEN_FLOOR, 0))),
            numbers={name: numbers.get(name, 0) for name in NUMBERED}, jumped=moved.read_jump(known.get(moved.JUMPED)),
            facts={name: value for name, value in known.items() if moved.moves(name)}, tables=columns, counts=counts,
        )  # fmt: skip

    def _check_unused(self, tx: Transaction) -> None:
        now = int(tx.one(sql.READ_CLOCKS)[1])
        self._refuse_users(tx.all(sql.COUNT_LEASES, now=now, never=NEVER))
        lasts = _lasts(tx.all, list(self._tables.values()))
        changed = [name for name, last in lasts.items() if last != self._lasts[name]]
        if changed:
            raise StoreInUse(self.name, [f"{name} changed during the copy" for name in changed[:3]])

    def _refuse_users(self, found: Sequence[Any]) -> None:
        users = [plural(int(count), str(what)) for what, count in found if count]
        if users and not self._in_use:
            raise StoreInUse(self.name, users)

    def _ask(self, statement: Statement, **params: object) -> list[Any]:
        cursor = self._still.cursor()
        try:
            cursor.execute(*self._database.dialect.prepare(statement, params))
            return list(cursor.fetchall())
        finally:
            cursor.close()


def _lasts(ask: Callable[[Statement], Sequence[Any]], tables: Sequence[Table]) -> dict[str, tuple[Any, ...]]:
    """Number of rows of each table, and the number of its last one if they are numbered."""
    found = {}
    for table in tables:
        number = "0" if table.autoincrement_column is None else f"max({table.autoincrement_column.name})"
        text = f"select count(*), {number} from {table.name}"
        found[table.name] = tuple(ask(Statement("The number of a table's last row.", text))[0])
    return found


@contextmanager
def open_source(url: str, *, in_use: bool, tables: Sequence[Table] = TABLES) -> Iterator[SqlSource]:
    """A snapshot of the database at that URL. StoreInUse if it has an active lease, unless it may be `in_use`."""
    require_store(url)
    database = opening.open_database(url)
    try:
        # Read first: everything that happens after this counts as missing from the rows.
        at, now = database.read(lambda tx: tx.one(sql.READ_CLOCKS))
        with database.still() as still:
            yield SqlSource(database, still, (int(at), int(now)), tables, in_use=in_use)
    finally:
        database.close()


def require_store(url: str) -> None:
    """Raise ForeignStore when there is no store at that URL; nothing is made there."""
    look = dialect_for(url)
    look.read_only = True
    looked = Database(look)
    try:
        if "hg_schema" not in opening.table_names(looked):
            raise ForeignStore(f"{look.name} is not a store of Headgate")
    finally:
        looked.close()


def accept_backup(contents: Contents) -> Mapping[str, Callable[[Row], str]]:
    """Raise BadValue or BadPayload for an unsuitable backup; return for each table a check of its rows."""
    return moved.accept(contents, TABLES)


@contextmanager
def open_target(
    url: str, tables: Sequence[Table] = TABLES, options: StoreOptions = DEFAULT_OPTIONS
) -> Iterator[SqlTarget]:
    """The database at that URL, for writing."""
    database = opening.open_database(url, options, half_moved=True)
    try:
        yield SqlTarget(database, tables)
    finally:
        database.close()


class SqlTarget:
    """A database that a store is written into."""

    def __init__(
        self, database: Database, tables: Sequence[Table] = TABLES, own: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`own`: for tables that need not be completely empty, the condition of rows that must not exist."""
        self.name = database.name
        self._own = own
        self._database = database
        self._tables = {table.name: table for table in tables}
        self._run = secrets.token_hex(8)
        self._shift = 0
        self._contents: Contents | None = None

    def begin(self, contents: Contents) -> None:
        self._contents = contents
        self.arrive(contents.tag)
        now = self._database.read(lambda tx: tx.one(sql.READ_CLOCKS))[1]
        self._shift = int(now) - contents.now

    def arrive(self, tag: str) -> None:
        """Empty, and not in use by anything else; the arriving store is the one with that tag."""
        try:
            begun_before = self._database.write(lambda tx: self._take_over(tx, tag))
        except Duplicate:
            raise HalfMoved(f"another process is starting to copy a store into {self.name}") from None
        if begun_before:
            self.write(self._clear)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        names = [column.name for column in self._tables[table].columns]
        text = f"insert into {table} ({', '.join(names)}) values ({', '.join(f':{name}' for name in names)})"
        taken = _takers(self._tables[table], self._shift)
        values = [dict(zip(names, (take(value) for take, value in zip(taken, row, strict=True)), strict=True))
                  for row in rows]  # fmt: skip
        try:
            self.write(lambda tx: self._insert(tx, table, text, values))
        except Duplicate:
            raise HalfMoved(f"another process writes to {self.name}: {table} has rows that were not copied") from None

    def _insert(self, tx: Transaction, table: str, text: str, values: Sequence[Mapping[str, object]]) -> None:
        dialect = self._database.dialect
        try:
            tx.insert(text, values)
        except dialect.errors() as error:
            if not dialect.refuses_row(error) or dialect.classify(error) is Trouble.DUPLICATE:
                raise
            why = str(error).splitlines()[0]
            raise BadPayload(table, f"the database rejects a row of the source: {why}") from error

    def digests(self) -> Iterator[tuple[str, Digest]]:
        with self._database.still() as still:
            for name, table in self._tables.items():
                digest = Digest()
                for rows in _read(self._database, still, table, -self._shift):
                    digest.add(rows)
                yield name, digest

    def finish(self, digests: Mapping[str, Digest], jump: Callable[[], Jump]) -> None:
        del digests
        contents, far = self._contents, jump()
        assert contents is not None  # noqa: S101 - begin comes first
        self.write(lambda tx: self._finish(tx, contents, far))
        self._database.dialect.learn_sizes(self._database)

    def _take_over(self, tx: Transaction, tag: str) -> bool:
        """Only this process uses it from here on. True: an earlier attempt may have left rows."""
        mark = {"from": tag, "run": self._run}
        standing = tx.one(facts.READ_FACT, name=facts.ARRIVING)
        if standing is None:
            full = [name for name in self._tables if tx.one(self._on("Is it empty?", "select 1 from", name, "limit 1"))]
            if full:
                raise BadValue("target", self.name, f"is not empty ({', '.join(full[:3])} …); name an empty database")
            tx.run(facts.ADD_FACT, name=facts.ARRIVING, value=json.dumps(mark))
            return False
        if json.loads(standing[0])["from"] != tag:
            raise BadValue(
                "target", self.name, ("contains an unfinished copy of another store; name an empty database")
            )
        tx.run(facts.WRITE_FACT, name=facts.ARRIVING, value=json.dumps(mark))
        return True

    def _clear(self, tx: Transaction) -> None:
        for table in self._tables:
            tx.run(self._on("Start over.", "delete from", table))

    def _on(self, sentence: str, act: str, table: str, tail: str = "") -> Statement:
        return Statement(sentence, f"{act} {table}{self._own.get(table, '')} {tail}")

    def write(self, work: Callable[[Transaction], None]) -> None:
        """In one transaction, if no other process has begun to move something into the same location."""

        def guarded(tx: Transaction) -> None:
            standing = tx.one(facts.HOLD_FACT, name=facts.ARRIVING)
            if standing is None or json.loads(standing[0])["run"] != self._run:
                raise HalfMoved(f"another process has started to copy a store into {self.name}; this one stops here")
            work(tx)

        self._database.write(guarded)

    def _finish(self, tx: Transaction, contents: Contents, jump: Jump) -> None:
        for table in self._tables.values():
            if table.autoincrement_column is not None:
                self._database.dialect.number_on(tx, table.name, table.autoincrement_column.name)
        token = contents.token + jump.tokens
        self._database.dialect.raise_token(tx, token)
        tx.run(sql.RAISE_TOKENS, far=jump.tokens)
        for name, value in {**contents.facts, "tag": contents.tag, facts.TOKEN_FLOOR: str(token)}.items():
            tx.run(facts.DROP_FACT, name=name)
            tx.run(facts.ADD_FACT, name=name, value=value)
        if jump.ids:
            for name in NUMBERED:
                tx.run(sql.DROP_COUNTER, name=name)
                tx.run(ADD_COUNTER, name=name, count=contents.numbers[name] + jump.ids)
        tx.run(facts.DROP_FACT, name=facts.ARRIVING)


def _read(database: Database, still: DriverConnection, table: Table, shift: int = 0) -> Iterator[Sequence[Row]]:
    """The rows in JSON types, in portions."""
    told = _decoders(table, shift)
    cursor = database.dialect.streaming(still)
    try:
        cursor.execute(f"select {', '.join(column.name for column in table.columns)} from {table.name}")
        while found := cursor.fetchmany(PORTION):
            yield [[tell(value) for tell, value in zip(told, row, strict=True)] for row in found]
    finally:
        cursor.close()


def _decoders(table: Table, shift: int) -> list[Callable[[Any], Any]]:
    """For each column: from the driver's values to a JSON type."""

    def decoder(column: Any) -> Callable[[Any], Any]:
        if isinstance(column.type, LargeBinary):
            return lambda value: None if value is None else bytes(value).hex()
        if isinstance(column.type, Boolean):
            return lambda value: None if value is None else bool(value)
        return _shifted(shift) if LEASE_CLOCK in column.info else _same

    return [decoder(column) for column in table.columns]


def _takers(table: Table, shift: int) -> list[Callable[[Any], Any]]:
    """For each column: the inverse conversion."""

    def taker(column: Any) -> Callable[[Any], Any]:
        if isinstance(column.type, LargeBinary):
            return lambda value: None if value is None else bytes.fromhex(value)
        return _shifted(shift) if LEASE_CLOCK in column.info else _same

    return [taker(column) for column in table.columns]


def _shifted(shift: int) -> Callable[[Any], Any]:
    """A moment on one store's lease clock, converted to another's: the remaining time stays the same. 0 is not a
    moment.
    """
    return lambda value: value if value is None or value == 0 or value >= NEVER else value + shift


def _same(value: Any) -> Any:
    return value

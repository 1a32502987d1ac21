"""A whole database on the move: read as it is at one moment, written into an empty one, compared, and let go."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Boolean, LargeBinary, Table

from headgate.core.errors import BadValue, ForeignStore, HalfMoved, StoreInUse
from headgate.stores.moving_port import PORTION, Contents, Digest, Row
from headgate.stores.sql import moving_statements as sql
from headgate.stores.sql import opening
from headgate.stores.sql.columns import LEASE_CLOCK
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.dialects.base import Connection
from headgate.stores.sql.engine import Database, Duplicate, Transaction
from headgate.stores.sql.schema import metadata
from headgate.stores.sql.statement import Statement

#: What is not read and written row by row, and why.
NOT_ROWS = {
    "hg_meta": "the facts about the store go as such; those about its place stay there",
    "hg_token": "it has no rows: the last number that was given goes, and tokens go on behind it",
    "hg_repeat": "a request that is repeated at another store is another request",
    "hg_mark": "PostgreSQL alone keeps it, and makes it anew where it is not",
}
TABLES: tuple[Table, ...] = tuple(table for table in metadata.sorted_tables if table.name not in NOT_ROWS)
#: Facts that are true of a place, not of what is kept there.
OF_THE_PLACE = (
    "clock", opening.ARRIVING, opening.TOKEN_FLOOR, opening.EPOCH, opening.CLOCK_SET, opening.RAISED
)  # fmt: skip
#: On the lease clock: from here on it is no moment, but never.
NEVER = 1 << 60
#: The store whose backup this is may have made so many batches and ingest jobs since, and as many each second.
IDS_SKIPPED, IDS_SKIPPED_EACH_SECOND = 1_000_000, 100


class SqlSource:
    """A database as it was when this was made."""

    def __init__(self, database: Database, still: Connection, clocks: tuple[int, int], tables: Sequence[Table]) -> None:
        self.name = database.name
        self._database = database
        self._still = still
        self._tables = {table.name: table for table in tables}
        self.contents = self._look(*clocks)

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        return _read(self._database, self._still, self._tables[table])

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        """All was read at one moment."""

    def _look(self, at: int, now: int) -> Contents:
        facts = {str(name): str(value) for name, value in _all(self._still, opening.READ_FACTS.text)}
        counts = {name: int(_all(self._still, f"select count(*) from {name}")[0][0]) for name in self._tables}
        # Drawn after the moment that the rows are of, so it is greater than all tokens in them.
        token = self._database.write(lambda tx: tx.next_token())
        columns = {name: [column.name for column in table.columns] for name, table in self._tables.items()}
        kept = {name: value for name, value in facts.items() if name not in (*OF_THE_PLACE, "tag")}
        floor = facts.get(opening.TOKEN_FLOOR, "0")
        return Contents(
            opening.versions()[-1], facts["tag"], at, now, token, {**kept, opening.TOKEN_FLOOR: floor},
            columns, counts,
        )  # fmt: skip


@contextmanager
def open_source(url: str, *, in_use: bool, tables: Sequence[Table] = TABLES) -> Iterator[SqlSource]:
    """The database of that URL, held still. Unless it may be `in_use`, StoreInUse when a lease runs in it."""
    look = dialect_for(url)
    look.read_only = True
    looked = Database(look)
    try:
        if "hg_schema" not in opening.table_names(looked):
            raise ForeignStore(f"{look.name} holds no store of Headgate")
    finally:
        looked.close()
    database = opening.open_database(url)
    try:
        users = [] if in_use else _users(database)
        if users:
            raise StoreInUse(database.name, users)
        # Asked before: what happens after this counts as not in the rows.
        at, now = database.read(lambda tx: tx.one(sql.READ_CLOCKS))
        with database.still() as still:
            yield SqlSource(database, still, (int(at), int(now)), tables)
    finally:
        database.close()


def _users(database: Database) -> list[str]:
    found = database.read(lambda tx: tx.all(sql.COUNT_LEASES, never=NEVER))
    return [f"{count} {what}" for what, count in found if count]


@contextmanager
def open_target(url: str, tables: Sequence[Table] = TABLES) -> Iterator[SqlTarget]:
    """The database of that URL, to be written into."""
    database = opening.open_database(url, half_moved=True)
    try:
        yield SqlTarget(database, tables)
    finally:
        database.close()


class SqlTarget:
    """A database that a store is written into."""

    def __init__(self, database: Database, tables: Sequence[Table] = TABLES) -> None:
        self.name = database.name
        self._database = database
        self._tables = {table.name: table for table in tables}
        self._run = secrets.token_hex(8)
        self._shift = 0
        self._contents: Contents | None = None
        #: A part of a store goes into what is there; the whole brings its name and its tokens with it.
        self._whole = len(tables) == len(TABLES)

    def begin(self, contents: Contents) -> None:
        self._check_schema(contents)
        self._contents = contents
        self.arrive(contents.tag)
        now = self._database.read(lambda tx: tx.one(sql.READ_CLOCKS))[1]
        self._shift = int(now) - contents.now

    def arrive(self, tag: str) -> None:
        """Empty, and nobody but this works with it; it is the store of that tag that comes."""
        try:
            begun_before = self._database.write(lambda tx: self._take_over(tx, tag))
        except Duplicate:
            raise HalfMoved(f"somebody else begins to move a store into {self.name} at this moment") from None
        if begun_before:
            self.write(self._clear)

    def add(self, table: str, rows: Sequence[Row]) -> None:
        names = [column.name for column in self._tables[table].columns]
        text = f"insert into {table} ({', '.join(names)}) values ({', '.join(f':{name}' for name in names)})"
        taken = _takers(self._tables[table], self._shift)
        values = [dict(zip(names, (take(value) for take, value in zip(taken, row, strict=True)), strict=True))
                  for row in rows]  # fmt: skip
        try:
            self.write(lambda tx: tx.insert(text, values))
        except Duplicate:
            raise HalfMoved(f"somebody else writes into {self.name}: {table} has rows that were not moved") from None

    def digests(self) -> Iterator[tuple[str, Digest]]:
        with self._database.still() as still:
            for name, table in self._tables.items():
                digest = Digest()
                for rows in _read(self._database, still, table, -self._shift):
                    digest.add(rows)
                yield name, digest

    def finish(self, digests: Mapping[str, Digest]) -> None:
        del digests
        contents = self._contents
        assert contents is not None  # noqa: S101 - begin comes first
        self.write(lambda tx: self._finish(tx, contents))
        self._database.dialect.learn_sizes(self._database)

    def _check_schema(self, contents: Contents) -> None:
        newest = opening.versions()[-1]
        if contents.schema != newest:
            raise BadValue(
                "schema", contents.schema,
                f"is not that of this Headgate ({newest}). Use the version that wrote it, then: headgate migrate",
            )  # fmt: skip
        columns = {name: [column.name for column in table.columns] for name, table in self._tables.items()}
        if {name: list(found) for name, found in contents.tables.items()} != columns:
            raise BadValue("source", contents.tag, "has other tables than this Headgate")

    def _take_over(self, tx: Transaction, tag: str) -> bool:
        """Nobody works with it from here on. True: a try before this one may have left rows."""
        mark = {"from": tag, "run": self._run}
        standing = tx.one(sql.READ_FACT, name=opening.ARRIVING)
        if standing is None:
            full = [name for name in self._tables if tx.one(Statement("Is it empty?", f"select 1 from {name} limit 1"))]
            if full:
                raise BadValue("target", self.name, f"is not empty ({', '.join(full[:3])} …); name an empty database")
            tx.run(sql.ADD_FACT, name=opening.ARRIVING, value=json.dumps(mark))
            return False
        if json.loads(standing[0])["from"] != tag:
            raise BadValue("target", self.name, "holds half of another store; name an empty database")
        tx.run(sql.WRITE_FACT, name=opening.ARRIVING, value=json.dumps(mark))
        return True

    def _clear(self, tx: Transaction) -> None:
        for table in self._tables:
            tx.run(Statement("Begin anew.", f"delete from {table}"))

    def write(self, work: Callable[[Transaction], None]) -> None:
        """In one transaction, if nobody else has begun to move something into the same place."""

        def guarded(tx: Transaction) -> None:
            standing = tx.one(sql.HOLD_FACT, name=opening.ARRIVING)
            if standing is None or json.loads(standing[0])["run"] != self._run:
                raise HalfMoved(f"somebody else has begun to move a store into {self.name}; this try ends here")
            work(tx)

        self._database.write(guarded)

    def _finish(self, tx: Transaction, contents: Contents) -> None:
        for table in self._tables.values():
            if table.autoincrement_column is not None:
                self._database.dialect.number_on(tx, table.name, table.autoincrement_column.name)
        # No store gives two tokens in one micro-second: none that was given meanwhile is given again.
        passed = max(int(tx.one(sql.READ_CLOCKS)[0]) - contents.at, 0) + 1
        self._database.dialect.raise_token(tx, contents.token + passed)
        if self._whole:
            _bring_facts(tx, contents, passed)
        if contents.old:
            skipped = IDS_SKIPPED + passed // 1_000_000 * IDS_SKIPPED_EACH_SECOND
            tx.run(sql.RAISE_COUNTERS, skipped=skipped)
        tx.run(sql.DROP_FACT, name=opening.ARRIVING)


def _bring_facts(tx: Transaction, contents: Contents, passed: int) -> None:
    tx.run(sql.RAISE_TOKENS, passed=passed)
    floor = int(contents.facts.get(opening.TOKEN_FLOOR, 0)) + passed
    for name, value in {**contents.facts, "tag": contents.tag, opening.TOKEN_FLOOR: str(floor)}.items():
        tx.run(sql.DROP_FACT, name=name)
        tx.run(sql.ADD_FACT, name=name, value=value)


def _read(database: Database, still: Connection, table: Table, shift: int = 0) -> Iterator[Sequence[Row]]:
    """The rows as JSON can tell them, in portions."""
    told = _tellers(table, shift)
    cursor = database.dialect.streaming(still)
    try:
        cursor.execute(f"select {', '.join(column.name for column in table.columns)} from {table.name}")
        while found := cursor.fetchmany(PORTION):
            yield [[tell(value) for tell, value in zip(told, row, strict=True)] for row in found]
    finally:
        cursor.close()


def _all(still: Connection, text: str) -> list[Any]:
    cursor = still.cursor()
    try:
        cursor.execute(text)
        return list(cursor.fetchall())
    finally:
        cursor.close()


def _tellers(table: Table, shift: int) -> list[Callable[[Any], Any]]:
    """For each column: from what drivers give to what JSON can tell."""

    def teller(column: Any) -> Callable[[Any], Any]:
        if isinstance(column.type, LargeBinary):
            return lambda value: None if value is None else bytes(value).hex()
        if isinstance(column.type, Boolean):
            return lambda value: None if value is None else bool(value)
        return _shifted(shift) if LEASE_CLOCK in column.info else _same

    return [teller(column) for column in table.columns]


def _takers(table: Table, shift: int) -> list[Callable[[Any], Any]]:
    """For each column: the way back."""

    def taker(column: Any) -> Callable[[Any], Any]:
        if isinstance(column.type, LargeBinary):
            return lambda value: None if value is None else bytes.fromhex(value)
        return _shifted(shift) if LEASE_CLOCK in column.info else _same

    return [taker(column) for column in table.columns]


def _shifted(shift: int) -> Callable[[Any], Any]:
    """A moment on one store's lease clock as it is on another's: what was left is still left. 0 is no moment."""
    return lambda value: value if value is None or value == 0 or value >= NEVER else value + shift


def _same(value: Any) -> Any:
    return value

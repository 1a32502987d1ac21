"""Open a store: make it when the database is empty, and refuse what is not ours before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from headgate.core.errors import ForeignStore, HalfMoved, SchemaMismatch
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions, no_store
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.dialects.base import Connection, Dialect
from headgate.stores.sql.engine import Database, ServerChanged, Transaction
from headgate.stores.sql.lock_statements import READ_TAG
from headgate.stores.sql.statement import Statement

#: Where the migrations are: one file for each version of the schema.
MIGRATIONS = Path(__file__).parent / "migrations"
READ_VERSION = Statement("The version of the schema.", "select version_num from hg_schema")
READ_FACTS = Statement("What is known of the store.", "select name, value from hg_meta")
READ_FLOOR = Statement("The token after which all others come.", "select {token_floor}")
#: Facts about a store that another one was moved into: while it is not whole, who moves; where new tokens begin.
ARRIVING, TOKEN_FLOOR = "arriving", "token_floor"
#: Facts about the server that keeps it: its epoch, when its clock was last followed, how tokens were last raised.
#: A fact about the history: entries from before this time (micro-seconds) may have been removed.
HISTORY_SINCE = "history_since"
EPOCH, CLOCK_SET, RAISED = "epoch", "clock_set", "tokens_raised"


def open_database(url: str, options: StoreOptions = DEFAULT_OPTIONS, *, half_moved: bool = False) -> Database:
    """The database of that URL, with the schema of this version. `half_moved`: also one that nobody may work with."""
    database = Database(dialect_for(url), options)
    try:
        make_or_check(database)
        facts = read_facts(database)
        if not half_moved:
            check_whole(database, facts)
        install_routines(database)
        database.follower = _follow
        database.dialect.opened(database)
    except BaseException:
        database.close()
        raise
    return database


def install_routines(database: Database) -> None:
    """Create the stored routines that are missing: their names say what they do, and for which tables."""
    dialect = database.dialect
    missing = {each.name: each.text for each in dialect.routines()}
    if missing:
        for row in database.single(dialect.list_routines, names=list(missing)):
            missing.pop(str(row[0]), None)
    if missing:
        database.lend(lambda driver: _create(dialect, driver, missing.values()))


def _create(dialect: Dialect, driver: Connection, texts: Iterable[str]) -> None:
    with closing(driver.cursor()) as cursor:
        try:
            cursor.execute(dialect.begin_write)
            dialect.schema_lock(cursor.execute)
            for text in texts:
                cursor.execute(text)
            cursor.execute("commit")
        finally:
            with suppress(*dialect.errors()):
                dialect.schema_unlock(driver)


def check_whole(database: Database, facts: Mapping[str, str]) -> None:
    """Refuse what another store is being moved into."""
    if ARRIVING in facts:
        raise HalfMoved(
            f"{database.name} is the target of a copy or restore that has not finished. If none is running, repeat "
            "the command: it starts over"
        )


def _follow(database: Database, change: ServerChanged) -> None:
    from headgate.stores.sql.epochs import follow  # Loaded when there is something to follow, which is seldom.

    follow(database, change)


def read_floor(tx: Transaction) -> int:
    """No token is given up to this one."""
    return int(tx.one(READ_FLOOR)[0])


def read_facts(database: Database) -> dict[str, str]:
    """What is known of the store, by name."""
    return {str(name): str(value) for name, value in database.single(READ_FACTS)}


def make_or_check(database: Database) -> None:
    """Make the schema when there is none; complete it when its making was interrupted; else compare versions.

    NoStore when the database is empty, and the options do not say to create a store in it.
    """
    tables = table_names(database)
    if not tables and not database.dialect.options.create:
        raise no_store(database.name)
    if "hg_schema" in tables and not half_made(database):
        check_version(database)
    elif not tables or ("hg_schema" in tables and not holds_ensembl(database, tables)):
        from headgate.stores.sql.migrations.runner import upgrade

        upgrade(database)
    else:
        raise foreign(database, tables)


def table_names(database: Database) -> set[str]:
    """Every table that is there."""
    return {str(row[0]) for row in database.single(database.dialect.list_tables)}


def holds_ensembl(database: Database, tables: set[str]) -> bool:
    """Whether the tables of Ensembl's resource locks are there, by their names and columns."""
    from headgate.core.ensembl import COLUMNS

    def fits(table: str) -> bool:
        found = database.single(database.dialect.list_columns, table=table)
        return {str(row[0]) for row in found} >= COLUMNS[table]

    return tables >= set(COLUMNS) and all(fits(table) for table in COLUMNS)


def half_made(database: Database) -> bool:
    """Whether somebody is making the store right now, or was interrupted: no version yet, or no tag.

    Where tables cannot be made in a transaction, others see each version on the way to the newest.
    """
    version = version_of(database)
    return version == "none" or (version in versions() and not database.single(READ_TAG))


def foreign(database: Database, tables: set[str]) -> ForeignStore:
    """Why this database is not used."""
    if holds_ensembl(database, tables):
        return ForeignStore(
            f"{database.name} holds Ensembl's resource locks. Import them with: headgate migrate --url {database.name}"
        )
    shown = ", ".join(sorted(tables)[:5])
    return ForeignStore(
        f"{database.name} has tables of another program ({shown}) and none of Headgate's. Use an empty database, or "
        "add Headgate's tables with: headgate migrate --beside"
    )


def check_version(database: Database) -> None:
    """Refuse a schema of another version, and say what to do."""
    found = version_of(database)
    known = versions()
    if found == known[-1]:
        return
    if found in known:
        raise SchemaMismatch(
            f"{database.name} has schema {found}; this Headgate needs {known[-1]}. Stop all processes that use it, "
            f"then run: headgate migrate --url {database.name}"
        )
    raise SchemaMismatch(
        f"{database.name} has schema {found} of a newer Headgate; this one supports up to {known[-1]}. Upgrade Headgate"
    )


def version_of(database: Database) -> str:
    """The schema version that the database says it has."""
    rows = database.single(READ_VERSION)
    return str(rows[0][0]) if rows else "none"


def versions() -> list[str]:
    """Every schema version that there is a migration for, oldest first."""
    return [name.split("_")[3] for name in sorted(path.name for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))]

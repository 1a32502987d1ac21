"""Open a store: create it when the database is empty, and refuse foreign databases before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress

from headgate.core.errors import ForeignStore, HalfMoved
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions, no_store
from headgate.stores.sql import schema_versions
from headgate.stores.sql.database.dialect import Dialect, DriverConnection
from headgate.stores.sql.database.engine import Database, ServerChanged
from headgate.stores.sql.database.facts import ARRIVING, READ_TAG, read_facts
from headgate.stores.sql.dialects import dialect_for


def open_database(url: str, options: StoreOptions = DEFAULT_OPTIONS, *, half_moved: bool = False) -> Database:
    """The database at that URL, with the schema of this version. `half_moved`: even if its copy is incomplete."""
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
    """Create the missing stored routines: their names identify their text and their tables."""
    dialect = database.dialect
    missing = {each.name: each.text for each in dialect.routines()}
    if missing:
        for row in database.single(dialect.list_routines, names=list(missing)):
            missing.pop(str(row[0]), None)
    if missing:
        database.lend(lambda driver: _create(dialect, driver, missing.values()))


def _create(dialect: Dialect, driver: DriverConnection, texts: Iterable[str]) -> None:
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
    """Refuse a store that is the target of an unfinished copy."""
    if ARRIVING in facts:
        raise HalfMoved(
            f"{database.name} is the target of a copy or restore that has not finished. If none is running, repeat "
            "the command: it starts over"
        )


def _follow(database: Database, change: ServerChanged) -> None:
    from headgate.stores.sql.server.epochs import (
        follow,
    )  # Imported only when there is something to follow, which is rare.

    follow(database, change)


def make_or_check(database: Database) -> None:
    """Create the schema if there is none, complete it if its creation was interrupted, otherwise compare versions.

    NoStore when the database is empty, and the options do not say to create a store in it.
    """
    tables = table_names(database)
    if not tables and not database.dialect.options.create:
        raise no_store(database.name)
    if "hg_schema" in tables and not half_made(database):
        schema_versions.check_version(database)
    elif not tables or ("hg_schema" in tables and not holds_ensembl(database, tables)):
        from headgate.stores.sql.migrations.upgrade import upgrade

        upgrade(database)
    else:
        raise foreign(database, tables)


def table_names(database: Database) -> set[str]:
    """The existing tables."""
    return {str(row[0]) for row in database.single(database.dialect.list_tables)}


def holds_ensembl(database: Database, tables: set[str]) -> bool:
    """Whether the tables of Ensembl's resource locks exist, by their names and columns."""
    from headgate.core.ensembl import COLUMNS

    def fits(table: str) -> bool:
        found = database.single(database.dialect.list_columns, table=table)
        return {str(row[0]) for row in found} >= COLUMNS[table]

    return tables >= set(COLUMNS) and all(fits(table) for table in COLUMNS)


def half_made(database: Database) -> bool:
    """Whether the store is being created right now, or its creation was interrupted: no version yet, or no tag.

    If tables cannot be created in a transaction, others see each version on the way to the newest.
    """
    version = schema_versions.version_of(database)
    return version == "none" or (version in schema_versions.versions() and not database.single(READ_TAG))


def foreign(database: Database, tables: set[str]) -> ForeignStore:
    """The reason why this database is not used."""
    if holds_ensembl(database, tables):
        return ForeignStore(
            f"{database.name} holds Ensembl's resource locks. Import them with: headgate migrate --url {database.name}"
        )
    shown = ", ".join(sorted(tables)[:5])
    return ForeignStore(
        f"{database.name} has tables of another program ({shown}) and none of Headgate's. Use an empty database, or "
        "add Headgate's tables with: headgate migrate --beside"
    )

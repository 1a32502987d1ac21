"""Bring a database to this version's schema, once, however many processes try at the same time."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from headgate.core.errors import SchemaMismatch
from headgate.stores.sql import schema_versions
from headgate.stores.sql.database.dialect import Dialect, DriverConnection
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.schema import meta, metadata

VERSION_TABLE = "hg_schema"
Afterwards = Callable[[Transaction], None]
#: Alembic keeps its context in a module: only one migration at a time in a process.
_one_at_a_time = threading.Lock()


def upgrade(database: Database, afterwards: Afterwards | None = None) -> None:
    """Run every migration that is missing, and install the routines, under the schema lock.

    It is one transaction if the database supports that. Otherwise (MariaDB) a crash leaves a store without a version or
    without a tag, which is never used in that state; running this again completes it. The tag and the writes of
    `afterwards` are one transaction on every database.
    """
    database.lend(lambda driver: _upgrade(database.dialect, driver, afterwards))


def _upgrade(dialect: Dialect, driver: DriverConnection, afterwards: Afterwards | None) -> None:
    try:
        with _one_at_a_time, _engine(dialect, driver).begin() as connection:
            dialect.schema_lock(connection.exec_driver_sql)
            _clear_half_made(connection, dialect.name)
            command.upgrade(_config(connection), "head")
            for routine in dialect.routines():
                connection.exec_driver_sql(routine.text)
            if dialect.schema_commits:
                connection.exec_driver_sql(dialect.begin_write)
            _name_store(connection)
            if afterwards:
                afterwards(Transaction(dialect, driver.cursor(), again=False))
    except DBAPIError as error:
        raise (error.orig or error) from error
    finally:
        with suppress(*dialect.errors()):
            dialect.schema_unlock(driver)


def _engine(dialect: Dialect, driver: DriverConnection) -> Engine:
    engine = create_engine(f"{dialect.sqlalchemy_name}://", creator=lambda: driver, poolclass=StaticPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(dialect.begin_write))
    return engine


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(schema_versions.MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _clear_half_made(connection: Connection, name: str) -> None:
    """Remove the remains of an interrupted first migration: tables without a version, which were never used."""
    there = set(inspect(connection).get_table_names())
    left = [table for table in metadata.sorted_tables if table.name in there]
    if not left or VERSION_TABLE not in there or connection.execute(text("select 1 from hg_schema")).first():
        return
    if meta.name in there and connection.execute(meta.select().where(meta.c.name == "tag")).first():
        raise SchemaMismatch(
            f"{name} has Headgate's tables and data, but its schema version is missing; restore the table "
            f"{VERSION_TABLE}"
        )
    metadata.drop_all(connection, tables=left)


def _name_store(connection: Connection) -> None:
    """Give a new store its tag, the prefix of its lock ids."""
    if connection.execute(meta.select().where(meta.c.name == "tag")).first() is None:
        connection.execute(meta.insert().values(name="tag", value=secrets.token_hex(2)))

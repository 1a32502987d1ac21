"""Schema and migrations agree, and the database itself refuses words that are not in the tables."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, NullPool, create_engine, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.sql.dml import UpdateBase

import headgate
from headgate.core.history import EVENTS
from headgate.core.locks.model import Mode, resource_digest
from headgate.stores.sql import schema
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.schema_versions import versions
from tests.conftest import SQL_STORES, fresh_store
from tests.shared_servers import Servers

KEY = resource_digest("r")
RESOURCE = {"rkey": KEY, "uri": "r", "token": 1, "holders": 0, "mode": "shared", "waiting": 0, "known": True}
LOCK_ROW = {
    "id": "x", "rkey": KEY, "client": "a", "mode": "shared", "token": 1, "since": 1, "lock_delay": 0, "count": 1,
    "request_id": "i", "owner": "", "note": "",
}  # fmt: skip
HISTORY = {
    "at": 1, "noun": "lock", "event": "grant", "subject": "x", "client": "a", "lock_id": "x", "token": 1,
    "state_before": "new", "state_after": "shared", "reason": "",
}  # fmt: skip


@pytest.fixture(scope="module", params=SQL_STORES)
def engine(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """A new store for all tests of this file: no test leaves data in it."""
    for url in fresh_store(request.param, servers, tmp_path_factory.mktemp("schema")):
        headgate.connect(url).close()
        dialect = dialect_for(url)
        yield create_engine(f"{dialect.sqlalchemy_name}://", creator=dialect.connect, poolclass=NullPool)


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """A plain connection, in a transaction that is rolled back."""
    with engine.connect() as connection:
        # The dialects' connections are in autocommit mode: a transaction begins only explicitly.
        connection.exec_driver_sql("begin")
        yield connection
        connection.exec_driver_sql("rollback")


def test_the_migrations_create_exactly_the_schema(connection: Connection) -> None:
    """Tables, columns, types, nullability, indexes: none is missing, and there are no others."""
    context = MigrationContext.configure(connection, opts={"compare_type": True, "version_table": "hg_schema"})
    found = [(kind, getattr(what, "name", what)) for kind, what, *_ in compare_metadata(context, schema.metadata)]
    # Alembic does not support indexes for some databases only.
    assert found == [("add_index", "hg_history_id" if connection.dialect.name == "sqlite" else "hg_history_at")]


def test_the_key_of_the_history_begins_with_the_time(connection: Connection) -> None:
    key = inspect(connection).get_pk_constraint("hg_history")["constrained_columns"]
    assert key == (["id"] if connection.dialect.name == "sqlite" else ["at", "id"])


def test_the_migrations_create_the_constraints_of_the_schema(connection: Connection) -> None:
    """Alembic does not compare check constraints: here they are compared by name."""
    for table in schema.metadata.sorted_tables:
        found = {str(check["name"]) for check in inspect(connection).get_check_constraints(table.name)}
        wanted = {str(check.name) for check in table.constraints if type(check).__name__ == "CheckConstraint"}
        assert {name for name in found if name.startswith("hg_")} == wanted


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_postgresql_has_short_conditions_to_parse(connection: Connection) -> None:
    """It parses those of a table again for each statement that writes there: a long one costs more than the row.

    Those of a domain it keeps."""
    asked = """select conname, length(conbin::text) from pg_constraint
               where contype = 'c' and conname like 'hg%' and conrelid <> 0"""
    lengths = {row.conname: row.length for row in connection.execute(text(asked))}
    assert "hg_history_event" in lengths
    assert {name: length for name, length in lengths.items() if length > 4_000} == {}


def test_the_store_records_its_version(connection: Connection) -> None:
    assert connection.execute(text("select version_num from hg_schema")).scalars().all() == [versions()[-1]]
    tag = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "tag")).scalar_one()
    assert len(tag) == 4


REFUSED: dict[str, UpdateBase] = {
    "a lock of an unknown mode": insert(schema.lock).values({**LOCK_ROW, "mode": "append"}),
    "a lock that nobody holds": insert(schema.lock).values({**LOCK_ROW, "count": 0}),
    "a resource of an unknown mode": insert(schema.resource).values({**RESOURCE, "mode": "append"}),
    "two writers": insert(schema.resource).values({**RESOURCE, "mode": "exclusive", "holders": 2}),
    "fewer holders than none": insert(schema.resource).values({**RESOURCE, "holders": -1}),
    "fewer waiters than none": insert(schema.resource).values({**RESOURCE, "waiting": -1}),
    "a waiter of an unknown mode": insert(schema.wait).values({"rkey": KEY, "ticket": 1, "mode": "append"}),
    "an unknown event": insert(schema.history).values({**HISTORY, "event": "granted"}),
    "an event that is not told": insert(schema.history).values({**HISTORY, "event": "wait"}),
    "an event of another noun": insert(schema.history).values({**HISTORY, "event": "submit"}),
    "an unknown noun": insert(schema.history).values({**HISTORY, "noun": "gate"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_database_refuses_invalid_rows(connection: Connection, what: str) -> None:
    with pytest.raises(DBAPIError, match=r"(?i)constraint"):
        connection.execute(REFUSED[what])


def test_the_database_refuses_a_token_that_was_issued_already(connection: Connection) -> None:
    connection.execute(insert(schema.lock).values(LOCK_ROW))
    with pytest.raises(IntegrityError):
        connection.execute(insert(schema.lock).values({**LOCK_ROW, "id": "y"}))


def test_the_database_accepts_every_word_of_the_tables(connection: Connection) -> None:
    """The words in the constraints come from the core, not from a second list."""
    for noun, events in EVENTS.items():
        for event in events:
            connection.execute(insert(schema.history).values({**HISTORY, "noun": noun, "event": event}))
    connection.execute(insert(schema.lock).values(LOCK_ROW))
    for mode in Mode:
        connection.execute(update(schema.lock).values(mode=mode.value))


LONGEST: dict[str, Callable[[], UpdateBase]] = {
    "resource": lambda: insert(schema.resource).values({**RESOURCE, "uri": "\U0001f512" * 2048}),
    "lock": lambda: insert(schema.lock).values(
        {**LOCK_ROW, "client": "\U0001f512" * 255, "note": "\U0001f512" * 1000, "request_id": "\U0001f512" * 200}
    ),
    "history": lambda: insert(schema.history).values({**HISTORY, "reason": "\U0001f512" * 1000}),
}


@pytest.mark.parametrize("what", LONGEST)
def test_the_longest_values_fit(connection: Connection, what: str) -> None:
    connection.execute(LONGEST[what]())


def test_names_are_compared_exactly(connection: Connection) -> None:
    for name in ("core", "Core", "core ", "c\u00f3re"):
        connection.execute(insert(schema.client).values(name=name, since=1))
    found: list[Any] = list(connection.execute(select(schema.client.c.name).where(schema.client.c.name == "core")))
    assert [row[0] for row in found] == ["core"]

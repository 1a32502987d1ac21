"""A database as Ensembl's own program creates it: its three tables, with rows chosen by the test."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    create_engine,
    insert,
    inspect,
    literal_column,
    make_url,
    select,
    table,
)
from sqlalchemy.pool import NullPool

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
metadata = MetaData()
client = Table(
    "client",
    metadata,
    Column("client_id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
)
resource = Table(
    "resource",
    metadata,
    Column("resource_id", Integer, primary_key=True),
    Column("uri", String(512), nullable=False, unique=True),
)
resource_lock = Table(
    "resource_lock",
    metadata,
    Column("resource_lock_id", Integer, primary_key=True),
    Column("lock_type", String(5), nullable=False),
    Column("created", DateTime, nullable=False),
    Column("client_id", Integer, ForeignKey("client.client_id")),
    Column("resource_id", Integer, ForeignKey("resource.resource_id")),
)


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    """A time as the original stores it: UTC, without a time zone."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).replace(tzinfo=None)


SOME_DAY = utc(2020, 1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Row:
    """A lock as the original writes it."""

    id: int
    client: str
    resource: str
    lock_type: str
    created: datetime = SOME_DAY


def engine(url: str) -> Engine:
    """SQLAlchemy's own way to a test's database."""
    parsed = make_url(url)
    return create_engine(parsed.set(drivername=DRIVERS[parsed.get_backend_name()]), poolclass=NullPool)


def build(url: str, rows: Iterable[Row] = (), clients: Iterable[str] = (), resources: Iterable[str] = ()) -> None:
    """Make the original's tables, and fill them."""
    rows = list(rows)
    names = {name: number for number, name in enumerate(dict.fromkeys([*clients, *(row.client for row in rows)]), 1)}
    uris = {uri: number for number, uri in enumerate(dict.fromkeys([*resources, *(row.resource for row in rows)]), 1)}
    with engine(url).begin() as connection:
        metadata.create_all(connection)
        for name, number in names.items():
            connection.execute(insert(client).values(client_id=number, name=name))
        for uri, number in uris.items():
            connection.execute(insert(resource).values(resource_id=number, uri=uri))
        for row in rows:
            connection.execute(
                insert(resource_lock).values(
                    resource_lock_id=row.id,
                    lock_type=row.lock_type,
                    created=row.created,
                    client_id=names[row.client],
                    resource_id=uris[row.resource],
                )
            )


def content(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, to detect changes."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with engine(url).begin() as connection:
        for name in inspect(connection).get_table_names():
            everything: Select[Any] = select(literal_column("*")).select_from(table(name))
            found[name] = sorted((tuple(row) for row in connection.execute(everything)), key=repr)
    return found


def originals(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the original's tables."""
    return {name: rows for name, rows in content(url).items() if name in metadata.tables}

"""The tables. Migrations lead to exactly this; a test proves it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)
from sqlalchemy.dialects import mysql

from headgate.core.locks import Mode
from headgate.core.states import LOCK

metadata = MetaData()

#: Exact on case and on blanks at the end, on every database.
MYSQL_COLLATION = "utf8mb4_nopad_bin"
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": MYSQL_COLLATION}


def text(length: int) -> String:
    """Text that is compared as it is written."""
    return String(length)


Key = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
#: SQLite numbers rows by itself only in a column of this very type.
Number = BigInteger().with_variant(Integer(), "sqlite")


def one_of(column: str, words: tuple[str, ...]) -> str:
    """A condition that the database itself refuses unknown words by."""
    return f"{column} in ({', '.join(repr(word) for word in words)})"


MODES = tuple(mode.value for mode in Mode)

# Facts about the store itself: its tag, its clock.
meta = Table(
    "hg_meta",
    metadata,
    Column("name", text(64), primary_key=True),
    Column("value", text(255), nullable=False),
    **MYSQL,
)

# One row for each resource that was ever named; never deleted, so that its token only grows.
resource = Table(
    "hg_resource",
    metadata,
    Column("rkey", Key, primary_key=True, comment="sha-256 of the URI: exact, and of one size"),
    Column("uri", text(2048), nullable=False),
    Column("token", BigInteger, nullable=False, comment="of the newest grant"),
    Column("holders", Integer, nullable=False),
    Column("mode", text(9), nullable=False, comment="of the holders, while there are any"),
    Column("waiting", Integer, nullable=False),
    Column("known", Boolean(create_constraint=False), nullable=False, comment="false: forgotten, token kept"),
    CheckConstraint(one_of("mode", MODES), name="hg_resource_mode"),
    # A writer is alone.
    CheckConstraint("holders >= 0 and (mode = 'shared' or holders <= 1)", name="hg_resource_alone"),
    CheckConstraint("waiting >= 0", name="hg_resource_waiting"),
    **MYSQL,
)

lock = Table(
    "hg_lock",
    metadata,
    Column("id", text(40), primary_key=True),
    Column("rkey", Key, nullable=False),
    Column("client", text(255), nullable=False),
    Column("mode", text(9), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False, comment="micro-seconds since 1970"),
    Column("lease", BigInteger, comment="micro-seconds; null: persistent"),
    Column("lease_until", BigInteger, comment="on the lease clock"),
    Column("lock_delay", BigInteger, nullable=False, comment="stays closed so long after an unclean end"),
    Column("count", Integer, nullable=False),
    Column("request_id", text(200), nullable=False),
    Column("owner", text(255), nullable=False),
    Column("note", text(1000), nullable=False),
    CheckConstraint(one_of("mode", MODES), name="hg_lock_mode"),
    CheckConstraint("count >= 1", name="hg_lock_count"),
    # A token is given once on a resource.
    Index("hg_lock_token", "rkey", "token", unique=True),
    # No index on lease_until: every grant would pay for it, and only the reaper, which may scan, would use it.
    sqlite_with_rowid=False,
    **MYSQL,
)

# A request that waits; its place in each resource's queue is in hg_wait.
ticket = Table(
    "hg_ticket",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("request_id", text(200), nullable=False),
    Column("client", text(255), nullable=False),
    Column("owner", text(255), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("alive_until", BigInteger, nullable=False, comment="on the lease clock"),
    Column("channel", text(64), nullable=False, comment="where its process listens"),
    Column("lock_id", text(40), nullable=False, comment="of the grant; empty: for several resources"),
    Column("lease", BigInteger, comment="micro-seconds; null: persistent"),
    Column("lock_delay", BigInteger, nullable=False),
    Column("note", text(1000), nullable=False),
    sqlite_autoincrement=True,
    **MYSQL,
)

wait = Table(
    "hg_wait",
    metadata,
    Column("rkey", Key, primary_key=True),
    Column("ticket", BigInteger, primary_key=True, autoincrement=False),
    Column("mode", text(9), nullable=False),
    CheckConstraint(one_of("mode", MODES), name="hg_wait_mode"),
    Index("hg_wait_ticket", "ticket"),
    **MYSQL,
)

history = Table(
    "hg_history",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("noun", text(10), nullable=False),
    Column("event", text(20), nullable=False),
    Column("rkey", Key, nullable=False),
    Column("client", text(255), nullable=False),
    Column("lock_id", text(40), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("state_before", text(20), nullable=False),
    Column("state_after", text(20), nullable=False),
    Column("reason", text(1000), nullable=False),
    CheckConstraint(one_of("event", LOCK.told), name="hg_history_event"),
    Index("hg_history_resource", "rkey", "id"),
    **MYSQL,
)

# How often somebody was refused within a minute; the history has one row for it.
refusal = Table(
    "hg_refusal",
    metadata,
    Column("rkey", Key, primary_key=True),
    Column("client", text(255), primary_key=True),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    Column("history_id", BigInteger, nullable=False),
    Index("hg_refusal_history", "history_id", unique=True),
    **MYSQL,
)

client = Table(
    "hg_client",
    metadata,
    Column("name", text(255), primary_key=True),
    Column("since", BigInteger, nullable=False),
    **MYSQL,
)

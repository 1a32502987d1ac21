"""Locks: resources, locks, queues, history, refusals, clients."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
KEY = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MODES = "mode in ('shared', 'exclusive')"
EVENTS = "event in ('grant', 'refuse', 'enter', 'upgrade', 'downgrade', 'leave', 'release', 'expire', 'break')"


def upgrade() -> None:
    make_meta()
    make_resource()
    make_lock()
    make_queue()
    make_history()
    make_client()


def make_meta() -> None:
    op.create_table(
        "hg_meta",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.String(255), nullable=False),
        **MYSQL,
    )


def make_resource() -> None:
    op.create_table(
        "hg_resource",
        sa.Column("rkey", KEY, primary_key=True, comment="sha-256 of the URI: exact, and of one size"),
        sa.Column("uri", sa.String(2048), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False, comment="of the newest grant"),
        sa.Column("holders", sa.Integer, nullable=False),
        sa.Column("mode", sa.String(9), nullable=False, comment="of the holders, while there are any"),
        sa.Column("waiting", sa.Integer, nullable=False),
        sa.Column("known", sa.Boolean, nullable=False, comment="false: forgotten, token kept"),
        sa.CheckConstraint(MODES, name="hg_resource_mode"),
        sa.CheckConstraint("holders >= 0 and (mode = 'shared' or holders <= 1)", name="hg_resource_alone"),
        sa.CheckConstraint("waiting >= 0", name="hg_resource_waiting"),
        **MYSQL,
    )


def make_lock() -> None:
    op.create_table(
        "hg_lock",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("rkey", KEY, nullable=False),
        sa.Column("client", sa.String(255), nullable=False),
        sa.Column("mode", sa.String(9), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        sa.Column("lease", sa.BigInteger, comment="micro-seconds; null: persistent"),
        sa.Column("lease_until", sa.BigInteger, comment="on the lease clock"),
        sa.Column("lock_delay", sa.BigInteger, nullable=False, comment="stays closed so long after an unclean end"),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("note", sa.String(1000), nullable=False),
        sa.CheckConstraint(MODES, name="hg_lock_mode"),
        sa.CheckConstraint("count >= 1", name="hg_lock_count"),
        sqlite_with_rowid=False,
        **MYSQL,
    )
    op.create_index("hg_lock_token", "hg_lock", ["rkey", "token"], unique=True)


def make_queue() -> None:
    op.create_table(
        "hg_ticket",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("request_id", sa.String(200), nullable=False),
        sa.Column("client", sa.String(255), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("alive_until", sa.BigInteger, nullable=False, comment="on the lease clock"),
        sa.Column("channel", sa.String(64), nullable=False, comment="where its process listens"),
        sa.Column("lock_id", sa.String(40), nullable=False, comment="of the grant; empty: for several resources"),
        sa.Column("lease", sa.BigInteger, comment="micro-seconds; null: persistent"),
        sa.Column("lock_delay", sa.BigInteger, nullable=False),
        sa.Column("note", sa.String(1000), nullable=False),
        sqlite_autoincrement=True,
        **MYSQL,
    )
    op.create_table(
        "hg_wait",
        sa.Column("rkey", KEY, primary_key=True),
        sa.Column("ticket", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("mode", sa.String(9), nullable=False),
        sa.CheckConstraint(MODES, name="hg_wait_mode"),
        **MYSQL,
    )
    op.create_index("hg_wait_ticket", "hg_wait", ["ticket"])


def make_history() -> None:
    op.create_table(
        "hg_history",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("noun", sa.String(10), nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("rkey", KEY, nullable=False),
        sa.Column("client", sa.String(255), nullable=False),
        sa.Column("lock_id", sa.String(40), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state_before", sa.String(20), nullable=False),
        sa.Column("state_after", sa.String(20), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.CheckConstraint(EVENTS, name="hg_history_event"),
        **MYSQL,
    )
    op.create_index("hg_history_resource", "hg_history", ["rkey", "id"])
    op.create_table(
        "hg_refusal",
        sa.Column("rkey", KEY, primary_key=True),
        sa.Column("client", sa.String(255), primary_key=True),
        sa.Column("minute", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("history_id", sa.BigInteger, nullable=False),
        **MYSQL,
    )
    op.create_index("hg_refusal_history", "hg_refusal", ["history_id"], unique=True)


def make_client() -> None:
    op.create_table(
        "hg_client",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        **MYSQL,
    )

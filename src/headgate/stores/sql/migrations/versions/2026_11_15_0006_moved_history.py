"""History that was moved here from another store."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
KEY = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves a table that nobody has used yet.
    op.execute("drop table if exists hg_moved_history")
    op.create_table(
        "hg_moved_history",
        sa.Column("store", sa.String(4), primary_key=True, comment="the tag of the store that it comes from"),
        sa.Column("about", sa.String(10), primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Integer, nullable=False, comment="how often it was changed there; the latest is kept"),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("noun", sa.String(10), nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("rkey", KEY, nullable=False),
        sa.Column("resource", sa.String(2048), nullable=False),
        sa.Column("client", sa.String(255), nullable=False),
        sa.Column("lock_id", sa.String(40), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state_before", sa.String(20), nullable=False),
        sa.Column("state_after", sa.String(20), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("batch", sa.String(20), nullable=False, comment="of the batch or ingest job that it happened to"),
        sa.Column("item", sa.String(20), nullable=False, comment="the batch or ingest job"),
        sa.Column("spent", sa.BigInteger, comment="micro-seconds in the state before"),
        sa.CheckConstraint("about in ('locks', 'queue')", name="hg_moved_history_about"),
        **MYSQL,
    )
    for name, column in (("resource", "rkey"), ("lock", "lock_id"), ("batch", "batch"), ("item", "item")):
        op.create_index(f"hg_moved_history_{name}", "hg_moved_history", ["store", "about", column, "id"])

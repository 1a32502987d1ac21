"""Daemons say that they live, and which steps they work on."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves a table that nobody has used yet.
    op.execute("drop table if exists hg_daemon")
    op.create_table(
        "hg_daemon",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("steps", sa.String(1000), nullable=False, comment="names of steps, separated by spaces"),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("lease", sa.BigInteger, nullable=False, comment="micro-seconds"),
        sa.Column("lease_until", sa.BigInteger, nullable=False, comment="on the lease clock"),
        **MYSQL,
    )

"""API tokens."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves a table that nobody has used yet.
    op.execute("drop table if exists hg_api_token")
    op.create_table(
        "hg_api_token",
        sa.Column("id", sa.String(12), primary_key=True, comment="its public part"),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("scopes", sa.Text, nullable=False, comment="JSON"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("revoked", sa.Boolean, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, comment="HMAC-SHA-256 of the whole token"),
        **MYSQL,
    )

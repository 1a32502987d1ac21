"""Records of requests with an idempotency key."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves a table that nobody has used yet.
    op.execute("drop table if exists hg_repeat")
    op.create_table(
        "hg_repeat",
        sa.Column("id", sa.String(64), primary_key=True, comment="sha-256 of principal and key"),
        sa.Column("principal", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, comment="sha-256 of the request"),
        sa.Column("nonce", sa.String(40), nullable=False, comment="of the attempt that took effect"),
        sa.Column("result", DOCUMENT, nullable=False, comment="what the transaction returned, as JSON"),
        sa.Column("status", sa.Integer, comment="of the answer"),
        sa.Column("answer", DOCUMENT, comment="its body, without secrets"),
        sa.Column("at", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        **MYSQL,
    )
    op.create_index("hg_repeat_at", "hg_repeat", ["at"])

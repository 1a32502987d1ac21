"""Credentials: sealed copies of secrets, and what jobs' keys wrap with under a master key."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
WHICH_KEY = "which of the job's keys"
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves tables that nobody has used yet.
    for table in ("hg_credential", "hg_escrow"):
        op.execute(f"drop table if exists {table}")
    op.create_table(
        "hg_credential",
        sa.Column("dataset_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column(
            "job_id", sa.Integer, primary_key=True, autoincrement=False, comment="0: the master key alone opens it"
        ),
        sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False, comment=WHICH_KEY),
        sa.Column("version", sa.Integer, nullable=False, comment="of the value; the dataset names the newest"),
        sa.Column("wrap", sa.String(80), nullable=False, comment="the data key under the job's key"),
        sa.Column("sealed", DOCUMENT, nullable=False, comment="nonce and ciphertext"),
        sa.Column("master_id", sa.Integer, nullable=False, comment="which master key opens it too; 0: none"),
        sa.Column("master_wrap", sa.String(80), nullable=False, comment="the data key under that"),
        sa.CheckConstraint("wrap <> '' or master_wrap <> ''", name="hg_credential_opens"),
        **MYSQL,
    )
    op.create_index("hg_credential_job", "hg_credential", ["job_id"])
    op.create_table(
        "hg_escrow",
        sa.Column("job_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False, comment=WHICH_KEY),
        sa.Column("master_id", sa.Integer, nullable=False),
        sa.Column("master_wrap", sa.String(80), nullable=False),
        **MYSQL,
    )
    if op.get_bind().dialect.name != "sqlite":  # It keeps no comments.
        op.alter_column(
            "hg_dataset", "secrets", existing_type=DOCUMENT, existing_nullable=False,
            comment="JSON: names of its secrets, each with its version",
        )  # fmt: skip

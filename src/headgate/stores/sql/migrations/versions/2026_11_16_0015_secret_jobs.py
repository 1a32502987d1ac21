"""Datasets list the jobs that may hold their secrets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added it.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("hg_dataset")}
    if "secret_jobs" not in there:
        comment = "JSON: names of the jobs that may hold its secrets; null: any"
        op.add_column("hg_dataset", sa.Column("secret_jobs", DOCUMENT, comment=comment))

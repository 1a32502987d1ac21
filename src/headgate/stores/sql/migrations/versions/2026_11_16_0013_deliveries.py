"""Deliveries: who sends a message, what became of each recipient, and the batch by which it is forgotten."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added some of it.
    found = sa.inspect(op.get_bind())
    there = {column["name"] for column in found.get_columns("hg_outbox")}
    for column in (
        sa.Column("batch", sa.String(20), nullable=False, server_default="", comment="of the item"),
        sa.Column("sender", sa.String(20), nullable=False, server_default="messenger", comment="who sends it"),
        sa.Column("recipients", DOCUMENT, comment="JSON: what became of each recipient of a mail"),
    ):
        if column.name not in there:
            op.add_column("hg_outbox", column)
    if "hg_outbox_batch" not in {index["name"] for index in found.get_indexes("hg_outbox")}:
        op.create_index("hg_outbox_batch", "hg_outbox", ["batch"])
    op.execute("update hg_outbox set batch = item where batch = ''")
    op.execute("update hg_outbox set sender = 'job' where kind = 'callback'")

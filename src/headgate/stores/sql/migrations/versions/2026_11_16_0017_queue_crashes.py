"""Batches and ingest jobs count the workers that die on them, and the history tells of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

EVENTS = (
    "event in ('submit', 'hold', 'start', 'release', 'delete', 'report', 'finish', 'update-report', 'clean', 'reap', "
    "'create', 'accept', 'fail', 'resume', 'clear', 'set-priority', 'repair')"
)


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added some of it.
    found = sa.inspect(op.get_bind())
    for table in ("hg_batch", "hg_ingest_job"):
        there = {column["name"] for column in found.get_columns(table)}
        for column in (
            sa.Column(
                "crashes", sa.Integer, nullable=False, server_default="0", comment="workers that died in this state"
            ),
            sa.Column(
                "former",
                sa.String(20),
                nullable=False,
                server_default="",
                comment="where they died, of what is held for that",
            ),
        ):
            if column.name not in there:
                op.add_column(table, column)
    checked = "hg_queue_history_event" in {check["name"] for check in found.get_check_constraints("hg_queue_history")}
    with op.batch_alter_table("hg_queue_history") as batch:
        if checked:
            batch.drop_constraint("hg_queue_history_event", type_="check")
        batch.create_check_constraint("hg_queue_history_event", EVENTS)

"""Principals: who owns a lock, a claim and an item, and who did what the histories tell of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

#: The tables that get a principal, and whose it is.
TABLES = {
    "hg_lock": "the owner",
    "hg_ticket": "the owner of the grant",
    "hg_history": "who did it",
    "hg_chunk": "the owner of the newest claim",
    "hg_chunk_history": "who did it",
    "hg_batch": "the owner of the newest taking",
    "hg_ingest_job": "the owner of the newest taking",
    "hg_queue_history": "who did it",
    "hg_moved_history": "who did it",
    "hg_api_token": "the owner of what is taken with it",
}
#: What the history of locks may tell from now on.
EVENTS = ("grant", "refuse", "enter", "upgrade", "downgrade", "leave", "hand-over", "release", "expire", "break")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added some of it.
    found = sa.inspect(op.get_bind())
    for table, comment in TABLES.items():
        if "principal" not in {column["name"] for column in found.get_columns(table)}:
            column = sa.Column("principal", sa.String(255), nullable=False, server_default="", comment=comment)
            op.add_column(table, column)
    # A token that was made before keeps the request ids that it has used.
    op.execute("update hg_api_token set principal = id where principal = ''")
    there = "hg_history_event" in {check["name"] for check in found.get_check_constraints("hg_history")}
    words = ", ".join(f"'{event}'" for event in EVENTS)
    with op.batch_alter_table("hg_history") as batch:
        if there:
            batch.drop_constraint("hg_history_event", type_="check")
        batch.create_check_constraint("hg_history_event", f"event in ({words})")

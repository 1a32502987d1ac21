"""Jobs and chunks know interruptions: a worker that is asked to stop has not failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

EVENTS = (
    "publish", "claim", "success", "fail", "interrupt", "reap", "force", "resubmit", "hold", "unhold", "forget",
    "set_status", "pause", "unpause",
)  # fmt: skip
#: Routines that are asked for no longer, as each database names them.
GONE = {
    "postgresql": (
        "function hg_succeed_4(text, int, int[], int, text, boolean, text, bigint, text, bytea, bytea, text)",
    ),
    "mysql": ("procedure hg_succeed_4",),
}


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added some of it.
    found = sa.inspect(op.get_bind())
    add(found, "hg_chunk", sa.Column(
        "interruptions", sa.Integer, nullable=False, server_default="0", comment="workers that were asked to stop"
    ))  # fmt: skip
    add(found, "hg_job", sa.Column("max_interruptions", sa.Integer, nullable=False, server_default="10"))
    add(found, "hg_job", sa.Column(
        "stop_exit", sa.String(10), nullable=False, server_default="interrupt", comment="interrupt or trust"
    ))  # fmt: skip
    checks = {check["name"] for check in found.get_check_constraints("hg_chunk_history")}
    words = ", ".join(f"'{event}'" for event in EVENTS)
    with op.batch_alter_table("hg_chunk_history") as batch:
        if "hg_chunk_history_event" in checks:
            batch.drop_constraint("hg_chunk_history_event", type_="check")
        batch.create_check_constraint("hg_chunk_history_event", f"event in ({words})")
    for routine in GONE.get(op.get_bind().dialect.name, ()):
        kind, _, name = routine.partition(" ")
        op.execute(f"drop {kind} if exists {name}")


def add(found: sa.Inspector, table: str, column: sa.Column[object]) -> None:
    """Add a column that is not there yet."""
    if column.name not in {each["name"] for each in found.get_columns(table)}:
        op.add_column(table, column)

"""A stamp by which a process sees that what it knows of jobs and datasets is still so."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

#: Routines that are asked for no longer, as each database names them.
GONE = {
    "postgresql": (
        "function hg_claim_next_1(text, text, text, bigint)",
        "function hg_succeed_1(text, text, bigint, text, bytea, bytea)",
    ),
    "mysql": ("procedure hg_claim_next_1", "procedure hg_succeed_1"),
}


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have left it.
    op.execute("delete from hg_meta where name = 'definitions'")
    op.execute("insert into hg_meta (name, value) values ('definitions', 'new')")
    for routine in GONE.get(op.get_bind().dialect.name, ()):
        kind, _, name = routine.partition(" ")
        op.execute(f"drop {kind} if exists {name}")

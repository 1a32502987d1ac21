"""Grants look at the server's epoch, and at the token floor where it stands: the routines that grant are new."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

#: Routines that are asked for no longer, as each database names them.
GONE = {
    "postgresql": (
        "function hg_hand_over_1(text, bigint)",
        "function hg_claim_next_2(text, int, int[], int[], text[], int, text, text, bigint)",
        "function hg_succeed_2(text, int, int[], int, text, boolean, text, bigint, text, bytea, bytea)",
    ),
    "mysql": (
        "procedure hg_grant_2", "procedure hg_release_1", "procedure hg_claim_next_2", "procedure hg_succeed_2",
    ),
}  # fmt: skip


def upgrade() -> None:
    """No table changes: the first call that writes notes the epoch. Routines are installed after every migration."""
    for routine in GONE.get(op.get_bind().dialect.name, ()):
        kind, _, name = routine.partition(" ")
        op.execute(f"drop {kind} if exists {name}")

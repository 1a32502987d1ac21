"""Tokens of new resources begin where a store that was moved says: the routine that grants them has a new number."""

from __future__ import annotations

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No table changes. Routines are installed after every migration."""

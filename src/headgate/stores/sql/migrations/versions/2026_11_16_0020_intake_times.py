"""A batch's copy of its profile says since when it is kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run may have added it.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("hg_intake")}
    if "at" not in there:
        op.add_column("hg_intake", sa.Column("at", sa.BigInteger, comment="when it was kept"))

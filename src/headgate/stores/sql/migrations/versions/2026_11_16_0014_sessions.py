"""Browser sessions and sign-in codes, by their digests. The key that signed sessions goes; each token has its salt."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves a table that nobody has used yet.
    op.execute("drop table if exists hg_session")
    op.create_table(
        "hg_session",
        sa.Column("id", sa.String(64), primary_key=True, comment="SHA-256 of what the browser keeps"),
        sa.Column("kind", sa.String(10), nullable=False, comment="session, or code: it signs a browser in once"),
        sa.Column("token_id", sa.String(12), nullable=False, comment="the API token that it belongs to"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("kind in ('session', 'code')", name="hg_session_kind"),
        **MYSQL,
    )
    op.create_index("hg_session_token", "hg_session", ["token_id", "kind"])
    op.create_index("hg_session_expires", "hg_session", ["expires_at"])
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("hg_api_token")}
    if "salt" not in there:
        salt = sa.Column("salt", sa.String(64), nullable=False, server_default="", comment="hex; of its digest")
        op.add_column("hg_api_token", salt)
    # Tokens that were made with the store's key keep it as their salt: it is of no other use any more.
    key = "(select value from hg_meta where name = 'api_token_key')"
    op.execute(f"update hg_api_token set salt = {key} where salt = '' and exists {key}")
    op.execute("delete from hg_meta where name = 'api_token_key'")

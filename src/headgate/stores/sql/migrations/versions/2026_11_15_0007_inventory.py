"""The inventory: objects, versions, files, owners, collections, local ids, ingests; intakes and the outbox."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")

#: What this makes.
TABLES = (
    "hg_owner", "hg_collection", "hg_object", "hg_object_collection", "hg_object_version", "hg_object_file",
    "hg_local_id", "hg_ingest", "hg_intake", "hg_outbox",
)  # fmt: skip


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves tables that nobody has used yet.
    for table in TABLES:
        op.execute(f"drop table if exists {table}")
    make_names()
    make_objects()
    make_versions()
    make_ingests()
    make_outbox()


def make_names() -> None:
    op.create_table(
        "hg_owner",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        **MYSQL,
    )
    op.create_table(
        "hg_collection",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True, comment="the ledger's dataset, or an ARK"),
        **MYSQL,
    )
    op.create_table(
        "hg_local_id",
        sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("local_id", sa.String(255), primary_key=True),
        sa.Column("ark", sa.String(255), nullable=False, comment="its object may not be stored yet"),
        **MYSQL,
    )
    op.create_index("hg_local_id_ark", "hg_local_id", ["ark"])


def make_objects() -> None:
    op.create_table(
        "hg_object",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("ark", sa.String(255), nullable=False, unique=True),
        sa.Column("owner_id", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer, nullable=False, comment="its newest version"),
        sa.Column("erc_who", DOCUMENT, nullable=False),
        sa.Column("erc_what", DOCUMENT, nullable=False),
        sa.Column("erc_when", DOCUMENT, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        sa.Column("modified", sa.BigInteger, nullable=False),
        **MYSQL,
    )
    op.create_index("hg_object_owner", "hg_object", ["owner_id"])
    op.create_table(
        "hg_object_collection",
        sa.Column("object_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("collection_id", sa.BigInteger, primary_key=True, autoincrement=False),
        **MYSQL,
    )
    op.create_index("hg_object_collection_members", "hg_object_collection", ["collection_id"])


def make_versions() -> None:
    op.create_table(
        "hg_object_version",
        sa.Column("object_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("files", sa.Integer, nullable=False),
        sa.CheckConstraint("number > 0", name="hg_object_version_number"),
        **MYSQL,
    )
    op.create_table(
        "hg_object_file",
        sa.Column("object_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False, comment="the version"),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(1000), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, comment="sha256"),
        sa.Column("since", sa.Integer, nullable=False, comment="the version in which these bytes came"),
        **MYSQL,
    )


def make_ingests() -> None:
    op.create_table(
        "hg_ingest",
        sa.Column("job", sa.String(20), primary_key=True),
        sa.Column("batch", sa.String(20), nullable=False),
        sa.Column("object_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, comment="the version"),
        sa.Column("profile", sa.String(255), nullable=False),
        sa.Column("submitter", sa.String(255), nullable=False),
        sa.Column("payload", sa.String(2048), nullable=False),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False, comment="when it was recorded"),
        **MYSQL,
    )
    op.create_index("hg_ingest_version", "hg_ingest", ["object_id", "number"], unique=True)
    op.create_table(
        "hg_intake",
        sa.Column("batch", sa.String(20), primary_key=True),
        sa.Column("profile", DOCUMENT, nullable=False, comment="JSON: the profile that the batch started with"),
        sa.Column("problem", DOCUMENT, nullable=False, comment="why its payload gave no jobs"),
        **MYSQL,
    )


def make_outbox() -> None:
    op.create_table(
        "hg_outbox",
        sa.Column("id", sa.String(200), primary_key=True, comment="the same however often it is sent"),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("item", sa.String(20), nullable=False, comment="the batch or ingest job that it tells of"),
        sa.Column("occasion", sa.String(200), nullable=False),
        sa.Column("recipient", sa.String(2048), nullable=False),
        sa.Column("body", DOCUMENT, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("problem", sa.String(1000), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False, comment="in this state"),
        sa.Column("next_try", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        sa.CheckConstraint("kind in ('mail', 'callback', 'failure')", name="hg_outbox_kind"),
        sa.CheckConstraint("state in ('waiting', 'delivered', 'given-up')", name="hg_outbox_state"),
        **MYSQL,
    )
    op.create_index("hg_outbox_next", "hg_outbox", ["state", "next_try"])
    op.create_index("hg_outbox_item", "hg_outbox", ["item"])

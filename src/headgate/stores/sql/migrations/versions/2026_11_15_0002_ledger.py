"""The ledger: datasets, jobs, chunks, what may be claimable, tokens, history."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ORDER_KEY = sa.LargeBinary(1300).with_variant(mysql.VARBINARY(1300), "mysql", "mariadb")
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
KINDS = "kind in ('INPUT', 'OUTPUT')"
EVENTS = (
    "event in ('publish', 'claim', 'success', 'fail', 'reap', 'force', 'resubmit', 'hold', 'unhold', 'forget', "
    "'set_status', 'pause', 'unpause')"
)
LEASED = sa.text("lease_until is not null")
TROUBLE = sa.text("status not in ('READY', 'DONE', 'RUNNING')")


#: What this makes.
TABLES = (
    "hg_dataset", "hg_job", "hg_job_dataset", "hg_chunk", "hg_candidate", "hg_token", "hg_chunk_history",
)  # fmt: skip


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves tables that nobody has used yet.
    for table in TABLES:
        op.execute(f"drop table if exists {table}")
    make_dataset()
    make_job()
    make_chunk()
    make_candidate()
    make_token()
    make_history()


def make_dataset() -> None:
    op.create_table(
        "hg_dataset",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("uri", sa.String(2048), nullable=False),
        sa.Column("dataid_order", sa.String(10), nullable=False),
        sa.Column("settings", DOCUMENT, nullable=False, comment="JSON"),
        sa.Column("secrets", DOCUMENT, nullable=False, comment="JSON: each secret sealed, never plain"),
        sa.CheckConstraint("dataid_order in ('natural', 'text')", name="hg_dataset_order"),
        **MYSQL,
    )
    op.create_index("hg_dataset_name", "hg_dataset", ["name"], unique=True)


def make_job() -> None:
    op.create_table(
        "hg_job",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("environment", DOCUMENT, nullable=False, comment="JSON"),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("max_crashes", sa.Integer, nullable=False),
        sa.Column("retry_delay", sa.BigInteger, nullable=False, comment="micro-seconds"),
        sa.Column("on_failure", sa.String(10), nullable=False),
        sa.Column("paused", sa.String(1000), nullable=False, comment="why; empty: it is not"),
        sa.Column(
            "key_check", sa.String(255), nullable=False, comment="proves a key without telling it; empty: it has none"
        ),
        sa.CheckConstraint("on_failure in ('rerun', 'hold')", name="hg_job_on_failure"),
        **MYSQL,
    )
    op.create_index("hg_job_name", "hg_job", ["name"], unique=True)
    op.create_table(
        "hg_job_dataset",
        sa.Column("job_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(6), nullable=False),
        sa.Column("position", sa.Integer, nullable=False, comment="the bit by which an input is missing"),
        sa.CheckConstraint(KINDS, name="hg_job_dataset_kind"),
        **MYSQL,
    )
    op.create_index("hg_job_dataset_dataset", "hg_job_dataset", ["dataset_id", "kind"])


def make_chunk() -> None:
    op.create_table(
        "hg_chunk",
        sa.Column("dataset_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("dataid", sa.String(255), primary_key=True),
        sa.Column("job_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(6), primary_key=True),
        sa.Column("order_key", ORDER_KEY, nullable=False),
        sa.Column("status", sa.String(40), nullable=False, comment="any word; an unknown one blocks"),
        sa.Column("former", sa.String(40), nullable=False, comment="what unhold brings back; empty: no row"),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("crashes", sa.Integer, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column(
            "request_id", sa.String(200), nullable=False, comment="of the newest claim, by which a repeat is recognised"
        ),
        sa.Column("lease", sa.BigInteger, comment="micro-seconds"),
        sa.Column("lease_until", sa.BigInteger, comment="on the lease clock; far off: by hand"),
        sa.Column("forced", sa.Boolean, nullable=False),
        sa.Column("retry_after", sa.BigInteger, comment="on the lease clock"),
        sa.Column("since", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        sa.Column("started", sa.BigInteger, comment="micro-seconds since 1970"),
        sa.Column("message", sa.String(1000), nullable=False),
        sa.CheckConstraint(KINDS, name="hg_chunk_kind"),
        sa.CheckConstraint("(lease_until is null) = (status <> 'RUNNING')", name="hg_chunk_lease"),
        sqlite_with_rowid=False,
        **MYSQL,
    )
    op.create_index(
        "hg_chunk_lease_until", "hg_chunk", ["job_id", "lease_until"], postgresql_where=LEASED, sqlite_where=LEASED
    )
    op.create_index(
        "hg_chunk_trouble", "hg_chunk", ["job_id", "status"], postgresql_where=TROUBLE, sqlite_where=TROUBLE
    )
    op.create_index("hg_chunk_order", "hg_chunk", ["dataset_id", "order_key"])


def make_candidate() -> None:
    op.create_table(
        "hg_candidate",
        sa.Column("job_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("dataid", sa.String(255), primary_key=True),
        sa.Column("order_key", ORDER_KEY, nullable=False),
        sa.Column("place", sa.Integer, nullable=False, comment="0: resubmitted, goes first; 1: all others"),
        sa.Column("missing", sa.BigInteger, nullable=False, comment="a bit for each input that is not READY"),
        sa.Column("not_before", sa.BigInteger, nullable=False, comment="on the lease clock"),
        sqlite_with_rowid=False,
        **MYSQL,
    )
    op.create_index("hg_candidate_next", "hg_candidate", ["job_id", "missing", "place", "order_key"])


def make_token() -> None:
    op.create_table(
        "hg_token",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        sqlite_autoincrement=True,
        **MYSQL,
    )


def make_history() -> None:
    op.create_table(
        "hg_chunk_history",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("job_id", sa.Integer, nullable=False),
        sa.Column("dataset_id", sa.Integer, comment="of the row that tells the status; null: it happened to the job"),
        sa.Column("dataid", sa.String(255), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state_before", sa.String(40), nullable=False),
        sa.Column("state_after", sa.String(40), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.CheckConstraint(EVENTS, name="hg_chunk_history_event"),
        **MYSQL,
    )
    op.create_index("hg_chunk_history_job", "hg_chunk_history", ["job_id", "dataid", "id"])

"""The queue: batches, ingest jobs, holds, history."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
BATCH_STATES = (
    "state in ('pending', 'held', 'processing', 'reporting', 'completed', 'failed', 'update-reporting')"
)  # fmt: skip
JOB_STATES = (
    "state in ('pending', 'estimating', 'held', 'failed', 'provisioning', 'downloading', 'processing', 'recording', "
    "'notify', 'completed', 'cleaned')"
)
EVENTS = (
    "event in ('submit', 'hold', 'start', 'release', 'delete', 'report', 'finish', 'update-report', 'clean', "
    "'create', 'accept', 'fail', 'resume', 'clear', 'set-priority', 'repair')"
)
TAKEN = "(lease is null) = (lease_until is null)"

#: What this makes.
TABLES = ("hg_counter", "hg_batch", "hg_ingest_job", "hg_hold", "hg_queue_history")


def upgrade() -> None:
    # Where a change of the schema ends the transaction, an interrupted run leaves tables that nobody has used yet.
    for table in TABLES:
        op.execute(f"drop table if exists {table}")
    make_counter()
    make_batch()
    make_ingest_job()
    make_hold()
    make_history()


def make_counter() -> None:
    op.create_table(
        "hg_counter",
        sa.Column("name", sa.String(20), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
        **MYSQL,
    )


def taking() -> list[sa.Column[Any]]:
    """What is known of the newest taking."""
    return [
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, comment="of the newest taking"),
        sa.Column("token", sa.BigInteger, nullable=False, comment="of the newest taking"),
        sa.Column("lease", sa.BigInteger, comment="micro-seconds; null: nobody has taken it"),
        sa.Column("lease_until", sa.BigInteger, comment="on the lease clock"),
    ]


def make_batch() -> None:
    op.create_table(
        "hg_batch",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("profile", sa.String(255), nullable=False),
        sa.Column("submitter", sa.String(255), nullable=False),
        sa.Column("payload_url", sa.String(2048), nullable=False),
        sa.Column("type", sa.String(40), nullable=False),
        sa.Column("mode", sa.String(10), nullable=False),
        sa.Column("metadata", DOCUMENT, nullable=False, comment="JSON"),
        sa.Column("submit_id", sa.String(200), comment="of the request to submit; a repeat gives the same batch"),
        sa.Column("message", sa.String(1000), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        sa.Column("processing", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("completed", sa.Integer, nullable=False),
        sa.Column("made", sa.Integer, nullable=False, comment="jobs that were ever made of its payload"),
        sa.Column("report", DOCUMENT, comment="JSON; null: never reported"),
        *taking(),
        sa.CheckConstraint(BATCH_STATES, name="hg_batch_state"),
        sa.CheckConstraint("processing >= 0 and failed >= 0 and completed >= 0", name="hg_batch_counts"),
        sa.CheckConstraint("made >= processing + failed + completed", name="hg_batch_made"),
        sa.CheckConstraint(TAKEN, name="hg_batch_taken"),
        **MYSQL,
    )
    op.create_index("hg_batch_next", "hg_batch", ["state", "id"])
    op.create_index("hg_batch_submit_id", "hg_batch", ["submit_id"], unique=True)


def make_ingest_job() -> None:
    op.create_table(
        "hg_ingest_job",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("batch_id", sa.BigInteger, nullable=False),
        sa.Column("position", sa.Integer, nullable=False, comment="its place in the batch's payload"),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("last_successful", sa.String(20), comment="the last step that it ended well"),
        sa.Column("retry_count", sa.Integer, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("space_needed", sa.BigInteger, nullable=False, comment="bytes; 0: not known"),
        sa.Column("profile", sa.String(255), nullable=False),
        sa.Column("identifiers", DOCUMENT, nullable=False, comment="JSON"),
        sa.Column("configuration", DOCUMENT, nullable=False, comment="JSON"),
        sa.Column("message", sa.String(1000), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False, comment="micro-seconds since 1970"),
        *taking(),
        sa.CheckConstraint(JOB_STATES, name="hg_ingest_job_state"),
        sa.CheckConstraint("priority between 0 and 99", name="hg_ingest_job_priority"),
        sa.CheckConstraint("space_needed >= 0 and retry_count >= 0", name="hg_ingest_job_numbers"),
        sa.CheckConstraint(TAKEN, name="hg_ingest_job_taken"),
        **MYSQL,
    )
    op.create_index("hg_ingest_job_next", "hg_ingest_job", ["state", "priority", "id"])
    op.create_index("hg_ingest_job_batch", "hg_ingest_job", ["batch_id", "position"], unique=True)


def make_hold() -> None:
    op.create_table(
        "hg_hold",
        sa.Column("profile", sa.String(255), primary_key=True, comment="the collection, or * for the whole queue"),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        **MYSQL,
    )


def make_history() -> None:
    op.create_table(
        "hg_queue_history",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("batch_id", sa.BigInteger, comment="null: it happened to a hold"),
        sa.Column("job_id", sa.BigInteger, comment="null: it happened to a batch or a hold"),
        sa.Column(
            "profile", sa.String(255), nullable=False, comment="of the hold; empty: it happened to a batch or job"
        ),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state_before", sa.String(20), nullable=False),
        sa.Column("state_after", sa.String(20), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("spent", sa.BigInteger, comment="micro-seconds in the state before"),
        sa.CheckConstraint(EVENTS, name="hg_queue_history_event"),
        **MYSQL,
    )
    op.create_index("hg_queue_history_batch", "hg_queue_history", ["batch_id", "id"])
    op.create_index("hg_queue_history_job", "hg_queue_history", ["job_id", "id"])

"""The queue's tables: batches, ingest jobs and holds."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, Table

from headgate.core.queue.model import HIGHEST_NUMBER
from headgate.core.tables.machine import Also, Machine
from headgate.core.tables.states import BATCH, INGEST_JOB
from headgate.stores.sql.database.columns import MYSQL, ON_LEASE_CLOCK, Document, metadata, one_of, principal, text


def kept_states(machine: Machine) -> tuple[str, ...]:
    """The states that a row can have: those that some transition leads to without removing it."""
    return tuple(dict.fromkeys(row.target for row in machine.rows if Also.DROP_ALL not in row.also))


#: A taken item has a lease length, and an end of the lease.
TAKEN = "(lease is null) = (lease_until is null)"

# The last number issued to a batch, and to an ingest job: numbers are never reused.
counter = Table(
    "hg_counter",
    metadata,
    Column("name", text(20), primary_key=True),
    Column("value", BigInteger, nullable=False),
    **MYSQL,
)

batch = Table(
    "hg_batch",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", text(20), nullable=False),
    Column("profile", text(255), nullable=False),
    Column("submitter", text(255), nullable=False),
    Column("payload_url", text(2048), nullable=False),
    Column("type", text(40), nullable=False),
    Column("mode", text(10), nullable=False),
    Column("metadata", Document, nullable=False, comment="JSON"),
    Column("submit_id", text(200), comment="of the request to submit; a repeat gives the same batch"),
    Column("message", text(1000), nullable=False),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    # Counts of its jobs, updated in the write that moves them.
    Column("processing", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("completed", Integer, nullable=False),
    Column("made", Integer, nullable=False, comment="jobs that were ever made of its payload"),
    Column("report", Document, comment="JSON; null: never reported"),
    Column("worker", text(255), nullable=False),
    Column("request_id", text(200), nullable=False, comment="of the newest taking"),
    Column("token", BigInteger, nullable=False, comment="of the newest taking"),
    Column("lease", BigInteger, comment="microseconds; null: nobody has taken it"),
    Column("lease_until", BigInteger, comment="on the lease clock", info=ON_LEASE_CLOCK),
    principal("the owner of the newest taking"),
    Column("crashes", Integer, nullable=False, server_default="0", comment="workers that died in this state"),
    Column("former", text(20), nullable=False, server_default="", comment="where they died, of what is held for that"),
    CheckConstraint(one_of("state", kept_states(BATCH)), name="hg_batch_state"),
    CheckConstraint("processing >= 0 and failed >= 0 and completed >= 0", name="hg_batch_counts"),
    CheckConstraint("made >= processing + failed + completed", name="hg_batch_made"),
    CheckConstraint(TAKEN, name="hg_batch_taken"),
    Index("hg_batch_next", "state", "id"),
    Index("hg_batch_submit_id", "submit_id", unique=True),
    **MYSQL,
)

ingest_job = Table(
    "hg_ingest_job",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("batch_id", BigInteger, nullable=False),
    Column("position", Integer, nullable=False, comment="its place in the batch's payload"),
    Column("state", text(20), nullable=False),
    Column("last_successful", text(20), comment="the last step that it ended well"),
    Column("retry_count", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("space_needed", BigInteger, nullable=False, comment="bytes; 0: not known"),
    Column("profile", text(255), nullable=False),
    Column("identifiers", Document, nullable=False, comment="JSON"),
    Column("configuration", Document, nullable=False, comment="JSON"),
    Column("message", text(1000), nullable=False),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("worker", text(255), nullable=False),
    Column("request_id", text(200), nullable=False, comment="of the newest taking"),
    Column("token", BigInteger, nullable=False, comment="of the newest taking"),
    Column("lease", BigInteger, comment="microseconds; null: nobody has taken it"),
    Column("lease_until", BigInteger, comment="on the lease clock", info=ON_LEASE_CLOCK),
    principal("the owner of the newest taking"),
    Column("crashes", Integer, nullable=False, server_default="0", comment="workers that died in this state"),
    Column("former", text(20), nullable=False, server_default="", comment="where they died, of what is held for that"),
    CheckConstraint(one_of("state", kept_states(INGEST_JOB)), name="hg_ingest_job_state"),
    CheckConstraint(f"priority between 0 and {HIGHEST_NUMBER}", name="hg_ingest_job_priority"),
    CheckConstraint("space_needed >= 0 and retry_count >= 0", name="hg_ingest_job_numbers"),
    CheckConstraint(TAKEN, name="hg_ingest_job_taken"),
    # The order in which items are taken. Taking changes no index: taken items are skipped, and they are few.
    Index("hg_ingest_job_next", "state", "priority", "id"),
    # No job of a payload is created twice.
    Index("hg_ingest_job_batch", "batch_id", "position", unique=True),
    **MYSQL,
)

hold = Table(
    "hg_hold",
    metadata,
    Column("profile", text(255), primary_key=True, comment="the collection, or * for the whole queue"),
    Column("reason", text(1000), nullable=False),
    Column("who", text(255), nullable=False),
    Column("since", BigInteger, nullable=False),
    **MYSQL,
)

daemon = Table(
    "hg_daemon",
    metadata,
    Column("id", text(255), primary_key=True),
    Column("worker", text(255), nullable=False),
    Column("steps", text(1000), nullable=False, comment="names of steps, separated by spaces"),
    Column("since", BigInteger, nullable=False),
    Column("lease", BigInteger, nullable=False, comment="microseconds"),
    Column("lease_until", BigInteger, nullable=False, comment="on the lease clock", info=ON_LEASE_CLOCK),
    **MYSQL,
)

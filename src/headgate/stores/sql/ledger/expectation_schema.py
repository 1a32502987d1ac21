"""The tables of expectations: what was judged so far, what is late, and which process judges."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table

from headgate.stores.sql.database.columns import MYSQL, ON_LEASE_CLOCK, Number, metadata, text

# How far the expected data ids of a dataset were judged.
expectation = Table(
    "hg_expectation",
    metadata,
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("defined", BigInteger, nullable=False, comment="microseconds since 1970; which definition this is"),
    Column("position", BigInteger, comment="of the last data id that was judged; null: none was"),
    Column("due", BigInteger, comment="when there is something to judge; null: never again"),
    Index("hg_expectation_due", "due"),
    **MYSQL,
)

# Chunks that were not READY in time, and still are not.
late = Table(
    "hg_late",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("dataset_id", Integer, nullable=False),
    Column("dataid", text(255), nullable=False),
    Column("defined", BigInteger, nullable=False, comment="by which definition it is expected"),
    Column("job_id", Integer, nullable=False, comment="the job that makes it, by which its incident is known; 0: none"),
    Column("expected", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("due", BigInteger, nullable=False, comment="since when it is late"),
    Index("hg_late_dataid", "dataset_id", "dataid", unique=True),
    Index("hg_late_due", "dataset_id", "due"),
    sqlite_autoincrement=True,
    **MYSQL,
)

# Work that one process does for all: which process has the turn.
turn = Table(
    "hg_turn",
    metadata,
    Column("name", text(64), primary_key=True, comment="of the work"),
    Column("worker", text(255), nullable=False, comment="who does it, or did last"),
    Column("token", BigInteger, nullable=False, comment="of the newest turn; only grows"),
    Column("lease_until", BigInteger, nullable=False, comment="on the lease clock", info=ON_LEASE_CLOCK),
    **MYSQL,
)

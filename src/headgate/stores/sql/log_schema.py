"""The logs: one table for chunks and ingest jobs, one row for each attempt and stream."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Integer, LargeBinary, Table
from sqlalchemy.dialects import mysql

from headgate.core.logs import LogStream
from headgate.stores.sql.database.columns import MYSQL, metadata, one_of, text

log = Table(
    "hg_log",
    metadata,
    Column("job_id", Integer, primary_key=True, autoincrement=False, comment="the ledger's job; 0: an ingest job's"),
    Column("subject", text(255), primary_key=True, comment="a data id, or the id of an ingest job"),
    Column("token", BigInteger, primary_key=True, autoincrement=False, comment="of the claim that wrote it"),
    Column("stream", text(6), primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("step", text(40), nullable=False, comment="the state of the ingest job"),
    Column("size", BigInteger, nullable=False, comment="bytes that were written in all"),
    Column("cut", Boolean(create_constraint=False), nullable=False, comment="something before it was left out"),
    Column("ended", Boolean(create_constraint=False), nullable=False),
    Column("at", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column(
        "content", LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb"), nullable=False,
        comment="text, compressed with zlib",
    ),
    CheckConstraint(one_of("stream", tuple(LogStream)), name="hg_log_stream"),
    # The oldest go first.
    Index("hg_log_at", "at"),
    **MYSQL,
)  # fmt: skip

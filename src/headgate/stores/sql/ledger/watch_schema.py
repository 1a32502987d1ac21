"""The tables of watchers."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table

from headgate.stores.sql.database.columns import MYSQL, ON_LEASE_CLOCK, Key, metadata, text

# Which watcher publishes a dataset's files, and its progress. Only the watcher knows what is watched, and how.
watcher = Table(
    "hg_watcher",
    metadata,
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("source", text(2048), nullable=False, comment="the folder or prefix, for people"),
    Column("pattern", text(1024), nullable=False, comment="of its files, for people"),
    Column("worker", text(255), nullable=False, comment="who watches, or did last; empty: it was forgotten"),
    Column("token", BigInteger, nullable=False, comment="of the newest turn; only grows"),
    Column("lease", BigInteger, nullable=False, comment="microseconds"),
    Column("lease_until", BigInteger, nullable=False, comment="on the lease clock", info=ON_LEASE_CLOCK),
    Column("every", BigInteger, nullable=False, comment="microseconds between two looks"),
    Column("quiet_after", BigInteger, comment="microseconds without a new file; null: any time"),
    Column("since", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("looked", BigInteger, comment="when it last looked"),
    Column("arrived", BigInteger, comment="when a new file last counted"),
    Column("last_dataid", text(255), nullable=False, server_default="", comment="of the file that counted last"),
    Column("files", BigInteger, nullable=False, comment="that were counted"),
    Column("changed", BigInteger, nullable=False, comment="how often one had other content"),
    Column("waiting", Integer, nullable=False, comment="files that do not count yet"),
    Column("problem", text(1000), nullable=False, comment="what keeps it from its work; empty: nothing"),
    **MYSQL,
)

# Counted files, as they were then: each is published once, and changed content is noticed.
watched_file = Table(
    "hg_watched_file",
    metadata,
    Column("dataset_id", Integer, primary_key=True, autoincrement=False),
    Column("nkey", Key, primary_key=True, comment="sha-256 of its name"),
    Column("name", text(1024), nullable=False, comment="its path below the folder or prefix"),
    Column("dataid", text(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("tag", text(255), nullable=False, comment="the ETag; empty: a folder has none"),
    Column("since", BigInteger, nullable=False, comment="when it was counted, or its change was"),
    Column("changes", Integer, nullable=False, comment="how often it had other content"),
    Index("hg_watched_file_dataid", "dataset_id", "dataid"),
    **MYSQL,
)

"""Run by alembic; the connection is passed to it."""

from __future__ import annotations

from alembic import context

from headgate.stores.sql.migrations.upgrade import VERSION_TABLE
from headgate.stores.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()

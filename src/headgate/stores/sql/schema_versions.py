"""Versions of the schema: those with a migration, and the one of a database."""

from __future__ import annotations

from pathlib import Path

from headgate.core.errors import SchemaMismatch
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.facts import READ_VERSION

#: The folder of the migrations: one file for each version of the schema.
MIGRATIONS = Path(__file__).parent / "migrations"


def check_version(database: Database) -> None:
    """Refuse a schema of another version, with advice."""
    found = version_of(database)
    known = versions()
    if found == known[-1]:
        return
    if found in known:
        raise SchemaMismatch(
            f"{database.name} has schema {found}; this Headgate needs {known[-1]}. Stop all processes that use it, "
            f"then run: headgate migrate --url {database.name}"
        )
    raise SchemaMismatch(
        f"{database.name} has schema {found} of a newer Headgate; this one supports up to {known[-1]}. Upgrade Headgate"
    )


def version_of(database: Database) -> str:
    """The schema version recorded in the database."""
    rows = database.single(READ_VERSION)
    return str(rows[0][0]) if rows else "none"


def versions() -> list[str]:
    """Every schema version with a migration, oldest first."""
    return [name.split("_")[3] for name in sorted(path.name for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))]

"""Bring a store to this version's form, whichever kind it is."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.values.redaction import mask
from headgate.store_opening import SQL_KINDS, kind_of, open_store
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions


@dataclass(frozen=True, slots=True)
class Migration:
    """The changes that a migration made, or would make."""

    #: For people.
    lines: list[str]
    #: False when there was nothing to do, or on a dry run.
    changed: bool = False


def migrate(
    url: str, *, beside: bool = False, dry_run: bool = False, options: StoreOptions = DEFAULT_OPTIONS
) -> Migration:
    """Bring a store to this version's form, and take over the locks of an Ensembl locker.

    `beside`: go into a database that has other tables too. `dry_run`: report the changes without making them.
    """
    if kind_of(url) in SQL_KINDS:
        from headgate.stores.sql.migrations.migrate import migrate_database

        changed, lines = migrate_database(url, beside=beside, dry_run=dry_run, options=options)
        return Migration(lines, changed)
    if not dry_run:  # Opening makes the root, if it is not there.
        open_store(url, options=options).close()
    return Migration([f"{mask(url)}: nothing to migrate on ZooKeeper; opening it creates what it needs"])

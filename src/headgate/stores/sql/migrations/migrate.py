"""The steps of `headgate migrate` on a database: inspect it, report, and (unless it is a dry run) change it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial

from headgate.core.ensembl import Takeover
from headgate.core.values.plurals import plural
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions, no_store
from headgate.stores.sql import opening, schema_versions
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.migrations import ensembl

STAYS = (
    "Ensembl's tables are unchanged, and Headgate no longer reads them: programs that still use them and programs "
    "that use Headgate do not see each other's locks. Change every program to headgate.ensembl"
)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The content of a database."""

    #: All tables.
    tables: frozenset[str]
    #: The schema's version; "none": not created, or not completely.
    version: str
    #: True when creating the store was interrupted.
    half_made: bool
    #: True when Ensembl's tables exist.
    has_ensembl: bool
    #: The record that those have been imported.
    mark: ensembl.TakeoverMark | None

    @property
    def store_is_there(self) -> bool:
        """True when there is a store to open, of any version."""
        return self.version != "none" and not self.half_made

    @property
    def to_take_over(self) -> bool:
        """True when Ensembl's locks wait to be taken over."""
        return self.has_ensembl and self.mark is None


def migrate_database(
    url: str, *, beside: bool, dry_run: bool, options: StoreOptions = DEFAULT_OPTIONS
) -> tuple[bool, list[str]]:
    """Bring a database to this version's schema and import Ensembl's locks; returns the changes, if any."""
    dialect = dialect_for(url)
    dialect.read_only = dry_run
    with closing(Database(dialect, options)) as database:
        found = look(database)
        if not found.tables and not options.create:
            raise no_store(database.name)
        refuse(database, found, beside=beside)
        schema = schema_line(found, "would " if dry_run else "")
        lines = [schema] if schema else []
        if found.to_take_over:
            lines += take_over(database, found, dry_run=dry_run)
        elif schema and not dry_run:
            make_schema(database)
        if lines:
            return not dry_run, [f"{database.name}:", *lines]
        return False, nothing_to_do(database, found)


def look(database: Database) -> Inspection:
    """What there is."""
    tables = opening.table_names(database)
    ours = "hg_schema" in tables
    version = schema_versions.version_of(database) if ours else "none"
    half_made = ours and opening.half_made(database)
    mark = database.read(ensembl.read_mark) if ours and not half_made else None
    return Inspection(frozenset(tables), version, half_made, opening.holds_ensembl(database, tables), mark)


def refuse(database: Database, found: Inspection, *, beside: bool) -> None:
    """A schema of a newer Headgate, or tables of another program without permission to use the same database."""
    if found.version not in ("none", *schema_versions.versions()):
        schema_versions.check_version(database)
    foreign = found.tables and "hg_schema" not in found.tables
    if foreign and not found.has_ensembl and not beside:
        raise opening.foreign(database, set(found.tables))


def schema_line(found: Inspection, would: str) -> str:
    """The change of the schema; empty: none."""
    newest = schema_versions.versions()[-1]
    make, finish, bring = ("make", "finish", "bring") if would else ("made", "finished", "brought")
    if found.half_made:
        return f"{would}{finish} schema {newest}, whose creation was interrupted"
    if found.version == "none":
        others = ", ".join(sorted(found.tables)[:5])
        where = f"next to the existing tables ({others})" if others else "in an empty database"
        return f"{would}{make} schema {newest} {where}"
    return "" if found.version == newest else f"{would}{bring} the schema from {found.version} to {newest}"


def make_schema(database: Database) -> None:
    """Run the missing migrations."""
    from headgate.stores.sql.migrations.upgrade import upgrade

    upgrade(database)


def take_over(database: Database, found: Inspection, *, dry_run: bool) -> list[str]:
    """Create or complete the schema and import Ensembl's locks, together."""
    if dry_run:
        look_at = partial(ensembl.preview, store_is_there=found.store_is_there)
        return told(database.read(look_at), "would import")
    from headgate.stores.sql.migrations.upgrade import upgrade

    plans: list[Takeover | None] = []

    def afterwards(tx: Transaction) -> None:
        plans.append(ensembl.take_over(tx))

    upgrade(database, afterwards)
    plan = plans[-1]
    return told(plan, "imported") if plan else ["another process has just imported Ensembl's locks"]


def told(plan: Takeover, verb: str) -> list[str]:
    """A takeover, as text for display."""
    counts = f"clients: {len(plan.clients)}, resources: {len(plan.resources)}, locks: {len(plan.locks)}"
    return [f"{verb} from Ensembl's tables: {counts}", *plan.lines, STAYS]


def nothing_to_do(database: Database, found: Inspection) -> list[str]:
    """The message when nothing has to be done."""
    lines = [f"{database.name} has schema {found.version}: nothing to do"]
    if found.has_ensembl and found.mark:
        lines.append(f"Ensembl's locks were imported {found.mark.at}")
        mark = found.mark
        later = database.read(lambda tx: ensembl.count_later(tx, mark))
        if later:
            lines.append(
                f"Ensembl's table has {plural(later, 'newer lock')}, which Headgate does not see: a program still "
                "uses that table"
            )
    return lines

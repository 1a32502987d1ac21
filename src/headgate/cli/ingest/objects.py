"""Commands for profiles and stored objects: list, show, export, verify, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.ingest.items import is_ark
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import FAILED
from headgate.cli.terminal.options import after_option, common, limit_option, tabular
from headgate.cli.terminal.output import ago, page, pairs, table
from headgate.cli.terminal.progress import ProgressEstimate, StatusLine
from headgate.cli.terminal.values import DURATION
from headgate.core.errors import Invalid, MissingExtra, Refused, ServiceUnavailable
from headgate.core.values.plurals import plural
from headgate.core.values.redaction import redact_all
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.inventory import ObjectVersion, StoredObject
    from headgate.ingest.objects.importing import ImportedObject
    from headgate.ingest.profiles.profile import Profile
    from headgate.ingest.storage.port import Problem


@click.command("profiles")
@tabular
def profiles(console: Console) -> None:
    """Check the ingest profiles and list them. Every mistake in every file is reported."""
    from headgate.store_opening import read_profiles

    folder = console.settings["profiles_folder"]
    found = read_profiles(console.settings)
    console.answer_list(
        [redact_all(profile.snapshot()) for profile in found],
        lambda: _profile_table(found) if found else f"no profiles in {folder}; write a TOML file there",
    )


@click.command("objects")
@click.option("--owner", help="Only objects of this owner.")
@click.option("--collection", help="Only objects of this collection.")
@click.option("--local-id", "local", help="Only the object with this local id.")
@after_option
@limit_option("objects")
@tabular
def objects(console: Console, /, limit: int, **which: Any) -> None:
    """List stored objects by ARK."""
    found = console.ask(lambda gate: gate.inventory.objects(limit=limit + 1, **which))
    shown, more = page(found, limit, "ark")
    console.answer_list(plain(shown), lambda: _object_table(shown), more=more)


@click.command("object")
@click.argument("ark")
@common
def show_object(console: Console, ark: str) -> None:
    """Show a stored object and its versions."""
    from headgate.ingest.formats.ark import parse_object

    name = str(parse_object(ark))
    with console.gate() as gate:
        versions = gate.inventory.versions(name)
        (found,) = gate.inventory.objects(ark=name)
    console.answer({**plain(found), "versions": plain(versions)}, lambda: _object_text(found, versions))


@click.command("export", short_help="Copy the files of an object into a new folder.")
@click.argument("ark")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--version", type=click.IntRange(min=1), metavar="N", help="Version (default: the newest).")
@click.option("--wait", type=DURATION, default=0, help="Longest time to wait for writers (default: 0s).")
@common
def export(console: Console, /, ark: str, folder: Path, **how: Any) -> None:
    """Copy the files of an object into a new FOLDER: all of them, verified, or none.

    The files are read from the storage, which must be reachable from this machine even if you use a service.
    """
    from headgate.ingest.objects.reading import export_object

    with console.gate() as gate:
        version = export_object(gate.ingest, console.client(), ark, folder, **how)
    document = {"ark": version.object_id, "version": version.number, "files": len(version.files), "bytes": version.size}
    console.answer(
        document,
        lambda: (
            f"{version.object_id} v{version.number}: {plural(len(version.files), 'file')}, {version.size:,} bytes in "
            f"{folder}"
        ),
    )


@click.command("verify", short_help="Verify every stored byte of some objects, or of all.")
@click.argument("arks", metavar="[ARK]...", nargs=-1)
@click.option("--wait", type=DURATION, default=60, help="Longest time to wait for writers of an object (default: 60s).")
@click.option("--warnings", is_flag=True, help="Also show what OCFL advises against. It does not change the exit code.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Verify the OCFL objects of any tool in a folder of this machine, instead of stored ones. Needs no store.",
)
@common
def verify(console: Console, arks: Sequence[str], wait: float, folder: Path | None, *, warnings: bool) -> int:
    """Read every stored byte of some objects, or of all; check every rule of OCFL 1.0 and 1.1, and compare with the
    inventory. Exit code 1: problems.

    Each problem is shown with the code of its rule. A service verifies its own storage; it alone searches for objects
    that are missing from the inventory.
    """
    if folder is not None:
        if arks:
            raise click.UsageError("name objects or a folder, not both")
        return _verify_folder(console, folder, warnings=warnings)
    problems: list[Problem] = []
    with console.gate() as gate:
        names = [ark_of(each) for each in arks] or [each.ark for each in gate.inventory.objects()]
        meter = Meter(console, len(names))
        for name in names:
            look = partial(gate.verify, console.client(), name, wait=wait, progress=meter.read, warnings=warnings)
            problems += look() if arks else _told(name, look)
            meter.next()
        problems += [] if arks else _told("", gate.unrecorded)
    return _answer_verified(console, len(names), meter, problems)


def ark_of(name: str) -> str:
    """An ARK, or the corresponding data id in the audit job."""
    from headgate.ingest.formats.ark import of_lock_name

    return str(of_lock_name(name)) if name.startswith("ark_") else name


def _verify_folder(console: Console, folder: Path, *, warnings: bool) -> int:
    from headgate.ingest.objects.foreign import object_roots, verify_folder

    roots = object_roots(folder)
    meter = Meter(console, len(roots))
    problems: list[Problem] = []
    for root in roots:
        problems += verify_folder(root, progress=meter.read, warnings=warnings)
        meter.next()
    return _answer_verified(console, len(roots), meter, problems)


def _answer_verified(console: Console, objects: int, meter: Meter, found: Sequence[Problem]) -> int:
    meter.end()
    problems = [each for each in found if not each.is_warning]
    warnings = [each for each in found if each.is_warning]
    document = {"objects": objects, "bytes": meter.bytes, "problems": plain(problems), "warnings": plain(warnings)}
    console.answer(document, lambda: _verified(objects, meter.bytes, problems, warnings))
    return FAILED if problems else 0


@click.command("import", short_help="Import OCFL objects that other tools made.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--profile", required=True, help="Profile that gives owner, collection, storage and minter.")
@click.option(
    "--arks",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV file of two columns, OCFL id and ARK: names for objects whose id is not an ARK.",
)
@click.option("--dry-run", is_flag=True, help="Only check and name the objects.")
@click.option("--wait", type=DURATION, default=60, help="Longest time to wait for an object (default: 60s).")
@common
def import_objects(console: Console, /, folder: Path, profile: str, arks: Path | None, **how: Any) -> int:
    """Import the OCFL object in FOLDER, or all objects if FOLDER is a storage root, with all their versions.

    Every object is verified first; one that breaks a rule of OCFL is refused, with the code of the rule. An id that is
    an ARK is kept; any other becomes the local id of an ARK. An interrupted import can be repeated: nothing is stored
    twice. Works on the store itself, not through a service. Exit code 1: some objects were refused.
    """
    from headgate.ingest.objects.importing import read_arks

    names = read_arks(arks) if arks else {}
    meter = Meter(console, 0)
    found: list[ImportedObject] = []
    with console.gate() as gate:
        for each in gate.import_objects(console.client(), folder, profile, arks=names, progress=meter.read, **how):
            found.append(each)
            meter.next()
    meter.end()
    dry_run = bool(how["dry_run"])
    console.answer({"objects": plain(found), "dry_run": dry_run}, lambda: _imported(found, dry_run=dry_run))
    return FAILED if any(each.problems for each in found) else 0


def delete_objects(console: Console, names: Sequence[str], *, reason: str, dry_run: bool, yes: bool) -> int:
    """Delete stored objects. On a terminal, show them and ask first."""
    from headgate.ingest.objects.deleting import delete_object, find_object

    if not all(is_ark(each) for each in names):
        raise click.UsageError("name objects, or items of the queue, not both")
    with console.gate() as gate:
        found = [find_object(gate.ingest, each) for each in dict.fromkeys(names)]
        if dry_run:
            console.answer({"dry_run": True, "objects": plain(found)}, lambda: _object_table(found))
            return 0
        preview = f"{_object_table(found)}\nDeleted objects cannot be restored, in any version."
        if not yes and console.can_ask and not console.agrees(f"delete {len(found)}?", preview):
            return 0
        done = [delete_object(gate.ingest, console.client(), each.ark, reason=reason) for each in found]
    console.answer({"deleted": plain(done)}, lambda: "\n".join(f"{each.ark}  deleted" for each in done))
    return 0


def _told(name: str, look: Callable[[], list[Problem]]) -> list[Problem]:
    """Report an object that cannot be verified as a problem, and continue with the rest."""
    from headgate.ingest.storage.port import Problem

    try:
        return look()
    except MissingExtra:  # Needed for all of them.
        raise
    except (Invalid, Refused, ServiceUnavailable) as error:
        return [Problem(name, "", f"it cannot be verified: {error}")]


class Meter:
    """Progress of a verification."""

    def __init__(self, console: Console, objects: int) -> None:
        self._line, self._pace = StatusLine(console), ProgressEstimate(objects, "objects")
        self._done = 0
        self.bytes = 0

    def read(self, size: int) -> None:
        self.bytes += size
        self._line.write(lambda: f"{self._pace.line(self._done)}, {self.bytes:,} bytes")

    def next(self) -> None:
        self._done += 1
        self.read(0)

    def end(self) -> None:
        self._line.clear()


def _profile_table(found: Sequence[Profile]) -> str:
    rows = [
        (each.name, each.collection, each.owner, each.storage.url or each.storage.kind, each.minter.kind, each.hold)
        for each in found
    ]
    return table(("PROFILE", "COLLECTION", "OWNER", "STORAGE", "MINTER", "HELD"), rows)


def _object_table(found: Sequence[StoredObject]) -> str:
    if not found:
        return "no matching objects"
    rows = [
        (
            each.ark,
            f"v{each.version}",
            ", ".join(each.local),
            each.what,
            ", ".join(each.collections),
            ago(each.modified),
        )
        for each in found
    ]
    return table(("ARK", "VERSION", "LOCAL IDS", "TITLE", "COLLECTIONS", "CHANGED"), rows)


def _object_text(found: StoredObject, versions: Sequence[ObjectVersion]) -> str:
    told = {
        "object": found.ark, "owner": found.owner, "collections": ", ".join(found.collections),
        "local ids": ", ".join(found.local), "who": found.who, "what": found.what, "when": found.when,
    }  # fmt: skip
    rows = [
        (f"v{each.number}", ago(each.created), f"{each.files:,}", f"{each.size:,}", each.job, each.profile)
        for each in versions
    ]
    return pairs(told) + "\n" + table(("VERSION", "STORED", "FILES", "BYTES", "JOB", "PROFILE"), rows)


def problem_line(problem: Problem) -> str:
    code = f"{problem.code} " if problem.code else ""
    return f"{problem.object_id} {problem.path}: {code}{problem.why}"


def _verified(objects: int, size: int, problems: Sequence[Problem], warnings: Sequence[Problem]) -> str:
    lines = [problem_line(each) for each in (*warnings, *problems)]
    if not problems:
        return "\n".join([*lines, f"{plural(objects, 'object')}, {size:,} bytes: no problems found"])
    return "\n".join([*lines, f"{plural(len(problems), 'problem')} in {plural(objects, 'object')}, {size:,} bytes"])


def _imported(found: Sequence[ImportedObject], *, dry_run: bool) -> str:
    lines = []
    for each in found:
        if each.problems:
            lines += [problem_line(problem) for problem in each.problems]
            lines.append(f"{each.id}: refused")
            continue
        done = f"{plural(each.stored, 'version')} stored" if each.stored else "already imported"
        lines.append(f"{each.id}: {each.ark}, {plural(each.versions, 'version')}" + ("" if dry_run else f", {done}"))
    refused = sum(bool(each.problems) for each in found)
    verb = "can be imported" if dry_run else "imported"
    lines.append(f"{plural(len(found) - refused, 'object')} {verb}" + (f", {refused:,} refused" if refused else ""))
    return "\n".join(lines)


COMMANDS = (profiles, objects, show_object, export, verify, import_objects)

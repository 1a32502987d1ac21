"""Commands for profiles, and for what is stored: list, look, export, verify."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.failures import FAILED
from headgate.cli.items import is_ark
from headgate.cli.output import ago, pairs, say, table
from headgate.cli.progress import Line, Pace
from headgate.cli.session import DURATION, Session, common, tabular
from headgate.cli.values import after_option, limit_option
from headgate.core.errors import Invalid, MissingExtra, Refused, ServiceUnavailable
from headgate.core.plurals import plural
from headgate.core.redaction import redact_all
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.core.inventory import ObjectVersion, StoredObject
    from headgate.ingest.profile import Profile
    from headgate.ingest.storage import Problem


@click.command("profiles")
@tabular
@click.pass_obj
def profiles(session: Session) -> None:
    """Check the ingest profiles and list them. Every mistake in every file is reported."""
    from headgate.store_opening import read_profiles

    folder = session.settings["profiles_folder"]
    found = read_profiles(session.settings)
    session.answer_list(
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
@click.pass_obj
def objects(session: Session, /, limit: int, **which: Any) -> None:
    """List stored objects by ARK."""
    with session.gate() as gate:
        found = gate.inventory.objects(limit=limit + 1, **which)
    shown = found[:limit]
    following = shown[-1].ark if len(found) > limit else None
    session.answer_list(plain(shown), lambda: _object_table(shown), more=following)


@click.command("object")
@click.argument("ark")
@common
@click.pass_obj
def show_object(session: Session, ark: str) -> None:
    """Show a stored object and its versions."""
    from headgate.ingest.ark import parse_object

    name = str(parse_object(ark))
    with session.gate() as gate:
        versions = gate.inventory.versions(name)
        (found,) = gate.inventory.objects(ark=name)
    session.answer({**plain(found), "versions": plain(versions)}, lambda: _object_text(found, versions))


@click.command("export", short_help="Copy the files of an object into a new folder.")
@click.argument("ark")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--version", type=click.IntRange(min=1), metavar="N", help="Version (default: the newest).")
@click.option("--wait", type=DURATION, default=0, help="Longest time to wait for writers (default: 0s).")
@common
@click.pass_obj
def export(session: Session, /, ark: str, folder: Path, **how: Any) -> None:
    """Copy the files of an object into a new FOLDER: all of them, verified, or none.

    The files are read from the storage, which must be reachable from this machine even if you use a service.
    """
    from headgate.ingest.reading import export_object

    with session.gate() as gate:
        version = export_object(gate.ingest, session.client(), ark, folder, **how)
    document = {"ark": version.object_id, "version": version.number, "files": len(version.files), "bytes": version.size}
    session.answer(
        document,
        lambda: (
            f"{version.object_id} v{version.number}: {plural(len(version.files), 'file')}, {version.size:,} bytes in "
            f"{folder}"
        ),
    )


@click.command("verify", short_help="Verify every stored byte of some objects, or of all.")
@click.argument("arks", metavar="[ARK]...", nargs=-1)
@click.option("--wait", type=DURATION, default=60, help="Longest time to wait for writers of an object (default: 60s).")
@common
@click.pass_obj
def verify(session: Session, arks: Sequence[str], wait: float) -> int:
    """Read every stored byte of some objects, or of all, and compare it with the inventory. Exit code 1: problems.

    A service verifies its own storage; it alone searches for objects that are missing from the inventory.
    """
    problems: list[Problem] = []
    with session.gate() as gate:
        names = list(arks) or [each.ark for each in gate.inventory.objects()]
        meter = _Meter(session, len(names))
        for name in names:
            look = partial(gate.verify, session.client(), name, wait=wait, progress=meter.read)
            problems += look() if arks else _told(name, look)
            meter.next()
        problems += [] if arks else _told("", gate.unrecorded)
    meter.end()
    document = {"objects": len(names), "bytes": meter.bytes, "problems": plain(problems)}
    session.answer(document, lambda: _verified(len(names), meter.bytes, problems))
    return FAILED if problems else 0


def delete_objects(session: Session, names: Sequence[str], *, reason: str, dry_run: bool, yes: bool) -> int:
    """Delete stored objects; on a terminal they are shown, and it is asked, before."""
    from headgate.ingest.deleting import delete_object, find_object

    if not all(is_ark(each) for each in names):
        raise click.UsageError("name objects, or items of the queue, not both")
    with session.gate() as gate:
        found = [find_object(gate.ingest, each) for each in dict.fromkeys(names)]
        if dry_run:
            session.answer({"dry_run": True, "objects": plain(found)}, lambda: _object_table(found))
            return 0
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            say(f"{_object_table(found)}\nDeleted objects cannot be restored, in any version.")
            if not click.confirm(f"delete {len(found)}?", err=True):
                session.say("nothing was changed")
                return 0
        done = [delete_object(gate.ingest, session.client(), each.ark, reason=reason) for each in found]
    session.answer({"deleted": plain(done)}, lambda: "\n".join(f"{each.ark}  deleted" for each in done))
    return 0


def _told(name: str, look: Callable[[], list[Problem]]) -> list[Problem]:
    """What cannot be looked at is a problem too, and keeps nobody from looking at the rest."""
    from headgate.ingest.storage import Problem

    try:
        return look()
    except MissingExtra:  # It is needed for all of them.
        raise
    except (Invalid, Refused, ServiceUnavailable) as error:
        return [Problem(name, "", f"it cannot be verified: {error}")]


class _Meter:
    """How far a long reading is."""

    def __init__(self, session: Session, objects: int) -> None:
        self._line, self._pace = Line(session), Pace(objects, "objects")
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


def _verified(objects: int, size: int, problems: Sequence[Problem]) -> str:
    if not problems:
        return f"{plural(objects, 'object')}, {size:,} bytes: no problems found"
    lines = [f"{each.object_id} {each.path}: {each.why}" for each in problems]
    return "\n".join([*lines, f"{plural(len(problems), 'problem')} in {plural(objects, 'object')}, {size:,} bytes"])


COMMANDS = (profiles, objects, show_object, export, verify)

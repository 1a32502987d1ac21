"""`headgate init`: create a store, and print where it is."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate import private
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.core.errors import BadValue
from headgate.core.values.redaction import mask
from headgate.settings import load, sqlite_url
from headgate.store_opening import SERVICE_KINDS, create_stores, kind_of, named_service, named_store
from headgate.store_search import DATABASE, SETTINGS_FILE, distrust

if TYPE_CHECKING:
    from headgate.settings import Settings

#: A path with this ending is a file; any other is a folder.
FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")
#: Suggestions for a new store.
NEXT = (
    ("lock run NAME -- COMMAND", "run a command while nobody else holds NAME"),
    ("define pipeline.toml", "define datasets and jobs"),
    ("up", "run the service: dashboard, HTTP API and daemons"),
)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The location of a new store."""

    url: str
    #: The folder in and below which commands find it; None: settings from elsewhere name it.
    folder: Path | None = None
    #: Lines for the settings file of that folder; empty: the store is found without them.
    lines: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path | None:
        """The file by which it is found."""
        return self.folder and self.folder / (SETTINGS_FILE if self.lines else DATABASE)


@click.command("init")
@click.argument("where", required=False, metavar="[URL|PATH]")
@common
def init(console: Console, where: str | None) -> None:
    """Create a store, and print where it is.

    Without URL or PATH this creates the store that HEADGATE_URL or a settings file names, else headgate.db in this
    folder, a SQLite store. PATH is a folder, or a file that ends in .db or .sqlite. If the store cannot be found by the
    name headgate.db, a file headgate.toml that names it is written in this folder. Commands in the folder and below it
    use the store. An existing store is left unchanged.

    \b
    Examples:
      headgate init
      headgate init /srv/orders
      headgate init postgresql://me@db1/headgate
    """
    if where and console.url and where != console.url:
        raise click.UsageError("name the store once: as URL, or with --url")
    given = where or console.url
    place = _given_place(given, console.coordination_url) if given else _found_place(console.settings)
    _check(place, given=bool(given))
    if place.folder:
        private.make_root(place.folder, None)
    settings = load({"url": place.url, "coordination_url": console.coordination_url}, folder=place.folder)
    created = create_stores(settings)
    _print(console, place, _exports(settings), created=created, written=_write_settings(place))


def prepare_store(console: Console) -> None:
    """For `up`: create the store that settings name, or headgate.db in this folder, and print that."""
    if named_service(console.settings):
        return
    if not console.settings["url"]:
        place = _found_place(console.settings)
        _check(place, given=False)
        console.settings = load(
            {"url": place.url, "coordination_url": console.coordination_url, "log_format": console.log_format}
        )
    if create_stores(console.settings):
        console.say(f"created a store: {named_store(console.settings).url}")


def _found_place(settings: Settings) -> StoreLocation:
    """The store that settings name, else the one of this folder."""
    if service := named_service(settings):
        how = named_store(settings).found_by
        raise BadValue("server", mask(service), f"is a service ({how}): its store is created where it runs")
    if not settings["url"]:
        return StoreLocation(sqlite_url(Path.cwd() / DATABASE), Path.cwd())
    found = [path.parent for path in settings.searched.files if str(path) == settings.origin("url")]
    return StoreLocation(settings["url"], found[0] if found else None)


def _given_place(given: str, coordination_url: str | None) -> StoreLocation:
    here = Path.cwd()
    beside = {"coordination_url": coordination_url} if coordination_url else {}
    name = given.removeprefix("sqlite:///")
    if "://" in name or "?" in name or name == ":memory:":
        if kind_of(given) in SERVICE_KINDS:
            raise BadValue("url", mask(given), "is a service, which has a store already; use it with HEADGATE_SERVER")
        return StoreLocation(given, here, {"url": given, **beside})
    path = here / name
    if not name.endswith(FILE_ENDINGS):
        path /= DATABASE
    if path.name == DATABASE and not beside:
        return StoreLocation(sqlite_url(path), path.parent)
    return StoreLocation(sqlite_url(path), here, {"url": sqlite_url(Path(os.path.relpath(path, here))), **beside})


def _check(place: StoreLocation, *, given: bool) -> None:
    """Refuse a folder in which commands would not find the store, or would find a different one."""
    if place.folder is None or place.file is None or not place.folder.is_dir():
        return
    why = distrust(place.file)
    if why and not given:
        raise BadValue(
            "folder", str(place.folder),
            f"is not searched for a store: {why}. Use a folder of your own, or run `headgate init {place.file}` and "
            f"set HEADGATE_URL={place.url}",
        )  # fmt: skip
    here = load(environment={}, folder=place.folder)
    if here["url"] not in ("", place.url) and Path(here.origin("url")).parent == place.folder:
        raise BadValue(
            "store", mask(place.url),
            f"cannot be the store of {place.folder}: {here.origin('url')} is there, and commands use "
            f"{mask(here['url'])}. Use another folder, or copy the store with: headgate copy",
        )  # fmt: skip


def _write_settings(place: StoreLocation) -> bool:
    """Write the settings file that names the store, if one is needed and has an effect."""
    if place.file is None or not place.lines or distrust(place.file):
        return False
    there = place.file.read_text(encoding="utf-8") if place.file.exists() else ""
    if load(environment={}, folder=place.folder).origin("url") == str(place.file):
        return False
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in place.lines.items()]
    private.write(place.file, "".join(lines) + there)
    return True


def _exports(settings: Settings) -> str:
    """The command by which other folders use the store; a password is not repeated."""
    given = {f"HEADGATE_{name.upper()}": settings[name] for name in ("url", "coordination_url") if settings[name]}
    if any(mask(value) != value for value in given.values()):
        return "set " + " and ".join(given)
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())


def _print(console: Console, place: StoreLocation, elsewhere: str, *, created: bool, written: bool) -> None:
    url = mask(place.url)
    document = {"store": url, "created": created, "settings_file": str(place.file) if written else None}
    console.answer(document, lambda: f"created a store: {url}" if created else f"the store exists already: {url}")
    if written:
        console.say(f"wrote {place.file}, which names it")
    if place.file is None:
        console.say(f"it is named by {named_store(console.settings).found_by}")
    elif why := distrust(place.file):
        console.say(f"commands do not find it automatically ({why}); {elsewhere}")
    else:
        console.say(f"commands in {place.folder} and below it use this store; elsewhere, and for cron: {elsewhere}")
    if os.environ.get("HEADGATE_URL", place.url) != place.url:
        console.say("HEADGATE_URL names another store, which commands use in place of this one: unset it")
    if created:
        width = max(len(command) for command, _what in NEXT)
        console.say("next:")
        for command, what in NEXT:
            console.say(f"  headgate {command:<{width}}  {what}")
    elif place.folder and place.folder != Path.cwd() and not place.lines:
        console.say(f"to create another one in this folder: headgate init {DATABASE}")

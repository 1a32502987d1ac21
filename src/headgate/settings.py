"""Settings: files, environment, flags, in that order; and where each came from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headgate.core.errors import BadValue
from headgate.core.known_settings import KNOWN, Known
from headgate.core.logs import MOST_KEPT
from headgate.core.values.redaction import mask
from headgate.core.values.settings import parse_count, parse_keep, parse_limit, parse_number, parse_span
from headgate.core.values.sizes import parse_size
from headgate.core.values.variables import NamePatterns, parse_patterns
from headgate.store_search import DATABASE, SETTINGS_FILE, Search, search

T = TypeVar("T")

#: The file that only root writes.
SYSTEM_FILE = Path("/etc/headgate") / SETTINGS_FILE
#: Names of sources that are not files.
FLAGS, ENVIRONMENT = "arguments", "environment"
#: The password of a URL.
_PASSWORD = re.compile(r"://[^/@:]*:([^/]+)@")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value, and where it came from."""

    known: Known  #: Its definition.
    value: str  #: Its text.
    origin: str  #: Where the text comes from.

    @property
    def shown(self) -> str:
        """The value for display, with passwords masked."""
        return mask(self.value) if not self.known.secret or not self.value else "(hidden)"


class Settings:
    """All settings of this run; `gate.settings["url"]` is the text of one.

    :param name: Name of the setting.
    """

    def __init__(
        self, found: Mapping[str, Setting], sources: Mapping[str, Mapping[str, str]], searched: Search
    ) -> None:
        """`sources`: all values of each source, by name, the weakest first, including overridden ones."""
        self._found = dict(found)
        self._sources = sources
        #: The search for a store in the working folder and above.
        self.searched = searched

    def __getitem__(self, name: str) -> str:
        return self._found[name].value

    def all(self) -> list[Setting]:
        """List settings with their origins, in the order of the documentation."""
        return [self._found[known.name] for known in KNOWN]

    def secrets(self) -> list[str]:
        """Values that must never be shown: secret settings, and passwords in the others, encoded and decoded."""
        from urllib.parse import unquote

        hidden = [each.value for each in self.all() if each.known.secret and each.value]
        found = [_PASSWORD.search(each.value) for each in self.all() if not each.known.secret]
        return [*hidden, *dict.fromkeys(text for each in found if each for text in (each[1], unquote(each[1])))]

    def is_flag(self, name: str) -> bool:
        """Whether it was given for this run alone."""
        return self._found[name].origin.startswith("--")

    def origin(self, name: str) -> str:
        """The origin of a setting's value, for display."""
        return self._found[name].origin

    def source(self, name: str) -> str:
        """The source of a setting's value: a file's path, FLAGS, ENVIRONMENT, or `default`."""
        origin = self._found[name].origin
        return FLAGS if self.is_flag(name) else ENVIRONMENT if origin == self._found[name].known.variable else origin

    def strongest(self, names: Sequence[str]) -> str:
        """The setting among these with a value from the strongest source; of two from one source, the first."""
        ranks = {source: rank for rank, source in enumerate(self._sources)}
        given = [name for name in names if self[name]]
        return max(given, key=lambda name: ranks.get(self.source(name), -1), default="")

    def said_by(self, source: str) -> Mapping[str, str]:
        """All settings of one source, including those that a stronger one overrides."""
        return self._sources.get(source, {})

    def number(self, name: str) -> float:
        """A setting that is a number from 0 on."""
        return self._read(name, parse_number)

    def seconds(self, name: str) -> float:
        """A setting that is a length of time, in seconds; at most a hundred years."""
        return self._read(name, parse_span)

    def size(self, name: str) -> int:
        """A setting that is a size, in bytes."""
        return self._read(name, parse_size)

    @property
    def log_keep(self) -> int:
        """Number of bytes kept of the end of each output; 0: nothing. BadValue for more than a request can carry."""
        size = self.size("log_keep")
        if size > MOST_KEPT:
            raise BadValue("log_keep", self["log_keep"], f"is more than 1 MiB (set in {self.origin('log_keep')})")
        return size

    def count(self, name: str) -> int:
        """A setting that is a whole number from 1 on."""
        return self._read(name, parse_count)

    def limit(self, name: str) -> int:
        """A setting that is a whole number; 0 is no limit."""
        return self._read(name, parse_limit)

    def keep(self, name: str) -> float | None:
        """A setting that is a retention time, in seconds; None: forever."""
        return self._read(name, parse_keep)

    def variables(self, name: str) -> NamePatterns:
        """A setting that lists names of variables."""
        return self._read(name, parse_patterns)

    def has(self, name: str) -> bool:
        """Whether there is such a setting."""
        return name in self._found

    def value(self, name: str) -> Any:
        """Return a setting as a number, a duration in seconds, a size in bytes or a text, depending on its kind."""
        readers: Mapping[str, Callable[[str], object]] = {
            "seconds": self.seconds, "bytes": self.size, "number": self.number, "count": self.count,
            "limit": self.limit, "keep": self.keep, "variables": self.variables,
        }  # fmt: skip
        kind = self._found[name].known.kind
        return readers[kind](name) if kind in readers else self[name]

    def check(self) -> None:
        """Raise BadValue for the first setting with an invalid value."""
        for known in KNOWN:
            self.value(known.name)
        _ = self.log_keep

    def _read(self, name: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(self[name])
        except ValueError as error:
            raise BadValue(name, self[name], f"{error} (set in {self._found[name].origin})") from None


def load(
    flags: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Defaults, then the system's and the user's file, those found in the folder or above, the environment, flags.

    `folder`: where the search begins (default: the working folder).
    """
    environment = os.environ if environment is None else environment
    searched = search(folder, environment.get("HOME", ""))
    sources: dict[str, Mapping[str, str]] = {
        str(path): _read_file(path) for path in reversed(config_files(environment, searched))
    }
    sources[ENVIRONMENT] = {
        known.name: environment[known.variable] for known in KNOWN if environment.get(known.variable)
    }
    sources[FLAGS] = {name: given for name, given in (flags or {}).items() if given is not None}
    found = {known.name: Setting(known, _default(known, searched), "default") for known in KNOWN}
    for source, said in sources.items():
        for name, value in said.items():
            known = found[name].known
            origins = {ENVIRONMENT: known.variable, FLAGS: "--" + name.replace("_", "-")}
            found[name] = Setting(known, value, origins.get(source, source))
    return Settings(found, sources, searched)


def config_files(environment: Mapping[str, str], searched: Search) -> list[Path]:
    """The files with settings, the strongest first."""
    user = Path(environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/")) / ".config")
    return [*searched.files, user / "headgate" / SETTINGS_FILE, SYSTEM_FILE]


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite store in that file."""
    text = str(path)
    if "%" in text or "?" in text:
        from urllib.parse import quote

        text = quote(text)
    return f"sqlite:///{text}"


def is_relative(url: str) -> bool:
    """Whether a store's URL names a SQLite file by a path that is relative to some folder."""
    kind, _, rest = url.partition("://")
    return kind == "sqlite" and rest.startswith("/") and not rest.startswith(("//", "/:memory:"))


def _default(known: Known, searched: Search) -> str:
    """A setting's default. The folders of a found store are beside it, wherever commands run."""
    beside = known.kind == "path" and known.default and searched.files
    return str(searched.files[0].parent / known.default) if beside else known.default


def _absolute(known: Known, value: str, folder: Path) -> str:
    """A value of a file in that folder: relative paths are relative to the file."""
    if known.kind == "path" and value:
        return str(folder / value)
    if known.kind == "store" and is_relative(value):
        return f"sqlite:///{sqlite_url(folder).removeprefix('sqlite:///')}/{value.removeprefix('sqlite:///')}"
    return value


def _read_file(path: Path) -> dict[str, str]:
    if path.name == DATABASE:
        return {"url": sqlite_url(path)}
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    # Imported only when there is a file: the command starts faster without it.
    from headgate.core.values.documents import read_toml
    from headgate.core.values.words import suggestion

    try:
        content = read_toml(text)
    except ValueError as error:
        raise BadValue("settings file", path.name, f"in {path.parent} cannot be read: {error}") from error
    names = {known.name: known for known in KNOWN}
    for name, value in content.items():
        if name not in names:
            raise BadValue("setting", name, f"in {path} is unknown; {suggestion(name, list(names))}")
        if isinstance(value, dict | list) and name != "notices":
            raise BadValue("setting", name, f"in {path} is not a single value")
    return {name: _absolute(names[name], _as_text(value, path.parent), path.parent) for name, value in content.items()}


def _as_text(value: Any, folder: Path) -> str:
    """A value of a file; tables as JSON, in which files of secrets are relative to that folder."""
    if not isinstance(value, dict | list):
        return str(value)
    import json

    def located(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: located(each) for name, each in part.items()}
        is_file = isinstance(part, str) and part.startswith("file:")
        return f"file:{folder / part.removeprefix('file:')}" if is_file else part

    return json.dumps(located(value), default=str)


def default_client() -> str:
    """The default client: the user on this machine."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}" if sys.platform != "win32" else "user"
    return f"{user}@{socket.gethostname()}".replace("/", "_")

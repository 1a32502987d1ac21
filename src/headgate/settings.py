"""Settings: files, environment, flags, in that order; and where each came from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from headgate.core.errors import BadValue
from headgate.core.ledger.model import DEFAULT_MAX_INPUT_IDS
from headgate.core.queue.model import DEFAULT_MAX_CRASHES
from headgate.core.values.names import RESOURCE_LIMIT
from headgate.core.values.redaction import mask
from headgate.core.values.settings import parse_count, parse_keep, parse_limit, parse_number, parse_span
from headgate.core.values.sizes import parse_size
from headgate.core.values.variables import NamePatterns, parse_patterns
from headgate.store_search import DATABASE, SETTINGS_FILE, Search, search

#: How a setting's text is read: as it is, as the URL of a store, as a path, a length of time, a size, a number from 0
#: on, a whole number from 1 on, a limit (a whole number; 0: none), how long something is kept, or names of variables.
#: In a file, a relative path (also that of a SQLite store) is relative to the file.
Reading = Literal["text", "store", "path", "seconds", "bytes", "number", "count", "limit", "keep", "variables"]

T = TypeVar("T")

#: The file that only root writes.
SYSTEM_FILE = Path("/etc/headgate") / SETTINGS_FILE
#: Names of sources that are no files.
FLAGS, ENVIRONMENT = "arguments", "environment"
#: The password of a URL.
_PASSWORD = re.compile(r"://[^/@:]*:([^/]+)@")


@dataclass(frozen=True, slots=True)
class Known:
    """A setting that there is."""

    #: Its name in the file; in the environment it is HEADGATE_ and this in capitals.
    name: str
    #: What it is when nobody says otherwise.
    default: str
    #: One sentence.
    meaning: str
    #: Never shown in full.
    secret: bool = False
    #: How the text is read.
    kind: Reading = "text"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "HEADGATE_" + self.name.upper()


KNOWN = (
    Known(
        "url",
        "",
        (
            "URL of the store: the ledger, the history and everything else that has no URL of its own (default: the "
            "nearest `headgate.db`)."
        ),
        kind="store",
    ),
    Known("coordination_url", "", "URL of the store for locks and queue (default: the store in `url`).", kind="store"),
    Known(
        "answer_within",
        "2",
        "Seconds that a call may take beyond its `wait` time.",
        kind="seconds",
    ),
    Known("listen_url", "", "URL of a direct connection for notifications, if `url` is a pooler such as PgBouncer."),
    Known(
        "replication",
        "asynchronous",
        "Replication of the database in `url`: asynchronous, or synchronous (leases survive a failover).",
    ),
    Known(
        "server", "", ("URL of a service to use instead of a store: https://host:port. It takes precedence over `url`.")
    ),
    Known(
        "api_token",
        "",
        "API token for the service. It is sent only to the server named in the same place, or by the system.",
        secret=True,
    ),
    Known(
        "insecure_http",
        "no",
        "yes: send the API token to other machines over plain http, unencrypted. Set it where the token is set.",
    ),
    Known("work_folder", "headgate-work", "Folder for the files of ingest jobs while they are processed.", kind="path"),
    Known("profiles_folder", "headgate-profiles", "Folder of the ingest profiles, one TOML file each.", kind="path"),
    Known("storage_root", "headgate-storage", "OCFL storage root of profiles that do not name one.", kind="path"),
    Known(
        "upload_limit",
        "50000000",
        ("Largest file that the service accepts, in bytes or with a unit such as 512 MiB."),
        kind="bytes",
    ),
    Known(
        "space_threshold",
        "1000000000",
        "Space to keep free on the file system of `work_folder`, in bytes or with a unit such as 10GB.",
        kind="bytes",
    ),
    Known(
        "store_group",
        "",
        "Group that can use a new store, work folder or storage root (2770/0660); empty: only the owner (0700/0600).",
    ),
    Known(
        "minter_key", "", "Key that determines the order of the names that the built-in minter generates.", secret=True
    ),
    Known(
        "mail_server",
        "",
        (
            "URL of the mail server: smtp://host (STARTTLS), smtps://host (TLS) or smtp+plain://host (loopback); "
            "[user@]host[:port]."
        ),
    ),
    Known("mail_password", "", "Password of the user in `mail_server`.", secret=True),
    Known("mail_from", "headgate@localhost", "Sender address of reports."),
    Known("mail_reply_to", "", "Reply address of reports (default: `mail_from`)."),
    Known(
        "rate_limit",
        "50",
        "Requests per second that one API token may send, with bursts of four times that; 0: no limit.",
        kind="number",
    ),
    Known(
        "rate_limit_local",
        "0",
        "Requests per second from callers on the same machine; 0: no limit.",
        kind="number",
    ),
    Known(
        "submit_limit",
        "10",
        "Batches per second that one API token may submit, with bursts of four times that; 0: no limit.",
        kind="number",
    ),
    Known(
        "submit_limit_local", "0", "Batches per second from callers on the same machine; 0: no limit.", kind="number"
    ),
    Known(
        "trusted_proxies",
        "127.0.0.0/8, ::1",
        "Addresses and networks of trusted proxies (X-Forwarded-For, -Proto, -Host), separated by commas, or none.",
    ),
    Known(
        "hsts",
        "365d",
        "How long browsers use only TLS after a response over TLS (Strict-Transport-Security); 0: no such header.",
        kind="seconds",
    ),
    Known(
        "body_limit",
        "1000000",
        ("Largest request body that the service accepts, in bytes or with a unit such as 1MB."),
        kind="bytes",
    ),
    Known(
        "large_body_limit",
        "50000000",
        "Largest body of requests with long lists, such as the jobs of a batch or the files of an object.",
        kind="bytes",
    ),
    Known(
        "body_time",
        "300",
        "Longest time to receive a request body, in seconds or with a unit such as 5m.",
        kind="seconds",
    ),
    Known(
        "body_memory",
        "200000000",
        (
            "Memory for all request bodies over 16 KiB (smaller ones are always read), in bytes or with a unit such as "
            "200MB."
        ),
        kind="bytes",
    ),
    Known("body_memory_per_token", "100000000", "Share of `body_memory` that one API token may use.", kind="bytes"),
    Known(
        "bodies_per_token",
        "16",
        "Request bodies over 16 KiB that one API token may send at the same time.",
        kind="count",
    ),
    Known("upload_time", "21600", "Longest time for an upload, in seconds or with a unit such as 6h.", kind="seconds"),
    Known("uploads_at_once", "16", "Uploads that the service receives at the same time.", kind="count"),
    Known(
        "upload_quota",
        "100000000000",
        (
            "Space for all uploads, which are kept until their batches are removed, in bytes or with a unit such as "
            "100GB."
        ),
        kind="bytes",
    ),
    Known(
        "max_input_ids",
        str(DEFAULT_MAX_INPUT_IDS),
        "Data ids that one claim of a job with mapped inputs may read.",
        kind="count",
    ),
    Known("upload_quota_per_token", "20000000000", "Share of `upload_quota` that one API token may use.", kind="bytes"),
    Known("uploads_per_token", "4", "Uploads that one API token may send at the same time.", kind="count"),
    Known("streams_at_once", "2000", "Event streams that the service keeps open at the same time.", kind="count"),
    Known("streams_per_token", "50", "Event streams that one API token may keep open.", kind="count"),
    Known(
        "token_warning",
        "14d",
        "How long before an API token expires `status`, `doctor` and the dashboard warn about it.",
        kind="seconds",
    ),
    Known(
        "max_crashes",
        str(DEFAULT_MAX_CRASHES),
        (
            "Crashes of workers in one step after which a batch or ingest job is held; 0: no limit. Profiles can "
            "override it."
        ),
        kind="limit",
    ),
    Known(
        "retention",
        "604800",
        "How long completed batches are kept, in seconds or with a unit such as 7d.",
        kind="seconds",
    ),
    Known(
        "history_age",
        "3600",
        "Age at which history is copied from ZooKeeper to `url` and removed there.",
        kind="seconds",
    ),
    Known(
        "history_keep",
        "forever",
        "How long history is kept, such as 400d; the daemon `history` removes what is older.",
        kind="keep",
    ),
    Known("round_pause", "10", "Pause between checks of ingest jobs that wait for space.", kind="seconds"),
    Known("client", "", "Client name for locks (default: user@host)."),
    Known("log_format", "auto", "Log lines: `text`, `json`, or `auto` (text on a terminal, JSON otherwise)."),
    Known("lock_delay", "0", "Seconds that a resource stays locked after an exclusive holder died.", kind="seconds"),
    Known("resource_limit", str(RESOURCE_LIMIT), "Resources that one lock request may name.", kind="count"),
    Known("guards", "", "Storage guards by URI scheme, separated by commas: file, or those of installed packages."),
    Known("job_key", "", "The job's key, which opens the secrets of its inputs and outputs.", secret=True),
    Known("job_key_file", "", "File with the job's key; only its owner may be able to read it.", kind="path"),
    Known(
        "master_key_file",
        "",
        ("File with the ring of master keys, which admins use to seal secrets and create keys."),
        kind="path",
    ),
    Known(
        "job_variables",
        "",
        "Variables that jobs may set for their commands besides `PARAM_*`: names, or prefixes such as `OMP_*`.",
        kind="variables",
    ),
    Known(
        "exec_variables",
        "",
        (
            "Variables that commands of `daemon --exec` get besides the standard ones: names, or prefixes such as "
            "`AWS_*`."
        ),
        kind="variables",
    ),
)

#: Settings whose variables are not passed on to commands: secrets, and where the files are that hold some.
WITHHELD = tuple(known.variable for known in KNOWN if known.secret or known.name in ("job_key_file", "master_key_file"))


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value, and where it came from."""

    known: Known  #: Its definition.
    value: str  #: Its text.
    origin: str  #: Where the text comes from.

    @property
    def shown(self) -> str:
        """The value for people: passwords masked."""
        return mask(self.value) if not self.known.secret or not self.value else "(hidden)"


class Settings:
    """All settings of this run; `gate.settings["url"]` is the text of one.

    :param name: Name of the setting.
    """

    def __init__(
        self, found: Mapping[str, Setting], sources: Mapping[str, Mapping[str, str]], searched: Search
    ) -> None:
        """`sources`: all that each source says, by its name, the weakest first, whether another is stronger or not."""
        self._found = dict(found)
        self._sources = sources
        #: How the store was looked for in the working folder and above.
        self.searched = searched

    def __getitem__(self, name: str) -> str:
        return self._found[name].value

    def all(self) -> list[Setting]:
        """List settings with their origins, in the order of the documentation."""
        return [self._found[known.name] for known in KNOWN]

    def secrets(self) -> list[str]:
        """What must never be shown: secret settings, and passwords within the others, as written and as meant."""
        from urllib.parse import unquote

        hidden = [each.value for each in self.all() if each.known.secret and each.value]
        found = [_PASSWORD.search(each.value) for each in self.all() if not each.known.secret]
        return [*hidden, *dict.fromkeys(text for each in found if each for text in (each[1], unquote(each[1])))]

    def is_flag(self, name: str) -> bool:
        """Whether it was given for this run alone."""
        return self._found[name].origin.startswith("--")

    def origin(self, name: str) -> str:
        """Where a setting's value came from, for people."""
        return self._found[name].origin

    def source(self, name: str) -> str:
        """The source that a setting's value came from: a file's path, FLAGS, ENVIRONMENT, or `default`."""
        origin = self._found[name].origin
        return FLAGS if self.is_flag(name) else ENVIRONMENT if origin == self._found[name].known.variable else origin

    def strongest(self, names: Sequence[str]) -> str:
        """The setting among these that the strongest source gives a value; of two by one source, the first."""
        ranks = {source: rank for rank, source in enumerate(self._sources)}
        given = [name for name in names if self[name]]
        return max(given, key=lambda name: ranks.get(self.source(name), -1), default="")

    def said_by(self, source: str) -> Mapping[str, str]:
        """All settings that one source gives, also those that a stronger one overrides."""
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

    def count(self, name: str) -> int:
        """A setting that is a whole number from 1 on."""
        return self._read(name, parse_count)

    def limit(self, name: str) -> int:
        """A setting that is a whole number; 0 is no limit."""
        return self._read(name, parse_limit)

    def keep(self, name: str) -> float | None:
        """A setting that says how long something is kept, in seconds; None: forever."""
        return self._read(name, parse_keep)

    def variables(self, name: str) -> NamePatterns:
        """A setting that lists names of variables."""
        return self._read(name, parse_patterns)

    def has(self, name: str) -> bool:
        """Whether there is such a setting."""
        return name in self._found

    def value(self, name: str) -> Any:
        """Return a setting as a number, a length in seconds, a size in bytes or a text, whichever it is."""
        readers: Mapping[str, Callable[[str], object]] = {
            "seconds": self.seconds, "bytes": self.size, "number": self.number, "count": self.count,
            "limit": self.limit, "keep": self.keep, "variables": self.variables,
        }  # fmt: skip
        kind = self._found[name].known.kind
        return readers[kind](name) if kind in readers else self[name]

    def check(self) -> None:
        """Raise BadValue for the first setting with a value that is not valid."""
        for known in KNOWN:
            self.value(known.name)

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
    """The files that settings are taken from, the strongest first."""
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
    """A setting's default. Folders of a store that was found are beside it, wherever commands run."""
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
    # Loaded where there is a file: the command starts faster without.
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
        if isinstance(value, dict | list):
            raise BadValue("setting", name, f"in {path} is not a single value")
    return {name: _absolute(names[name], str(value), path.parent) for name, value in content.items()}


def default_client() -> str:
    """Who asks, when nobody says: the user on this machine."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}" if sys.platform != "win32" else "user"
    return f"{user}@{socket.gethostname()}".replace("/", "_")

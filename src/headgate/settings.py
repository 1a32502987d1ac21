"""Settings: file, environment, flags, in that order; and where each came from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import BadValue

FILE_NAME = "headgate.toml"
#: An option of a URL that is a secret too, up to its value.
_SECRET_OPTION = re.compile(r"([?&][^=&]*(?:password|secret)[^=&]*=)[^&]*", re.IGNORECASE)
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

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "HEADGATE_" + self.name.upper()


KNOWN = (
    Known("url", "sqlite:///headgate.db", "The store: ledger, history, and all else unless named."),
    Known("coordination_url", "", "Where locks and queue are kept; empty: in `url` too."),
    Known("answer_within", "2", "Seconds within which a call returns, beyond the time that it was asked to wait."),
    Known("listen_url", "", "A direct connection for notifications, where `url` leads to a pooler such as PgBouncer."),
    Known(
        "replication",
        "asynchronous",
        "Replication of the database in `url`: asynchronous, or synchronous (leases survive a failover).",
    ),
    Known("server", "", "A service to talk to instead of a store: http://host:port. It wins over `url`."),
    Known("api_token", "", "The token that opens the service.", secret=True),
    Known("work_folder", "headgate-work", "Where ingest jobs keep their files while they are worked on."),
    Known("profiles_folder", "headgate-profiles", "Where the ingest profiles are, a TOML file each."),
    Known("storage_root", "headgate-storage", "The OCFL storage root of profiles that name no other."),
    Known("upload_limit", "50000000", "Bytes of a file that is handed in to the service, at most."),
    Known("space_threshold", "1000000000", "Bytes that shall stay free where the working folder is."),
    Known("minter_key", "", "Decides the order in which our minter's names are given.", secret=True),
    Known(
        "mail_server",
        "",
        "smtp://host (STARTTLS), smtps://host (TLS) or smtp+plain://host (loopback); [user@]host[:port].",
    ),
    Known("mail_password", "", "The password of the mail server's user.", secret=True),
    Known("mail_from", "headgate@localhost", "From whom reports come."),
    Known("mail_reply_to", "", "Where answers to reports go; empty: to mail_from."),
    Known("rate_limit", "50", "Requests a second that the service takes from one API token; four times that at once."),
    Known("rate_limit_local", "0", "The same for callers on this machine, or behind a proxy here; 0: no limit."),
    Known("retention", "604800", "Seconds that completed batches and ingest jobs are kept before they are cleaned up."),
    Known("history_age", "3600", "Seconds that history stays in ZooKeeper, at least, before it is moved to `url`."),
    Known("round_pause", "10", "Seconds between two looks at ingest jobs that cannot go on yet (provisioning)."),
    Known("client", "", "The name that locks are taken by; empty: user@host."),
    Known("lock_delay", "0", "Seconds that a resource stays closed after an exclusive holder died."),
    Known("guards", "", "Storage guards to use, by URI scheme, separated by commas: file."),
    Known("job_key", "", "The job's key, which opens the secrets of what it reads and makes.", secret=True),
    Known("job_key_file", "", "A file that holds the job's key; only its owner may read it."),
    Known("master_key_file", "", "The ring of master keys, by which admins seal secrets and make keys."),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value, and where it came from."""

    known: Known
    value: str
    origin: str

    @property
    def shown(self) -> str:
        """The value for people: passwords masked."""
        return mask(self.value) if not self.known.secret or not self.value else "(hidden)"


class Settings:
    """All settings of this run."""

    def __init__(self, found: Mapping[str, Setting]) -> None:
        self._found = dict(found)

    def __getitem__(self, name: str) -> str:
        return self._found[name].value

    def all(self) -> list[Setting]:
        """Each setting with its origin, in the order of the documentation."""
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

    def number(self, name: str) -> float:
        """A setting that is a number."""
        try:
            return float(self[name])
        except ValueError:
            setting = self._found[name]
            raise BadValue(name, self[name], f"is no number (it comes from {setting.origin})") from None


def load(
    flags: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Defaults, then system, user and working folder's file, then environment, then flags."""
    environment = os.environ if environment is None else environment
    found = {known.name: Setting(known, known.default, "default") for known in KNOWN}
    for path in reversed(config_files(environment, folder or Path.cwd())):
        for name, value in _read_file(path).items():
            found[name] = Setting(found[name].known, value, str(path))
    for known in KNOWN:
        if environment.get(known.variable):
            found[known.name] = Setting(known, environment[known.variable], known.variable)
    for name, given in (flags or {}).items():
        if given is not None:
            found[name] = Setting(found[name].known, given, "--" + name.replace("_", "-"))
    return Settings(found)


def config_files(environment: Mapping[str, str], folder: Path) -> list[Path]:
    """The files that are looked at, the strongest first."""
    user = Path(environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/")) / ".config")
    return [folder / FILE_NAME, user / "headgate" / FILE_NAME, Path("/etc/headgate") / FILE_NAME]


def mask(url: str) -> str:
    """A URL without its password."""
    url = _SECRET_OPTION.sub(r"\1***", url)
    head, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{head}{mark}{name}:***@{host}" if mark and at and colon else url


def _read_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    # Loaded where there is a file: the command starts faster without.
    import difflib
    import tomllib

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadValue("settings file", path.name, f"in {path.parent} cannot be read: {error}") from error
    names = [known.name for known in KNOWN]
    for name, value in content.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
            raise BadValue("setting", name, f"in {path} is unknown{hint}")
        if isinstance(value, dict | list):
            raise BadValue("setting", name, f"in {path} is not a single value")
    return {name: str(value) for name, value in content.items()}


def default_client() -> str:
    """Who asks, when nobody says: the user on this machine."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}" if sys.platform != "win32" else "user"
    return f"{user}@{socket.gethostname()}".replace("/", "_")

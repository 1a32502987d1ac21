"""Ingest profiles: one TOML file each, with the rules for submissions under that name."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from headgate.core.errors import BadProfiles, BadValue
from headgate.core.queue.model import DEFAULT_PRIORITY, check_priority
from headgate.core.values.documents import read_toml
from headgate.ingest.profiles import values
from headgate.ingest.profiles.values import known, optional, read_table, table

_DEFAULT_PORTS = {"http": 80, "https": 443}
_STORAGE_SCHEMES = {"ocfl": ("file",), "s3": ("s3",), "http": ("http", "https")}


@dataclass(frozen=True, slots=True)
class ProfileStorage:
    """The storage of objects."""

    kind: str = known(
        values.choice(*_STORAGE_SCHEMES),
        "ocfl",
        "`ocfl`: an OCFL root on this machine. `s3`: a bucket. `http`: a storage service.",
    )
    url: str = known(
        values.text,
        "",
        ("`file:///folder`, `s3://bucket/prefix` or `https://service` (default: the setting `storage_root`)."),
    )
    node: int = known(values.count(0), 0, "Number of the node, for an HTTP storage service.")
    workers: tuple[str, ...] = known(
        values.each(values.web_address), (),
        "URLs of the workers of an HTTP storage service: the next one is asked where one refuses or cannot be reached "
        "(default: `url` alone).",
    )  # fmt: skip
    worker_url: str = known(
        values.web_address,
        "",
        "URL of an HTTP storage service that answers with the worker to use, its URL or its host name (default: none).",
    )


@dataclass(frozen=True, slots=True)
class Minter:
    """The naming of objects."""

    kind: str = known(
        values.choice("local", "register", "ezid"),
        "local",
        (
            "`local`: Headgate names objects. `register`: Headgate names them, and EZID registers the names. `ezid`: "
            "EZID names them (possibly twice, if a response is lost)."
        ),
    )
    shoulder: str = known(values.shoulder, "ark:/99999/fk4", "Prefix of every name. One shoulder belongs to one store.")
    ezid_url: str = known(values.web_address, "", "URL of EZID.")
    ezid_user: str = known(values.text, "", "User name at EZID.")
    ezid_password: str = known(values.secret_reference, "", "Reference to its password: `env:NAME` or `file:/path`.")
    ezid_owner: str = known(values.text, "", "EZID account that also owns the names.")
    context: str = known(values.text, "", "Value for `mrt.creator` at EZID.")
    target_url: str = known(
        values.web_address, "", ("Base URL of an object's landing page: `/m/` and its name are appended.")
    )


@dataclass(frozen=True, slots=True)
class Sources:
    """The allowed locations of payloads."""

    schemes: tuple[str, ...] = known(
        values.choices("https", "http", "s3", "file"), ("https",), ("Allowed schemes of URLs.")
    )
    hosts: tuple[str, ...] = known(
        values.texts, (), "Allowed hosts and buckets, `*.example.org` for all subdomains; empty: every public host."
    )
    ports: tuple[int, ...] = known(values.ports, (80, 443), "Ports.")
    roots: tuple[str, ...] = known(values.folders, (), "Folders that `file:` URLs may point into.")
    private_addresses: bool = known(values.flag, False, "Whether hosts in a private network are allowed.")
    redirects: int = known(values.count(0, 5), 0, "Maximum number of redirects.")

    def refusal(self, url: str) -> str:
        """Why this URL may not be fetched; empty: it may. The addresses of its host are checked when it is fetched."""
        try:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        except ValueError as error:
            return f"it cannot be read: {error}"
        if parts.scheme not in self.schemes:
            return (
                f"the scheme {parts.scheme or '(none)'} is not one of the profile's schemes ({', '.join(self.schemes)})"
            )
        return self._refusal_of_file(parts) if parts.scheme == "file" else self._refusal_of_host(parts, port)

    def _refusal_of_host(self, parts: SplitResult, port: int | None) -> str:
        if "@" in parts.netloc:
            return "it contains a user name or password"
        if not self._is_host(parts.hostname or ""):
            return f"the host {parts.hostname} is not one of the profile's hosts ({', '.join(self.hosts)})"
        if port is not None and port not in self.ports:
            return f"the port {port} is not one of the profile's ports ({', '.join(map(str, self.ports))})"
        return ""

    def _is_host(self, host: str) -> bool:
        plain = host.lower().rstrip(".")
        return bool(plain) and (not self.hosts or any(fnmatchcase(plain, each.lower()) for each in self.hosts))

    def _refusal_of_file(self, parts: SplitResult) -> str:
        path = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or "\0" in path or posixpath.normpath(path) != path.rstrip("/"):
            return "it does not have the form file:///path"
        if any(path.startswith(root.rstrip("/") + "/") for root in self.roots):
            return ""
        return f"it is not below one of the profile's roots ({', '.join(self.roots)})"


@dataclass(frozen=True, slots=True)
class ProfileLimits:
    """Limits on sizes, numbers and times."""

    manifest_size: int = known(values.size, 50_000_000, "Bytes of a manifest.")
    batch_jobs: int = known(values.count(1), 10_000, "Objects of a batch.")
    files: int = known(values.count(1), 100_000, "Files of an object.")
    file_size: int = known(values.size, 1_000_000_000_000, "Bytes of a file.")
    object_size: int = known(values.size, 5_000_000_000_000, "Bytes of an object.")
    large_size: int = known(
        values.size, 100_000_000_000, ("Size in bytes above which an object is large and gets a lower priority.")
    )
    expansion: int = known(values.count(1), 100, "Ratio of unpacked size to size that a container may reach.")
    downloads: int = known(values.count(1, 64), 8, "Files that are downloaded at the same time.")
    tries: int = known(values.count(1, 20), 4, "Attempts for each file.")
    connect_timeout: float = known(values.seconds, 10.0, "Seconds to connect to a server.")
    idle_timeout: float = known(values.seconds, 60.0, "Seconds without data after which a download fails.")
    total_timeout: float = known(values.seconds, 86_400.0, "Seconds to download one file.")
    minimum_rate: int = known(values.count(0), 1024, "Average bytes per second below which a download fails.")


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules for submissions under one name. A batch keeps the profile that it started with."""

    name: str = known(values.name, None, "")
    collection: str = known(
        values.name, None, ("Name of the collection, in the inventory and as a dataset of the ledger.")
    )
    owner: str = known(values.owner, None, "Owner of the objects. Local ids are unique per owner.")
    description: str = known(values.text, "", "Free text, for display.")
    membership: tuple[str, ...] = known(values.arks, (), "ARKs of the collections that each object belongs to.")
    priority: int = known(check_priority, DEFAULT_PRIORITY, "Priority of new jobs: 0 (first) to 99 (last).")
    max_crashes: int | None = optional(
        values.count(0),
        "Crashes of workers in one step after which a job is held; 0: no limit (default: the setting `max_crashes`).",
    )
    hold: str = known(values.text, "", "Reason why the collection is on hold; empty: it is not on hold.")
    notification: tuple[str, ...] = known(values.mail_addresses, (), "Mail addresses that receive the reports.")
    confirmation_mail: bool = known(values.flag, False, "Whether they also receive a mail when a batch is accepted.")
    dublin_core_ids: bool = known(
        values.flag, False, "Whether `dc:identifier` in a payload's `mrt-dc.xml` is also a local id."
    )
    callback_url: str = known(values.web_address, "", "URL that is notified of each object; empty: none.")
    callback_secret: str = known(
        values.secret_reference, "", "Reference to the key of its signature: `env:NAME` or `file:/path`."
    )
    callback_failure: str = known(values.choice("fail", "warn"), "fail", "What a failed callback does to the job.")
    callback_for_failed: bool = known(values.flag, False, "Whether it is also notified of failed jobs.")
    storage: ProfileStorage = table(ProfileStorage, "Storage of the objects.")
    minter: Minter = table(Minter, "How objects are named.")
    sources: Sources = table(Sources, "Where payloads may be fetched from.")
    limits: ProfileLimits = table(ProfileLimits, "Limits on sizes, numbers and times.")

    def snapshot(self) -> dict[str, Any]:
        """All of it as JSON; it contains no secrets, only references to them."""
        return asdict(self)


def from_snapshot(snapshot: Mapping[str, Any]) -> Profile:
    """The profile that a batch started with; keys of an older release that are unknown now are ignored."""
    return _checked(snapshot, str(snapshot.get("name", "snapshot")), strict=False)


def load_profile(path: Path) -> Profile:
    """The profile in a file, named after the file. BadProfiles with every error."""
    try:
        content = read_toml(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadProfiles([(str(path), f"cannot be read: {error}")]) from error
    if "name" in content:
        raise BadProfiles([(str(path), "name cannot be set in a profile; it is the name of the file")])
    return _checked({"name": path.name.removesuffix(".toml"), **content}, str(path))


def load_profiles(folder: Path, wanted: Callable[[str], bool] = lambda _name: True) -> dict[str, Profile]:
    """The wanted profiles of a folder, by name. BadProfiles with every error in their files."""
    if not folder.is_dir():
        todo = "create it, and write a file NAME.toml for each collection, with at least `collection` and `owner`"
        raise BadProfiles([(str(folder), f"there is no such folder; {todo}")])
    found: dict[str, Profile] = {}
    problems: list[tuple[str, str]] = []
    for path in sorted(each for each in folder.glob("*.toml") if wanted(each.stem)):
        try:
            profile = load_profile(path)
            found[profile.name] = profile
        except BadProfiles as error:
            problems += error.problems
    if problems:
        raise BadProfiles(problems)
    return found


def read_secret(reference: str, environment: Mapping[str, str]) -> str:
    """The secret that a profile refers to."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        if not environment.get(place):
            raise BadValue("secret", reference, "is not set in the environment")
        return environment[place]
    try:
        return Path(place).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadValue("secret", reference, f"cannot be read: {error}") from error


def _checked(content: Mapping[str, Any], file: str, *, strict: bool = True) -> Profile:
    problems: list[str] = []
    fields = read_table(Profile, content, problems, strict=strict)
    if not problems:
        profile = Profile(**fields)
        problems += [what for wrong, what in _contradictions(profile) if wrong]
        if not problems:
            return profile
    raise BadProfiles([(file, problem) for problem in problems])


def _contradictions(profile: Profile) -> list[tuple[bool, str]]:
    """Contradictions between values that are valid separately."""
    storage, minter, sources = profile.storage, profile.minter, profile.sources
    schemes = _STORAGE_SCHEMES[storage.kind]
    wrong_url = bool(storage.url) and urlsplit(storage.url).scheme not in schemes
    without_ezid = minter.kind != "local" and not (minter.ezid_url and minter.ezid_user and minter.ezid_password)
    return [
        (
            wrong_url,
            f"storage.url {storage.url!r} does not fit storage.kind {storage.kind!r}; it starts with {schemes[0]}://",
        ),
        (storage.kind != "ocfl" and not storage.url, f"storage.url is missing; storage.kind {storage.kind!r} needs it"),
        (
            storage.kind != "http" and bool(storage.workers or storage.worker_url),
            f"storage.workers and storage.worker_url are for storage.kind 'http', not {storage.kind!r}",
        ),
        (without_ezid, f"minter.kind {minter.kind!r} needs ezid_url, ezid_user and ezid_password"),
        (
            bool(profile.callback_url) and not profile.callback_secret,
            "callback_secret is missing; callbacks are signed",
        ),
        (
            profile.confirmation_mail and not profile.notification,
            "confirmation_mail has no recipient; set notification",
        ),
        ("file" in sources.schemes and not sources.roots, "sources.roots is missing; the scheme file needs it"),
        # Our own credentials open buckets: a depositor must not be able to choose among all of them.
        ("s3" in sources.schemes and not sources.hosts, "sources.hosts is missing; the scheme s3 needs the buckets"),
    ]

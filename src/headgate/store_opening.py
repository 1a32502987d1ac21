"""From settings and URLs to stores: the only place that knows which kinds of store there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headgate import private
from headgate.core.errors import BadValue, NoStore
from headgate.core.values.redaction import mask
from headgate.core.values.words import check_word
from headgate.settings import ENVIRONMENT, FLAGS, SYSTEM_FILE, Settings, is_relative
from headgate.stores.options import ASYNCHRONOUS, DEFAULT_OPTIONS, SYNCHRONOUS, StoreOptions
from headgate.stores.store import Store

if TYPE_CHECKING:
    from headgate.client.service import RemoteService
    from headgate.ingest.profiles.profile import Profile

SQL_KINDS = ("sqlite", "postgresql", "postgres", "mysql", "mariadb")
#: A service that represents its store.
SERVICE_KINDS = ("http", "https")

#: The modules that opening a store imports on first use: for any store, and by kind.
PRELOADED = ("headgate.gate", "headgate.wiring", "headgate.service.ledger.use_cases", "headgate.telemetry")
_SQL = (
    "headgate.stores.sql.store", "headgate.stores.sql.opening", "headgate.stores.sql.ledger.planning",
    "headgate.stores.sql.ledger.questions", "headgate.stores.sql.ledger.counts", "headgate.stores.sql.logs",
    "headgate.stores.sql.database.reading",
)  # fmt: skip
_POSTGRESQL = (*_SQL, "headgate.stores.sql.dialects.postgresql.dialect", "sqlalchemy.dialects.postgresql.psycopg")
_MYSQL = (*_SQL, "headgate.stores.sql.dialects.mysql.dialect", "sqlalchemy.dialects.mysql.pymysql")
PRELOADED_KINDS: Mapping[str, Sequence[str]] = {
    "sqlite": (*_SQL, "headgate.stores.sql.dialects.sqlite.dialect", "sqlalchemy.dialects.sqlite"),
    "postgresql": _POSTGRESQL, "postgres": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL,
    "http": ("headgate.client", "headgate.client.ledger"),
}  # fmt: skip

#: Settings that can name a service.
SERVER_SETTINGS = ("server", "url")
#: Advice for sending a token to a server, by the origin of the token.
SAME_SOURCE: Mapping[str, str] = defaultdict(
    lambda: "Name the server in that file, beside the token",
    {
        ENVIRONMENT: "To send it there, set HEADGATE_SERVER and HEADGATE_API_TOKEN together",
        FLAGS: "To send it there, pass both: connect(url, token=…)",
    },
)


@dataclass(frozen=True, slots=True)
class NamedStore:
    """The store or service that commands work on, and how it was found. It contains no password."""

    url: str
    #: A flag, a variable, or a file.
    found_by: str
    #: The location of locks and queue, if it is another store; and how it was found.
    coordination_url: str = ""
    coordination_found_by: str = ""


def named_store(settings: Settings) -> NamedStore:
    """Return the store in use, and how it was found; NoStore when there is none."""
    name = _store_setting(settings)
    used = NamedStore(mask(settings["server"] if name == "server" else own_url(settings)), _found_by(settings, name))
    elsewhere = settings["coordination_url"]
    if named_service(settings) or not elsewhere or elsewhere == settings["url"]:
        return used
    return replace(
        used, coordination_url=mask(elsewhere), coordination_found_by=_found_by(settings, "coordination_url")
    )


def _found_by(settings: Settings, name: str) -> str:
    kinds = {FLAGS: "flag", ENVIRONMENT: "variable"}
    return f"{kinds.get(settings.source(name), 'file')} {settings.origin(name)}"


def open_named_service(settings: Settings) -> RemoteService | None:
    """Connect to the service in the settings; None: they name a store, or nothing."""
    service = named_service(settings)
    if not service:
        return None
    from headgate.client import open_service

    return open_service(service, token_for(settings, service), store_options(settings))


def open_stores(settings: Settings, *, create: bool = True) -> Store:
    """Open the store in the settings.

    NoStore when none is named, or when it was not created yet. One that was named for this run is created: by a flag,
    an argument, or a variable that does not follow the working folder; not without `create`.
    """
    url, elsewhere = own_url(settings), settings["coordination_url"]
    options, options_elsewhere = store_options(settings), store_options(settings, "coordination_url")
    if not create:
        options, options_elsewhere = replace(options, create=False), replace(options_elsewhere, create=False)
    try:
        return open_both(url, elsewhere, options, options_elsewhere)
    except NoStore as error:
        raise NoStore(f"{error} (it is named by {named_store(settings).found_by})") from None


def create_stores(settings: Settings) -> bool:
    """Create the store in the settings, with everything that it needs. False: it exists already."""
    url, elsewhere = own_url(settings), settings["coordination_url"]
    create = store_options(settings, create=True)
    only_open = replace(create, create=False)
    try:
        open_both(url, elsewhere, only_open, only_open).close()
    except NoStore:
        open_both(url, elsewhere, create, create).close()
        return True
    return False


def own_url(settings: Settings) -> str:
    """The URL of the store itself; NoStore when none is named or found."""
    if settings["url"] or settings.source("url") == FLAGS:
        return settings["url"]
    searched = settings.searched
    where = (
        f"in {searched.start or 'this folder'}"
        if searched.start == searched.end
        else f"from {searched.start} up to {searched.end}"
    )
    file = searched.settings_file
    why = f"{file} names none either" if file else f"there is no headgate.toml or headgate.db {where}"
    passed = "".join(f"\n{each}" for each in searched.passed_over)
    raise NoStore(
        f"there is no store: neither --url nor HEADGATE_URL names one, and {why}. "
        f"Create a store in this folder with: headgate init{passed}"
    )


def _store_setting(settings: Settings) -> str:
    """The setting that names the store or service in use: `server` for a service, or `url` (also if there is none)."""
    if settings["url"] and settings.is_flag("url"):
        return "url"
    return settings.strongest(SERVER_SETTINGS) or "url"


def _is_explicit(settings: Settings, name: str) -> bool:
    """Whether a store was named for this run. A relative path in a variable depends on the working folder, so it does
    not count.
    """
    source = settings.source(name)
    return source == FLAGS or (source == ENVIRONMENT and not is_relative(settings[name]))


def store_options(settings: Settings, name: str = "url", *, create: bool = False) -> StoreOptions:
    """The options for opening the store of that setting. `create`: a missing store is created."""
    replication = check_word("replication", settings["replication"], (ASYNCHRONOUS, SYNCHRONOUS))
    return StoreOptions(
        answer_within=settings.seconds("answer_within"),
        listen_url=settings["listen_url"],
        replication=replication,
        create=create or _is_explicit(settings, name),
        store_group=private.find_group(settings["store_group"]),
        max_crashes=settings.limit("max_crashes"),
        max_input_ids=settings.count("max_input_ids"),
        work_folder=str(Path(settings["work_folder"]).absolute()),
    )


def named_service(settings: Settings) -> str:
    """The named service, unless a stronger source names a store; empty: none."""
    if not settings["url"] and not settings["server"] and not settings.is_flag("url"):
        return ""
    url = settings[_store_setting(settings)]
    return url if _store_setting(settings) == "server" or kind_of(url) in SERVICE_KINDS else ""


def token_for(settings: Settings, service: str) -> str:
    """The API token, if it was configured for that service; empty when there is none.

    Raises BadValue when it was configured for another one, or for none: otherwise a settings file in some folder could
    name a server that collects tokens. The server is trusted if the same source or the system's file names it. Plain
    http to another machine is refused too.
    """
    token = settings["api_token"]
    if not token:
        return ""
    source = settings.source("api_token")
    beside = settings.said_by(source)
    trusted = [each.get(name, "") for each in (beside, settings.said_by(str(SYSTEM_FILE))) for name in SERVER_SETTINGS]
    if origin_of(service) not in [origin_of(each) for each in trusted if each.startswith(("http://", "https://"))]:
        raise BadValue(
            "server",
            mask(service),
            (
                f"comes from {_server_origin(settings)}, but the API token comes from {settings.origin('api_token')}, "
                f"which does not name that server, so the token is not sent there. {SAME_SOURCE[source]}"
            ),
        )
    if is_open(service) and beside.get("insecure_http", "no").lower() != "yes":
        raise BadValue(
            "server",
            mask(service),
            (
                "is another machine, and plain http exposes the API token on the network: use https://. In a network "
                "that you trust, set insecure_http = yes in the same place as the token"
            ),
        )
    return token


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a service."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadValue("server", mask(url), "is not the URL of a service; write https://host:port") from None
    return parts.scheme, (parts.hostname or "").rstrip("."), port or (443 if parts.scheme == "https" else 80)


def is_open(service: str) -> bool:
    """Whether requests can be read on the network: plain http to another machine."""
    from headgate.stores.tls import stays_here

    scheme, host, _ = origin_of(service)
    return scheme == "http" and not stays_here(host)


def _server_origin(settings: Settings) -> str:
    return settings.origin(_store_setting(settings))


def open_both(url: str, coordination_url: str, options: StoreOptions, elsewhere: StoreOptions) -> Store:
    """One store, or two that act as one if locks are coordinated elsewhere; each with its options."""
    if not coordination_url or coordination_url == url:
        return open_store(url, options=options)
    from headgate.service.routing import JoinedStore

    beside_ledger = open_store(url, options=options)
    try:
        return JoinedStore(beside_ledger, open_store(coordination_url, options=elsewhere))
    except BaseException:
        beside_ledger.close()
        raise


def open_store(url: str, options: StoreOptions = DEFAULT_OPTIONS) -> Store:
    """Open the store that a URL names. BadValue for a service, which does not share its store."""
    if kind_of(url) in SQL_KINDS:
        from headgate.stores.sql.opening import open_database
        from headgate.stores.sql.store import SqlStore

        return SqlStore(open_database(url, options))
    if kind_of(url) in SERVICE_KINDS:
        raise BadValue("url", mask(url), "is a service; name its store to work on the store itself")
    from headgate.stores.zookeeper.store import open_zookeeper

    return open_zookeeper(url, options)


def kind_of(url: object) -> str:
    """The kind of store of a URL."""
    kind = url.partition("://")[0].partition("+")[0] if isinstance(url, str) and "://" in url else ""
    if kind in (*SQL_KINDS, *SERVICE_KINDS, "zookeeper"):
        return kind
    raise BadValue(
        "url", mask(url) if isinstance(url, str) else url,
        "is not a supported URL; write sqlite:///file, postgresql://…, mysql://…, zookeeper://… or http://…",
    )  # fmt: skip


def read_profiles(settings: Settings) -> list[Profile]:
    """The ingest profiles: those of the named service, else those in the folder. Asks no store."""
    from headgate.ingest.profiles.profile import load_profiles

    service = open_named_service(settings)
    if service is None:
        return list(load_profiles(Path(settings["profiles_folder"])).values())
    try:
        return service.ingest.profiles()
    finally:
        service.close()


def preload(settings: Settings) -> None:
    """Import the modules of a store for processing chunks, before a process is forked for each chunk. Nothing is
    opened.
    """
    from importlib import import_module

    kind = "http" if named_service(settings) else kind_of(own_url(settings))
    for name in (*PRELOADED, *PRELOADED_KINDS.get(kind, PRELOADED_KINDS["http"])):
        import_module(name)

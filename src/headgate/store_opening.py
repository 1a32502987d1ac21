"""From settings and URLs to stores: the only place that knows which kinds of store there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headgate import private
from headgate.core.errors import BadValue
from headgate.core.redaction import mask
from headgate.core.words import check_word
from headgate.settings import ENVIRONMENT, FLAGS, SYSTEM_FILE, Settings, load
from headgate.stores.base import LockStore
from headgate.stores.options import ASYNCHRONOUS, DEFAULT_OPTIONS, SYNCHRONOUS, StoreOptions

if TYPE_CHECKING:
    from headgate.ingest.profile import Profile

SQL_KINDS = ("sqlite", "postgresql", "postgres", "mysql", "mariadb")
#: A service that speaks for its store.
SERVICE_KINDS = ("http", "https")

#: Settings that can name a service.
SERVER_SETTINGS = ("server", "url")
#: How to say on purpose that a token is for a server, by where the token comes from.
SAME_SOURCE: Mapping[str, str] = defaultdict(
    lambda: "Name the server in that file, beside the token",
    {
        ENVIRONMENT: "To send it there, set HEADGATE_SERVER and HEADGATE_API_TOKEN together",
        FLAGS: "To send it there, pass both: connect(url, token=…)",
    },
)


def open_stores(settings: Settings) -> LockStore:
    """The service that is named, or the store."""
    if service := named_service(settings):
        return open_lock_store(service, token_for(settings, service), store_options(settings))
    return open_lock_stores(settings["url"], settings["coordination_url"], store_options(settings))


def store_options(settings: Settings) -> StoreOptions:
    """The options that stores are opened with."""
    replication = check_word("replication", settings["replication"], (ASYNCHRONOUS, SYNCHRONOUS))
    return StoreOptions(
        answer_within=settings.seconds("answer_within"),
        listen_url=settings["listen_url"],
        replication=replication,
        store_group=private.find_group(settings["store_group"]),
        max_crashes=settings.limit("max_crashes"),
    )


def named_service(settings: Settings) -> str:
    """The service that is named, unless a store is named nearer by; empty: none."""
    if settings["server"] and not settings.is_flag("url"):
        return settings["server"]
    return settings["url"] if kind_of(settings["url"]) in SERVICE_KINDS else ""


def token_for(settings: Settings, service: str) -> str:
    """The API token, if it was configured for that service; empty when there is none.

    Raises BadValue when it was configured for another one, or for none: a settings file in some folder could name a
    server that collects tokens. The server counts when it is named where the token is, or by the system's file. Plain
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
            "server", mask(service),
            (f"comes from {_server_origin(settings)}, but the API token comes from {settings.origin('api_token')}, "
f"which does not name that server, so the token is not sent there. {SAME_SOURCE[source]}"),
        )  # fmt: skip
    if is_open(service) and beside.get("insecure_http", "no").lower() != "yes":
        raise BadValue(
            "server", mask(service),
            ("is another machine, and plain http exposes the API token on the network: use https://. In a network "
"that you trust, set insecure_http = yes in the same place as the token"),
        )  # fmt: skip
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
    """Whether what is sent there can be read on the way: plain http that leaves this machine."""
    from headgate.stores.tls import stays_here

    scheme, host, _ = origin_of(service)
    return scheme == "http" and not stays_here(host)


def _server_origin(settings: Settings) -> str:
    return settings.origin("server" if settings["server"] and not settings.is_flag("url") else "url")


def open_lock_stores(url: str, coordination_url: str, options: StoreOptions = DEFAULT_OPTIONS) -> LockStore:
    """One store, or two that act as one when locks are coordinated elsewhere."""
    if not coordination_url or coordination_url == url:
        return open_lock_store(url, options=options)
    from headgate.service.routing import RoutedLocks

    beside_ledger = open_lock_store(url, options=options)
    try:
        return RoutedLocks(beside_ledger, open_lock_store(coordination_url, options=options))
    except BaseException:
        beside_ledger.close()
        raise


def open_lock_store(url: str, api_token: str | None = None, options: StoreOptions = DEFAULT_OPTIONS) -> LockStore:
    """The store that a URL names. `api_token`: a service's; None: that of the settings."""
    if kind_of(url) in SQL_KINDS:
        from headgate.stores.sql.locks import SqlLocks
        from headgate.stores.sql.opening import open_database

        return SqlLocks(open_database(url, options))
    if kind_of(url) in SERVICE_KINDS:
        from headgate.client import open_service

        return open_service(url, token_for(load(), url) if api_token is None else api_token, options)
    from headgate.stores.zookeeper.locks import open_zookeeper_locks

    return open_zookeeper_locks(url, options)


def kind_of(url: object) -> str:
    """The kind of store that a URL is of."""
    kind = url.partition("://")[0].partition("+")[0] if isinstance(url, str) and "://" in url else ""
    if kind in (*SQL_KINDS, *SERVICE_KINDS, "zookeeper"):
        return kind
    raise BadValue(
        "url", mask(url) if isinstance(url, str) else url,
        "is not a supported URL; write sqlite:///file, postgresql://…, mysql://…, zookeeper://… or http://…",
    )  # fmt: skip


def read_profiles(settings: Settings) -> list[Profile]:
    """The ingest profiles: those of the service that is named, else those in the folder. Asks no store."""
    from headgate.ingest.profile import load_profiles

    if not named_service(settings):
        return list(load_profiles(Path(settings["profiles_folder"])).values())
    store = open_stores(settings)
    try:
        found: list[Profile] = store.ingest.profiles()  # type: ignore[attr-defined] # a service has it
        return found
    finally:
        store.close()

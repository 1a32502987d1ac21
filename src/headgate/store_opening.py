"""From settings and URLs to stores: the only place that knows which kinds of store there are."""

from __future__ import annotations

from headgate import private
from headgate.core.errors import BadValue
from headgate.settings import Settings, load, mask
from headgate.stores.base import LockStore
from headgate.stores.options import ASYNCHRONOUS, DEFAULT_OPTIONS, SYNCHRONOUS, StoreOptions

SQL_KINDS = ("sqlite", "postgresql", "postgres", "mysql", "mariadb")
#: A service that speaks for its store.
SERVICE_KINDS = ("http", "https")


def open_stores(settings: Settings) -> LockStore:
    """The service that is named, or the store."""
    if service := named_service(settings):
        return open_lock_store(service, settings["api_token"], store_options(settings))
    return open_lock_stores(settings["url"], settings["coordination_url"], store_options(settings))


def store_options(settings: Settings) -> StoreOptions:
    """The options that stores are opened with."""
    replication = settings["replication"]
    if replication not in (ASYNCHRONOUS, SYNCHRONOUS):
        raise BadValue("replication", replication, f"is none of {ASYNCHRONOUS}, {SYNCHRONOUS}")
    return StoreOptions(
        answer_within=settings.seconds("answer_within"),
        listen_url=settings["listen_url"],
        replication=replication,
        store_group=private.find_group(settings["store_group"]),
    )


def named_service(settings: Settings) -> str:
    """The service that is named, unless a store is named nearer by; empty: none."""
    if settings["server"] and not settings.is_flag("url"):
        return settings["server"]
    return settings["url"] if kind_of(settings["url"]) in SERVICE_KINDS else ""


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

        return open_service(url, load()["api_token"] if api_token is None else api_token, options)
    from headgate.stores.zookeeper.locks import open_zookeeper_locks

    return open_zookeeper_locks(url, options)


def kind_of(url: object) -> str:
    """The kind of store that a URL is of."""
    kind = url.partition("://")[0].partition("+")[0] if isinstance(url, str) and "://" in url else ""
    if kind in (*SQL_KINDS, *SERVICE_KINDS, "zookeeper"):
        return kind
    raise BadValue(
        "url", mask(url) if isinstance(url, str) else url,
        "is of no kind that Headgate knows; write sqlite:///file, postgresql://…, mysql://…, zookeeper://… or http://…",
    )  # fmt: skip

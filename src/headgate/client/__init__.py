"""A service as a store: the ports over HTTP, so that all that works on a store works on a service."""

from __future__ import annotations

from headgate.client.connection import Connection
from headgate.client.locks import ServiceLocks
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions


def open_service(url: str, api_token: str, options: StoreOptions = DEFAULT_OPTIONS) -> ServiceLocks:
    """The service behind a URL, as the store that it speaks for."""
    return ServiceLocks(Connection(url, api_token, options))

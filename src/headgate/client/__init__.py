"""A service over HTTP: the ports of the store behind it, and what the service does itself."""

from __future__ import annotations

from headgate.client.connection import Connection
from headgate.client.service import RemoteService
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions


def open_service(url: str, api_token: str, options: StoreOptions = DEFAULT_OPTIONS) -> RemoteService:
    """Connect to the service behind a URL."""
    return RemoteService(Connection(url, api_token, options))

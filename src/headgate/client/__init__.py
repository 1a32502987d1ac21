"""Remote services: the same classes as on a store, which send each call to a service over HTTP."""

from __future__ import annotations

from headgate.client.connection import ServiceConnection
from headgate.client.service import RemoteService
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions


def open_service(url: str, api_token: str, options: StoreOptions = DEFAULT_OPTIONS) -> RemoteService:
    """Connect to the service at a URL."""
    return RemoteService(ServiceConnection(url, api_token, options))

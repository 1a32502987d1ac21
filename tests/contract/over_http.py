"""The fifth store of the contract: a real service, on SQLite, spoken to over HTTP by the client."""

from collections.abc import Callable

import pytest

from headgate import Gate
from headgate.calls.idempotency import scoped_id
from headgate.client.locks import ServiceLocks
from headgate.core.locks import Request
from headgate.gate import connect
from headgate.http.server import Server
from headgate.http.service import Service
from headgate.stores.base import LockStore
from tests.conftest import SQL_STORES

HTTP = "http"
#: The principal of the contract's API token.
PRINCIPAL = "the contract"
#: The stores that keep a ledger.
LEDGER_STORES = [*SQL_STORES, HTTP]
#: Files of the contract that say nothing about a service, each with the reason.
APART = {
    "test_locks_unavailable": "it takes the database itself away",
    "test_ledger_schema": "it looks at the database's own tables and plans",
}
#: The gate behind each service of this process: what looks into the database looks here.
BEHIND: dict[str, Gate] = {}


class Spokesman:
    """One service for many tests, each on an emptied store."""

    def __init__(self, store_url: str, empty: Callable[[], None]) -> None:
        self._store_url = store_url
        self._empty = empty
        self._gate = connect(store_url)
        self._server = Server(Service(self._gate), "127.0.0.1:0")
        self._server.start()
        self.url = self._server.url

    def begin(self) -> str:
        """A store as new behind the same address. Gives an API token."""
        self._gate.close()
        self._empty()
        self._gate = BEHIND[self.url] = connect(self._store_url)
        self._server.service.gate = self._gate
        return self._gate.tokens.new(PRINCIPAL, ["admin"]).token

    def close(self) -> None:
        self._server.stop()
        self._gate.close()


def behind(gate: Gate) -> Gate:
    """The gate on the database itself: this one, or that of the service that it speaks to."""
    return BEHIND.get(gate.store.name, gate)


def is_apart(item: pytest.Item) -> bool:
    """Whether a test is one of those that are not run over HTTP."""
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("kind") == HTTP and item.path.stem in APART


def kept_id(store: LockStore, request: Request) -> str:
    """The id that the store knows a request by: a service keeps the ids of each principal apart."""
    if not isinstance(store, ServiceLocks):
        return request.id
    return scoped_id(PRINCIPAL, request.id)

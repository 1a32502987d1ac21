"""The fifth store of the contract: a real service, on SQLite, used over HTTP by the client."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from headgate import Gate
from headgate.calls.idempotency import scoped_id
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Request
from headgate.gate import connect
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.store_opening import open_store
from headgate.stores.ports.locks import LockStore
from headgate.stores.store import Store
from tests.conftest import SQL_STORES
from tests.waiting import PATIENT_OPTIONS

HTTP = "http"
#: The principal of the contract's API token.
PRINCIPAL = "the contract"
#: The stores that keep a ledger.
LEDGER_STORES = [*SQL_STORES, HTTP]
#: Files of the contract that do not concern a service, each with the reason.
APART = {
    "test_locks_unavailable": "it takes the database itself away",
    "test_ledger_schema": "it looks at the database's own tables and plans",
}
#: The gate behind each service of this process: checks of the database use it.
BEHIND: dict[str, Gate] = {}


class Spokesman:
    """One service for many tests, each with an emptied store."""

    def __init__(self, store_url: str, empty: Callable[[], None]) -> None:
        self._store_url = store_url
        self._empty = empty
        self._gate = connect(store_url)
        self._server = Server(Service(self._gate), "127.0.0.1:0")
        self._server.start()
        self.url = self._server.url

    def begin(self) -> str:
        """A new store behind the same address. Returns an API token."""
        self._gate.close()
        self._empty()
        self._gate = BEHIND[self.url] = connect(self._store_url)
        self._server.service.gate = self._gate
        return self._gate.tokens.new(PRINCIPAL, ["admin"]).token

    def close(self) -> None:
        self._server.stop()
        self._gate.close()


def behind(gate: Gate) -> Gate:
    """The gate on the database itself: this one, or that of its service."""
    return BEHIND.get(gate.root.name, gate)


class LocksOverHttp:
    """The locks of a service with the methods of the port, for cases that use a store directly."""

    def __init__(self, gate: Gate) -> None:
        self._locks: Any = gate.locks
        self._steps = self._locks._obtaining.store
        self.name, self.tag = gate.root.name, gate.root.tag

    def __getattr__(self, name: str) -> Any:
        return getattr(self._steps, name, None) or getattr(self._locks, name)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        lock: Lock = self._locks.renew(lock_id, token, lease=lease)
        return lock

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        lock: Lock = self._locks.hand_over(lock_id, to=to, reason=reason)
        return lock

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        lock: Lock = self._locks.break_lock(lock_id, reason=reason, by=by)
        return lock

    def list(self, which: LockFilter) -> Sequence[Lock]:
        found: Sequence[Lock] = self._locks.list(
            which.resource, which.client, which.mode, after=which.after, limit=which.limit
        )
        return found

    def expire(self, limit: int = 1000) -> int:
        return int(self._locks.expire(limit=limit))

    def repair(self, fault: Fault, who: str) -> bool:
        return bool(self._locks.repair(fault, by=who))


def port_of(gate: Gate) -> LockStore:
    """The locks of a gate, as a store has them."""
    return cast("LockStore", LocksOverHttp(gate)) if gate.service else gate.store.locks


class OpenLocks:
    """The port of the locks behind a URL, on separate connections."""

    def __init__(self, url: str) -> None:
        self._root: Gate | Store = connect(url) if url.startswith(HTTP) else open_store(url, options=PATIENT_OPTIONS)
        self.locks = port_of(self._root) if isinstance(self._root, Gate) else self._root.locks

    def close(self) -> None:
        self._root.close()


def is_apart(item: pytest.Item) -> bool:
    """Whether a test is not run over HTTP."""
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("kind") == HTTP and item.path.stem in APART


def kept_id(store: LockStore, request: Request) -> str:
    """The id by which the store knows a request: a service separates the ids of its principals."""
    if not isinstance(store, LocksOverHttp):
        return request.id
    return scoped_id(PRINCIPAL, request.id)

"""Building blocks of cases: requests, deaths, waiting, and dumps of a store's content."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import headgate
from headgate import Gate, Lock, Mode, UnknownName
from headgate.client.history import RemoteHistory
from headgate.core.filters import LockFilter
from headgate.core.history import Entry, HistoryFilter
from headgate.core.locks.model import Request, Waiter, Want
from headgate.service.access.identity import new_request_id
from headgate.stores.ports.locks import LockStore
from headgate.stores.sql.history import SqlHistory
from tests.contract.over_http import port_of
from tests.waiting import until

T = TypeVar("T")

#: Far longer than any step here takes, even on a loaded machine.
PATIENCE = 30.0
#: Leases that their holders renew.
LONG, LONGER = 8.0, 10.0
#: A lease that nobody renews. Not shorter: it must outlive the steps before its end.
SHORT = 0.3

SHARED, EXCLUSIVE = Mode.SHARED, Mode.EXCLUSIVE


class Gates:
    """Gates on one store, all closed at the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: list[Gate] = []

    def open(self, **settings: str) -> Gate:
        """One more, with its own connections (or session)."""
        gate = headgate.connect(self.url, **settings)
        self._open.append(gate)
        return gate

    def close(self) -> None:
        for gate in self._open:
            gate.close()


def request_for(
    client: str,
    *wants: tuple[str, Mode],
    lease: float | None = None,
    reentrant: bool = False,
    request_id: str | None = None,
    lock_delay: float = 0.0,
) -> Request:
    """What the service would hand to a store."""
    return Request(
        id=request_id or new_request_id(),
        client=client,
        wants=tuple(Want(resource, mode) for resource, mode in sorted(wants)),
        lease=lease,
        lock_delay=lock_delay,
        reentrant=reentrant,
    )


def lock_of_the_dead(
    gates: Gates, resource: str, mode: str = "exclusive", client: str = "dead", **settings: str
) -> Lock:
    """A leased lock whose holder no longer renews it: its lease expired by the store's clock."""
    doomed = gates.open(**settings)
    lock = doomed.locks.acquire(client, resource, mode, lease=SHORT)
    let_die(lock, gates.open())
    return lock


def let_die(lock: Lock, witness: Gate) -> None:
    """Renew nothing, and wait until the store reports that the lock is lost, although its holder's process is alive."""
    until(lambda: not is_there(witness, lock.id), f"the lease of {lock.id} to run out")


def is_there(gate: Gate, lock_id: str) -> bool:
    try:
        gate.locks.get(lock_id)
    except UnknownName:
        return False
    return True


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """Run it in parallel to the test; its result or error is in the future."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - anyone who asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def queue_behind(
    gate: Gate, client: str, resource: str, mode: str, wait: float = PATIENCE, **more: Any
) -> "Future[Lock]":
    """A client waits in a thread; returns once the position in the queue is taken."""
    before = len(gate.locks.waiters(resource))
    future = in_thread(lambda: gate.locks.acquire(client, resource, mode, wait=wait, **more))
    until(lambda: len(gate.locks.waiters(resource)) > before or future.done(), f"{client} to stand in the queue")
    return future


def granted(future: "Future[T]") -> T:
    """The awaited result."""
    return future.result(timeout=PATIENCE)


def failure(future: "Future[Any]") -> BaseException:
    """Why it did not arrive."""
    error = future.exception(timeout=PATIENCE)
    assert error is not None
    return error


class Everything(NamedTuple):
    """Everything that a store contains."""

    locks: list[Lock]
    waiters: list[Waiter]
    history: list[Entry]
    resources: list[str]
    clients: list[str]


def history_of(locks: Any, *, limit: int = 100_000, **which: Any) -> list[Entry]:
    """The events in the store of these locks, newest first."""
    wanted = HistoryFilter(limit=limit, **which)
    if hasattr(locks, "told"):
        return list(locks.told.read(wanted))
    if hasattr(locks, "connection"):
        return list(RemoteHistory(locks.connection)(limit=limit, **which))
    if hasattr(locks, "_both"):
        found = [entry for each in locks._both for entry in history_of(each, limit=limit, **which)]
        return sorted(found, key=lambda entry: entry.at, reverse=True)[:limit]
    return list(SqlHistory(locks._database).read(wanted))


def everything(store: LockStore | Gate) -> Everything:
    """Everything that the store contains: locks, queues, history with its counts, and known names."""
    port = port_of(store) if isinstance(store, Gate) else store
    return Everything(
        locks=[replace(lock, expires_in=None) for lock in port.list(LockFilter())],
        waiters=list(port.waiters()),
        history=history_of(port),
        resources=list(port.resources()),
        clients=[name for name, _ in port.clients()],
    )


def told(gate: Gate, **which: Any) -> list[str]:
    """The events of the history, oldest first."""
    return [entry.event for entry in reversed(gate.history(limit=100_000, **which))]


def holders(gate: Gate, resource: str) -> list[tuple[str, str]]:
    """The holders of a resource with their modes, sorted."""
    return sorted((lock.client, lock.mode.value) for lock in gate.locks.list(resource=resource))

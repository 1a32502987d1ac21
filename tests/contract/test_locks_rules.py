"""The tables decide: with a changed cell or row a store behaves differently, on its fast path and its slow path."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from headgate import Lock, LockRefused, Mode, TransitionRefused
from headgate.core.filters import LockFilter
from headgate.core.locks.model import COMPATIBLE, Request
from headgate.core.locks.rules import LOCK_RULES, LockRules
from headgate.core.locks.tickets import Ticket
from headgate.core.tables.machine import Also, Transition
from headgate.core.tables.states import LOCK
from headgate.store_opening import open_store
from headgate.stores.ports.locks import LockStore
from headgate.stores.store import Store
from tests.conftest import SQL_STORES
from tests.contract.steps import EXCLUSIVE, LONG, SHARED, history_of, request_for
from tests.waiting import PATIENT_OPTIONS

#: Every kind of store. (A service has the tables of its store.)
FOLLOWING = [*SQL_STORES, "zookeeper"]
pytestmark = pytest.mark.parametrize("kind", FOLLOWING)
R, OTHER = "file:/d/1", "file:/d/2"
OpenWith = Callable[[LockRules], LockStore]


@pytest.fixture
def open_with(store_url: str) -> Iterator[OpenWith]:
    """Opens the store with other tables."""
    opened: list[Store] = []

    def open_with(rules: LockRules) -> LockStore:
        opened.append(open_store(store_url, options=replace(PATIENT_OPTIONS, lock_rules=rules)))
        return opened[-1].locks

    yield open_with
    for store in opened:
        store.close()


def with_cells(cells: Mapping[tuple[Mode, Mode], bool]) -> LockRules:
    return replace(LOCK_RULES, compatible={**COMPATIBLE, **cells})


def with_rows(change: Callable[[Transition], Transition | None]) -> LockRules:
    """The table with changed rows; None: the row is removed."""
    rows = tuple(row for row in map(change, LOCK.rows) if row)
    return replace(LOCK_RULES, machine=replace(LOCK, rows=rows))


def new_request(client: str, *modes: Mode, lease: float | None = LONG) -> Request:
    """A request that cannot be a repeat: for one resource it takes the fast path, for two the slow one."""
    wants = zip((R, OTHER), modes, strict=False)
    return replace(request_for(client, *wants, lease=lease), fresh=True)


def take(store: LockStore, client: str, mode: Mode) -> Lock:
    (lock,) = store.acquire(new_request(client, mode))
    return lock


def is_granted(store: LockStore, *modes: Mode) -> bool:
    try:
        locks = store.acquire(new_request("second", *modes))
    except LockRefused:
        return False
    for lock in locks:
        store.release(lock.id, lock.token)
    return True


def clients(store: LockStore) -> list[str]:
    return sorted(lock.client for lock in store.list(LockFilter(resource=R)))


# ------------------------------------------------------------------ cells


@pytest.mark.parametrize(("wanted", "held"), COMPATIBLE)
def test_a_changed_cell_decides_on_both_paths_and_in_the_queue(open_with: OpenWith, wanted: Mode, held: Mode) -> None:
    agrees = not COMPATIBLE[wanted, held]
    store = open_with(with_cells({(wanted, held): agrees}))
    first = take(store, "first", held)
    assert is_granted(store, wanted) is agrees
    assert is_granted(store, wanted, wanted) is agrees
    place = store.queue_up(new_request("waiter", wanted))
    assert isinstance(place, tuple) is agrees
    if isinstance(place, Ticket):
        assert store.take_turn(place) is None
        store.release(first.id, first.token)
        assert store.take_turn(place)
        assert clients(store) == ["waiter"]


def test_readers_that_exclude_each_other_are_granted_one_by_one(open_with: OpenWith) -> None:
    store = open_with(with_cells({(SHARED, SHARED): False}))
    writer = take(store, "writer", EXCLUSIVE)
    tickets = [store.queue_up(new_request(name, SHARED)) for name in ("a", "b")]
    first, second = (ticket for ticket in tickets if isinstance(ticket, Ticket))
    store.release(writer.id, writer.token)
    (lock,) = store.take_turn(first) or ()
    assert (clients(store), [each.client for each in store.waiters(R)]) == (["a"], ["b"])
    assert store.take_turn(second) is None
    store.release(lock.id, lock.token)
    assert store.take_turn(second)


def test_where_readers_and_writers_agree_a_reader_passes_a_waiting_writer(open_with: OpenWith) -> None:
    store = open_with(with_cells({(SHARED, EXCLUSIVE): True, (EXCLUSIVE, SHARED): True}))
    writer = take(store, "writer", EXCLUSIVE)
    ticket = store.queue_up(new_request("next writer", EXCLUSIVE))
    assert isinstance(ticket, Ticket)
    take(store, "reader", SHARED)
    store.release(writer.id, writer.token)
    assert store.take_turn(ticket)
    assert clients(store) == ["next writer", "reader"]


def test_where_a_writer_agrees_with_readers_one_of_them_is_upgraded(open_with: OpenWith) -> None:
    store = open_with(with_cells({(EXCLUSIVE, SHARED): True}))
    take(store, "reader", SHARED)
    lock = take(store, "upgraded", SHARED)
    assert store.upgrade(lock.id, lock.token).mode is EXCLUSIVE
    assert clients(store) == ["reader", "upgraded"]


# ------------------------------------------------------------------ rows


@pytest.mark.parametrize(("event", "mode"), [("upgrade", SHARED), ("downgrade", EXCLUSIVE)])
def test_an_event_without_a_row_is_refused_and_changes_nothing(open_with: OpenWith, event: str, mode: Mode) -> None:
    store = open_with(with_rows(lambda row: None if row.event == event else row))
    lock = take(store, "a", mode)
    with pytest.raises(TransitionRefused) as refused:
        getattr(store, event)(lock.id, lock.token)
    assert (refused.value.state, refused.value.event) == (mode, event)
    assert event not in refused.value.allowed
    assert (store.get(lock.id).mode, store.get(lock.id).token) == (mode, lock.token)
    assert [each.event for each in history_of(store)] == ["grant"]


def test_a_row_with_another_target_ends_locks_there(open_with: OpenWith) -> None:
    """Released on the fast path, and on the slow path, which grants it to the waiter."""
    store = open_with(with_rows(lambda row: replace(row, target="returned") if row.event == "release" else row))
    lock = take(store, "a", EXCLUSIVE)
    store.release(lock.id, lock.token)
    lock = take(store, "b", EXCLUSIVE)
    ticket = store.queue_up(new_request("c", SHARED))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    for held in store.take_turn(ticket) or ():
        store.release(held.id, held.token)
    ends = [(each.client, each.after) for each in history_of(store, event="release")]
    assert ends == [("c", "returned"), ("b", "returned"), ("a", "returned")]


def test_a_row_without_an_effect_does_not_have_it(open_with: OpenWith) -> None:
    """Grants are not recorded, and upgrades keep their token."""

    def change(row: Transition) -> Transition:
        if row.event == "grant":
            return replace(row, also=row.also & ~Also.RECORD_HISTORY)
        return replace(row, also=row.also & ~Also.NEW_TOKEN) if row.event == "upgrade" else row

    store = open_with(with_rows(change))
    lock = take(store, "a", SHARED)
    assert store.upgrade(lock.id, lock.token).token == lock.token
    store.release(lock.id, lock.token)
    assert [each.event for each in reversed(history_of(store))] == ["upgrade", "release"]

"""With any change of its tables, a store does what the core decides with them: on its fast paths and its slow path.

Each row of the state table is removed, redirected, loses an effect, or becomes an operator's; each cell of the
compatibility table is inverted. Scripts that fire every row run on the store, and in memory with the core alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from headgate import HeadgateError, Lock, LockRefused, Mode
from headgate.core.filters import LockFilter
from headgate.core.locks.model import COMPATIBLE, Request
from headgate.core.locks.rules import LOCK_RULES, LockRules
from headgate.core.locks.tickets import Ticket
from headgate.core.tables.machine import Also, By, Transition
from headgate.core.tables.states import LOCK
from headgate.service.guards.keeper import GuardKeeper
from headgate.service.guards.kinds import GuardBusy, StorageLock
from headgate.service.locks.use_cases import Locks
from headgate.store_opening import open_store
from headgate.stores.ports.locks import LockStore
from headgate.stores.sql.database.transaction import Duplicate
from headgate.stores.store import Store
from tests.conftest import SQL_STORES
from tests.contract.lock_reference import LockReference
from tests.contract.queue_steps import row_name
from tests.contract.steps import EXCLUSIVE, SHARED, SHORT, history_of, request_for
from tests.waiting import PATIENT_OPTIONS, until

#: Every kind of store. (A service has the tables of its store.)
pytestmark = pytest.mark.parametrize("kind", [*SQL_STORES, "zookeeper"])
#: The outcome of a step.
Told = tuple[Any, ...]
#: Whatever the tables say, a lock has one of its modes.
FLIPPED = {SHARED.value: EXCLUSIVE.value, EXCLUSIVE.value: SHARED.value}


#: A waiter that stays in the queue is granted repeatedly, at a moment that each store chooses.
ENDLESS = ("waiting", "grant", Also.LEAVE_QUEUE)


def changed(row: Transition, new: Transition | None) -> LockRules:
    """The tables with one row replaced or removed; its target stays a state."""
    machine = replace(LOCK)
    rows = (new if each is row else each for each in LOCK.rows)
    object.__setattr__(machine, "rows", tuple(each for each in rows if each))
    return replace(LOCK_RULES, machine=machine)


def mutants(event: str) -> Iterator[tuple[str, LockRules]]:
    """The tables with every change of the rows of an event, each with its name."""
    for row in LOCK.rows:
        if row.event != event:
            continue
        name = row_name(LOCK, row)
        yield f"{name}: left out", changed(row, None)
        yield f"{name}: leads elsewhere", changed(row, replace(row, target=FLIPPED.get(row.target, "elsewhere")))
        yield f"{name}: by an operator", changed(row, replace(row, by=By.OPERATOR))
        for effect in Also:
            if row.also.has(effect) and (row.source, event, effect) != ENDLESS:
                yield f"{name}: without {effect.name}", changed(row, replace(row, also=row.also & ~effect))


def cells() -> Iterator[tuple[str, LockRules]]:
    """The tables with each cell inverted."""
    for cell, agrees in COMPATIBLE.items():
        yield f"{cell}", replace(LOCK_RULES, compatible={**COMPATIBLE, cell: not agrees})


class Play:
    """The script, run on one store, on its own resources."""

    def __init__(self, store: LockStore | LockReference, place: str) -> None:
        self.store, self.place = store, place
        self.told: list[Told] = []
        self.locks: dict[str, Lock] = {}
        self.tickets: dict[str, Ticket] = {}

    def act(self, what: str, client: str, act: Callable[[], Any]) -> None:
        """One step; its outcome is recorded."""
        try:
            found = act()
        except HeadgateError as error:
            self.told.append((what, client, type(error).__name__))
            return
        if isinstance(found, tuple) and found:
            (found,) = found
        if isinstance(found, Ticket):
            self.tickets[client] = found
            self.told.append((what, client, "waits"))
        elif isinstance(found, Lock):
            self.locks[client] = found
            self.told.append((what, client, found.client, found.mode, found.count, found.token))
        else:
            self.told.append((what, client, bool(found)))

    def request(self, client: str, mode: Mode, *, fresh: bool, reentrant: bool = False) -> Request:
        name = f"{self.place} {client}{' again' if reentrant else ''}"
        asked = request_for(client, (self.place, mode), request_id=name, reentrant=reentrant)
        return replace(asked, fresh=fresh)

    def acquire(self, client: str, mode: Mode, **how: bool) -> None:
        self.act("acquire", client, lambda: self.store.acquire(self.request(client, mode, **how)))

    def queue_up(self, client: str, mode: Mode, **how: bool) -> None:
        self.act("queue up", client, lambda: self.store.queue_up(self.request(client, mode, **how)))

    def on_ticket(self, name: str, client: str) -> None:
        if client in self.tickets:
            self.act(name, client, lambda: getattr(self.store, name)(self.tickets[client]))

    def on_lock(self, name: str, client: str, *more: str) -> None:
        if client in self.locks:
            lock = self.locks[client]
            given = more or (lock.token,)
            self.act(name, client, lambda: getattr(self.store, name)(lock.id, *given))

    def look(self, held: Any, waiting: Any) -> None:
        """What is there."""
        self.told.append(("held", *sorted((each.client, each.mode, each.count, each.token) for each in held)))
        self.told.append(("waiting", *((each.client, each.mode) for each in waiting)))


def take_turns(script: Play, mode: Mode, *, fresh: bool) -> None:
    """Grant, refuse, wait, release."""
    script.acquire("first", mode, fresh=fresh)
    script.on_lock("release", "first")
    script.acquire("holder", mode, fresh=fresh)
    script.acquire("refused", EXCLUSIVE, fresh=fresh)
    script.queue_up("one", mode, fresh=fresh)
    script.queue_up("two", EXCLUSIVE, fresh=fresh)
    script.on_lock("release", "holder")
    for client in ("one", "two"):
        script.on_ticket("take_turn", client)
        script.on_lock("release", client)


def give_up(script: Play, mode: Mode, *, fresh: bool) -> None:
    """Refuse a waiter; it still takes its turn, like one that never left."""
    _leave_and_return(script, mode, "give_up", fresh=fresh)


def withdraw(script: Play, mode: Mode, *, fresh: bool) -> None:
    """The same for a waiter that withdraws."""
    _leave_and_return(script, mode, "withdraw", fresh=fresh)


def _leave_and_return(script: Play, mode: Mode, leave: str, *, fresh: bool) -> None:
    script.acquire("first", mode, fresh=fresh)
    script.on_lock("release", "first")
    script.acquire("holder", mode, fresh=fresh)
    script.queue_up("waiter", EXCLUSIVE, fresh=fresh)
    script.on_ticket(leave, "waiter")
    script.on_lock("release", "holder")
    script.on_ticket("take_turn", "waiter")
    script.on_lock("release", "waiter")


def change(script: Play, mode: Mode, *, fresh: bool) -> None:
    """Enter, leave, upgrade, downgrade, hand over, break."""
    script.acquire("owner", mode, fresh=fresh)
    script.acquire("owner", mode, fresh=fresh, reentrant=True)
    script.on_lock("release", "owner")
    if mode is SHARED:
        script.on_lock("upgrade", "owner")
    script.queue_up("reader", SHARED, fresh=fresh)
    if mode is EXCLUSIVE:
        script.on_lock("downgrade", "owner")
        script.on_ticket("take_turn", "reader")
        script.on_lock("upgrade", "owner")
    script.on_lock("hand_over", "owner", "", "")
    script.on_lock("break_lock", "owner", "the disk is full", "operator")
    script.on_ticket("take_turn", "reader")
    script.on_lock("release", "reader")
    script.acquire("last", mode, fresh=fresh)


#: Together they fire every row of the table that needs no clock.
SCRIPTS = (take_turns, give_up, withdraw, change)


@pytest.fixture
def open_with(store_url: str) -> Iterator[Callable[[LockRules], LockStore]]:
    """Opens the store with other tables."""
    opened: list[Store] = []

    def open_with(rules: LockRules) -> LockStore:
        while opened:
            opened.pop().close()
        opened.append(open_store(store_url, options=replace(PATIENT_OPTIONS, lock_rules=rules)))
        return opened[-1].locks

    yield open_with
    for store in opened:
        store.close()


def differences(store: LockStore, rules: LockRules, place: str) -> list[tuple[object, ...]]:
    """Where the store differs from the core with the same tables."""
    found: list[tuple[object, object]] = []
    for script, mode, fresh in product(SCRIPTS, Mode, (True, False)):
        here = f"{place}/{script.__name__}/{mode}/{fresh}"
        reference = LockReference(rules, store.tag)
        expected, actual = Play(reference, here), Play(store, here)
        script(expected, mode, fresh=fresh)
        try:
            script(actual, mode, fresh=fresh)
        except Duplicate:  # The database itself prevents a token from being issued twice.
            assert "without NEW_TOKEN" in place
            found += [pair for pair in zip(expected.told, actual.told, strict=False) if pair[0] != pair[1]][:1]
            continue
        expected.look(reference.held(here), reference.waiting(here))
        actual.look(store.list(LockFilter(resource=here)), store.waiters(here))
        found += [pair for pair in zip(expected.told, actual.told, strict=False) if pair[0] != pair[1]][:1]
        if (told := sorted(what_happened(store, here))) != sorted(reference.told):
            found.append((sorted(reference.told), told))
    return [(place, *each) for each in found]


def what_happened(store: LockStore, resource: str) -> list[tuple[str, str, str, str]]:
    return [(each.client, each.event, each.before, each.after) for each in history_of(store, resource=resource)]


@pytest.mark.parametrize("event", LOCK.events)
def test_a_store_follows_every_change_of_a_row(event: str, open_with: Callable[[LockRules], LockStore]) -> None:
    found = {name: differences(open_with(rules), rules, name) for name, rules in mutants(event)}
    assert {name: more for name, more in found.items() if more} == {}


def test_a_store_follows_every_change_of_an_expiry(open_with: Callable[[LockRules], LockStore]) -> None:
    """Except for a removed row: then nothing shows that the lease expired."""
    changes = {name: rules for name, rules in mutants("expire") if not name.endswith("left out")}
    assert len(changes) == 8
    for name, rules in changes.items():
        store, reference = open_with(rules), LockReference(rules, "")
        resources = {mode: f"{name}/{mode}" for mode in Mode}
        for mode, resource in resources.items():
            reference.acquire(request_for("dead", (resource, mode), lease=SHORT))
            store.acquire(request_for("dead", (resource, mode), lease=SHORT))
        assert reference.expire() == len(resources)
        expire_all(store, len(resources))
        told = [entry for each in resources.values() for entry in what_happened(store, each)]
        assert Counter(told) == Counter(reference.told), name
        assert [store.list(LockFilter(resource=each)) for each in resources.values()] == [[], []], name


def expire_all(store: LockStore, most: int) -> None:
    """Check until this many locks have ended."""
    ended: list[int] = []

    def have_ended() -> bool:
        ended.append(store.expire())
        return sum(ended) == most

    until(have_ended, "the leases to expire")


def test_a_store_follows_every_change_of_a_cell(open_with: Callable[[LockRules], LockStore]) -> None:
    found = {name: differences(open_with(rules), rules, name) for name, rules in cells()}
    assert {name: more for name, more in found.items() if more} == {}


def test_the_script_takes_every_row_but_those_of_the_clock(open_with: Callable[[LockRules], LockStore]) -> None:
    store = open_with(LOCK_RULES)
    assert differences(store, LOCK_RULES, "usual") == []
    told = {(each.before, each.event, each.after) for each in history_of(store, limit=10_000)}
    rows = {(row.source, row.event, row.target) for row in LOCK.rows if Also.RECORD_HISTORY in row.also}
    assert {row for row in rows - told if row[1] != "expire"} == set()


#: Two readers exclude each other.
LONELY = replace(LOCK_RULES, compatible={**COMPATIBLE, (SHARED, SHARED): False})


class Busy:
    """A storage that is always busy."""

    def lock(self, resource: str, _mode: Mode) -> StorageLock:
        raise GuardBusy(f"{resource} is in use")


def test_explaining_a_waiter_goes_by_the_tables_of_the_store(open_with: Callable[[LockRules], LockStore]) -> None:
    store = open_with(LONELY)
    store.acquire(request_for("reader", ("r", SHARED)))
    store.queue_up(request_for("waiter", ("r", SHARED)))
    for found in (Locks(store).explain("r"), Locks(store).stuck()):
        assert [(waiter.client, [each.client for each in blockers]) for waiter, blockers in found] == [
            ("waiter", ["reader"])
        ]


def test_a_refusal_names_who_blocks_by_the_tables_of_the_store(open_with: Callable[[LockRules], LockStore]) -> None:
    """Although the storage is busy too."""
    store = open_with(LONELY)
    store.acquire(request_for("reader", ("busy:r", SHARED)))
    with pytest.raises(LockRefused) as refusal:
        Locks(store, GuardKeeper({"busy": Busy()})).acquire("other", "busy:r", "read", lease=60)
    assert [(each.kind, each.client) for each in refusal.value.blockers] == [("holder", "reader")]

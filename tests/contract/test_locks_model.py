"""Random walks of several clients on several resources, with the pure table as the oracle.

The model records the grants, and asks `core.locks.decide` what must happen next; the store must do the same. It may
grant a freed resource to the next waiter itself, so the walk always serves waiters first.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from headgate import Lock, LockLost, LockRefused, Mode, TransitionRefused, UnknownName
from headgate.core.filters import LockFilter
from headgate.core.locks.decisions import decide, decide_upgrade
from headgate.core.locks.model import Request, Waiter
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.tables.machine import Also
from headgate.core.tables.states import LOCK
from headgate.stores.ports.locks import LockStore
from tests.contract.steps import history_of, request_for

CLIENTS = st.sampled_from(["ann", "ben", "cam"])
RESOURCES = st.sampled_from(["r1", "r2", "r3"])
MODES = st.sampled_from(list(Mode))
CHOICE = st.integers(min_value=0, max_value=1000)
FULL = os.environ.get("HEADGATE_TORTURE") == "full"
#: Number of walks, and of steps in each; stores with a server are slower.
EXAMPLES = {"sqlite": 30, "postgresql": 30, "mariadb": 20, "zookeeper": 6, "http": 6}
STEPS = 30
ANY_TIME = datetime(2026, 11, 15, tzinfo=UTC)


class Walk(RuleBasedStateMachine):
    """One walk. Its resources are its own, so the store need not be emptied between walks."""

    store: LockStore
    walks = 0

    def __init__(self) -> None:
        super().__init__()
        Walk.walks += 1
        self.prefix = f"walk {Walk.walks}/"
        self.locks: dict[str, Lock] = {}
        self.stale: list[tuple[str, int]] = []
        self.queue: list[Ticket] = []
        self.tokens: dict[str, int] = {}
        self.events: list[str] = []

    # -------------------------------------------------------------- the model

    def wants(self, resource: str, mode: Mode) -> tuple[str, Mode]:
        return self.prefix + resource, mode

    def waiters(self, before: int | None = None) -> list[Waiter]:
        """All waiters in the queue before that number, or all."""
        return [
            Waiter(ticket.number, want.resource, ticket.request.client, want.mode, ANY_TIME)
            for ticket in self.queue
            for want in ticket.request.wants
            if before is None or ticket.number < before
        ]

    def ask(self, request: Request, act: Callable[[Request], Any]) -> None:
        """The store must grant what the table grants, and refuse with exactly the same blockers."""
        decision = decide(request, self.locks.values(), self.waiters())
        if decision.granted:
            self.keep(request, act(request))
            return
        expected = [(each.kind, each.resource, each.client, each.mode) for each in decision.blockers]
        try:
            answer = act(request)
        except LockRefused as refusal:
            found = [(each.kind, each.resource, each.client, each.mode) for each in refusal.blockers]
            assert sorted(found) == sorted(expected)
        else:
            assert isinstance(answer, Ticket), f"granted although {expected}"
            assert all(answer.number > ticket.number for ticket in self.queue)
            self.queue.append(answer)

    def keep(self, request: Request, grant: Granted) -> None:
        """The grant equals the request, with new tokens if the table says so."""
        entered = decide(request, self.locks.values(), ()).entered
        assert [lock.resource for lock in grant] == [want.resource for want in request.wants]
        for lock, want in zip(grant, request.wants, strict=True):
            own = entered.get(want.resource)
            if own is None:
                assert (lock.client, lock.mode, lock.count) == (request.client, want.mode, 1)
                self.grow(lock)
                self.events.append("grant")
                continue
            assert (lock.id, lock.count) == (own.id, own.count + 1)
            if own.mode is Mode.SHARED and want.mode is Mode.EXCLUSIVE:
                self.grow(lock, own)
                self.events.append("upgrade")
            else:
                assert (lock.token, lock.mode) == (own.token, own.mode)
            self.events.append("enter")
            self.locks[lock.id] = lock

    def grow(self, lock: Lock, old: Lock | None = None) -> None:
        assert lock.token > self.tokens.get(lock.resource, 0)
        self.tokens[lock.resource] = lock.token
        self.locks[lock.id] = lock
        if old:
            self.stale.append((old.id, old.token))

    def pick(self, number: int) -> Lock:
        # In the order of granting: ids are random, and a repeated walk must be the same.
        return list(self.locks.values())[number % len(self.locks)]

    def end(self, lock: Lock, event: str) -> None:
        del self.locks[lock.id]
        self.stale.append((lock.id, lock.token))
        self.events.append(event)
        self.serve()

    def serve(self) -> None:
        """Every waiter whose turn has come acquires, the earliest first; no other is granted anything."""
        for ticket in list(self.queue):
            granted = decide(ticket.request, self.locks.values(), self.waiters(ticket.number)).granted
            grant = self.store.take_turn(ticket)
            assert bool(grant) is granted
            if grant:
                self.queue.remove(ticket)
                self.keep(ticket.request, grant)

    # -------------------------------------------------------------- possible steps

    @rule(client=CLIENTS, resource=RESOURCES, mode=MODES, reentrant=st.booleans())
    def acquire(self, client: str, resource: str, mode: Mode, reentrant: bool) -> None:
        self.ask(request_for(client, self.wants(resource, mode), reentrant=reentrant), self.store.acquire)

    @rule(client=CLIENTS, wanted=st.dictionaries(RESOURCES, MODES, min_size=2), reentrant=st.booleans())
    def acquire_all(self, client: str, wanted: dict[str, Mode], reentrant: bool) -> None:
        wants = [self.wants(resource, mode) for resource, mode in wanted.items()]
        self.ask(request_for(client, *wants, reentrant=reentrant), self.store.acquire)

    @precondition(lambda self: len(self.queue) < 5)
    @rule(client=CLIENTS, wanted=st.dictionaries(RESOURCES, MODES, min_size=1, max_size=2))
    def queue_up(self, client: str, wanted: dict[str, Mode]) -> None:
        wants = [self.wants(resource, mode) for resource, mode in wanted.items()]
        self.ask(request_for(client, *wants), self.store.queue_up)

    @precondition(lambda self: self.queue)
    @rule(number=CHOICE)
    def withdraw(self, number: int) -> None:
        ticket = self.queue.pop(number % len(self.queue))
        self.store.withdraw(ticket)
        self.serve()

    @precondition(lambda self: self.queue)
    @rule(number=CHOICE)
    def give_up(self, number: int) -> None:
        ticket = self.queue.pop(number % len(self.queue))
        with pytest.raises(LockRefused) as refusal:
            self.store.give_up(ticket)
        blockers = decide(ticket.request, self.locks.values(), self.waiters(ticket.number)).blockers
        assert len(refusal.value.blockers) == len(blockers)
        self.serve()

    @precondition(lambda self: self.locks)
    @rule(number=CHOICE)
    def release(self, number: int) -> None:
        lock = self.pick(number)
        self.store.release(lock.id, lock.token)
        if lock.count > 1:
            self.locks[lock.id] = replace(lock, count=lock.count - 1)
            self.events.append("leave")
        else:
            self.end(lock, "release")

    @precondition(lambda self: self.locks)
    @rule(number=CHOICE)
    def break_lock(self, number: int) -> None:
        lock = self.pick(number)
        assert self.store.break_lock(lock.id, "why not", "chance").token == lock.token
        self.end(lock, "break")

    @precondition(lambda self: self.locks)
    @rule(number=CHOICE)
    def upgrade(self, number: int) -> None:
        lock = self.pick(number)
        others = decide_upgrade(lock, [each for each in self.locks.values() if each.resource == lock.resource])
        if lock.mode is Mode.EXCLUSIVE:
            with pytest.raises(TransitionRefused):
                self.store.upgrade(lock.id, lock.token)
        elif others:
            with pytest.raises(LockRefused) as refusal:
                self.store.upgrade(lock.id, lock.token)
            assert {each.lock_id for each in refusal.value.blockers} == {each.lock_id for each in others}
        else:
            self.grow(self.store.upgrade(lock.id, lock.token), lock)
            self.events.append("upgrade")

    @precondition(lambda self: self.locks)
    @rule(number=CHOICE)
    def downgrade(self, number: int) -> None:
        lock = self.pick(number)
        if lock.mode is Mode.SHARED:
            with pytest.raises(TransitionRefused):
                self.store.downgrade(lock.id, lock.token)
            return
        changed = self.store.downgrade(lock.id, lock.token)
        assert (changed.token, changed.count, changed.mode) == (lock.token, lock.count, Mode.SHARED)
        self.locks[lock.id] = changed
        self.events.append("downgrade")
        self.serve()

    @precondition(lambda self: self.locks)
    @rule(number=CHOICE)
    def hand_over(self, number: int) -> None:
        lock = self.pick(number)
        # To any principal, so that the walk can continue with it.
        given = self.store.hand_over(lock.id, lock.principal, "")
        assert (given.id, given.mode, given.count) == (lock.id, lock.mode, lock.count)
        self.grow(given, lock)
        self.events.append("hand-over")

    @precondition(lambda self: self.locks)
    @rule(number=CHOICE)
    def repeat(self, number: int) -> None:
        """Repeating the same request changes nothing."""
        lock = self.pick(number)
        request = request_for(lock.client, (lock.resource, lock.mode), request_id=lock.request_id)
        if lock.count == 1 and request.lock_id(self.store.tag, lock.resource) == lock.id:
            (same,) = self.store.acquire(request)
            assert (same.id, same.token) == (lock.id, lock.token)

    @precondition(lambda self: self.stale)
    @rule(number=CHOICE, act=st.sampled_from(["release", "renew", "check", "upgrade", "downgrade"]))
    def act_with_a_stale_token(self, number: int, act: str) -> None:
        lock_id, token = self.stale[number % len(self.stale)]
        with pytest.raises(LockLost):
            getattr(self.store, act)(lock_id, token)

    # -------------------------------------------------------------- invariants

    @invariant()
    def the_store_holds_what_the_model_holds(self) -> None:
        held = [lock for lock in self.store.list(LockFilter()) if lock.resource.startswith(self.prefix)]
        assert {facts(lock) for lock in held} == {facts(lock) for lock in self.locks.values()}
        waiting = [waiter for waiter in self.store.waiters() if waiter.resource.startswith(self.prefix)]
        expected = [
            (ticket.number, want.resource, ticket.request.client, want.mode)
            for ticket in self.queue
            for want in ticket.request.wants
        ]
        assert [(each.ticket, each.resource, each.client, each.mode) for each in waiting] == expected

    @invariant()
    def a_writer_is_alone(self) -> None:
        for lock in self.locks.values():
            others = [each for each in self.locks.values() if each.resource == lock.resource and each.id != lock.id]
            assert lock.mode is Mode.SHARED or not others

    def teardown(self) -> None:
        """The history has each event once; then everything is removed, so that the next walk finds little."""
        entries = history_of(self.store, limit=100_000)
        told = [entry.event for entry in entries if entry.resource.startswith(self.prefix) and entry.event != "refuse"]
        assert sorted(told) == sorted(self.events)
        for ticket in self.queue:
            self.store.withdraw(ticket)
        for lock in self.store.list(LockFilter()):
            self.store.break_lock(lock.id, "the walk is over", "teardown")
            with pytest.raises(UnknownName):
                self.store.get(lock.id)


def facts(lock: Lock) -> tuple[str, str, str, Mode, int, int]:
    return lock.id, lock.resource, lock.client, lock.mode, lock.token, lock.count


def test_the_random_walks_cover_every_event_except_crashes() -> None:
    told = {row.event for row in LOCK.rows if Also.RECORD_HISTORY in row.also}
    assert told - {"refuse", "expire"} == {
        "grant", "enter", "upgrade", "downgrade", "leave", "hand-over", "release", "break",
    }  # fmt: skip


def test_random_walks_on_the_store_match_the_table(store: LockStore, kind: str) -> None:
    machine = type("StoreWalk", (Walk,), {"store": store})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES[kind] * (20 if FULL else 1),
            stateful_step_count=STEPS * (3 if FULL else 1),
            derandomize=not FULL,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

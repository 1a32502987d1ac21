"""Waiting: first come first served, woken promptly, and no waiter is forgotten in the queue."""

import os
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import Future
from typing import NoReturn

import pytest

from headgate import Gate, Lock, LockRefused
from headgate.core.locks.tickets import Ticket
from headgate.stores.ports.locks import LockStore
from tests.contract.over_http import port_of
from tests.contract.steps import (
    EXCLUSIVE,
    LONG,
    PATIENCE,
    SHARED,
    Gates,
    failure,
    granted,
    holders,
    in_thread,
    queue_behind,
    request_for,
    told,
)
from tests.waiting import await_turn, until

R = "mysql://db1/core"
#: Well below every polling interval (1 s and more): only a wake-up is that quick.
PROMPT = 0.5


def waiting_clients(gate: Gate, resource: str = R) -> list[str]:
    return [waiter.client for waiter in gate.locks.waiters(resource)]


def test_without_wait_a_request_is_refused_at_once_and_does_not_queue(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write")
    began = time.monotonic()
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", R, "write")
    assert time.monotonic() - began < PROMPT
    assert waiting_clients(gate) == []


def test_with_wait_a_free_resource_is_granted_at_once(gate: Gate) -> None:
    began = time.monotonic()
    gate.locks.acquire("a", R, "write", wait=PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("apart", [False, True], ids=["one gate", "two gates"])
def test_a_waiter_is_woken_long_before_its_next_poll(gates: Gates, apart: bool) -> None:
    """By a releasing gate in the same process, and by one that shares only the store."""
    gate = gates.open()
    waiter = gates.open() if apart else gate
    delays = []
    for _ in range(5):
        lock = gate.locks.acquire("a", R, "write")
        future = queue_behind(waiter, "b", R, "write")
        arrived: list[float] = []
        future.add_done_callback(lambda _, arrived=arrived: arrived.append(time.monotonic()))  # type: ignore[misc]
        released = time.monotonic()
        gate.locks.release(lock)
        gate.locks.release(granted(future))
        until(lambda arrived=arrived: arrived, "the time of arrival")  # type: ignore[misc]
        delays.append(arrived[0] - released)
    assert statistics.median(delays) < PROMPT, delays


def test_waiters_are_granted_in_the_order_in_which_they_queued(gates: Gates) -> None:
    gate = gates.open()
    lock = gate.locks.acquire("first", R, "write")
    names = [f"waiter {number}" for number in range(5)]
    futures = [queue_behind(gates.open(), name, R, "write") for name in names]
    assert waiting_clients(gate) == names
    tickets = [waiter.ticket for waiter in gate.locks.waiters(R)]
    assert tickets == sorted(tickets)
    for number, future in enumerate(futures):
        gate.locks.release(lock)
        lock = granted(future)
        assert waiting_clients(gate) == names[number + 1 :]
    entries = [entry.client for entry in reversed(gate.history(resource=R, event="grant"))]
    assert entries == ["first", *names]


def test_several_waiting_readers_are_granted_together(gates: Gates) -> None:
    gate = gates.open()
    lock = gate.locks.acquire("writer", R, "write")
    readers = [queue_behind(gates.open(), f"reader {number}", R, "read") for number in range(3)]
    gate.locks.release(lock)
    for reader in readers:
        granted(reader)
    assert holders(gate, R) == [(f"reader {number}", "shared") for number in range(3)]
    assert waiting_clients(gate) == []


def test_a_waiting_writer_is_not_starved_by_new_readers(gates: Gates) -> None:
    gate = gates.open()
    reading = gate.locks.acquire("old reader", R, "read")
    writer = queue_behind(gates.open(), "writer", R, "write")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("new reader", R, "read")
    (blocker,) = refusal.value.blockers
    assert (blocker.kind, blocker.client, blocker.mode) == ("waiter", "writer", EXCLUSIVE)
    assert "is ahead in the queue" in str(refusal.value)
    later = queue_behind(gates.open(), "late reader", R, "read")
    assert not later.done()
    gate.locks.release(reading)
    writing = granted(writer)
    assert not later.done()
    gate.locks.release(writing)
    assert granted(later).token > writing.token


def test_readers_before_a_waiting_writer_enter_and_those_after_it_wait(gates: Gates) -> None:
    gate = gates.open()
    first = gate.locks.acquire("first", R, "write")
    before = [queue_behind(gates.open(), f"before {number}", R, "read") for number in range(2)]
    writer = queue_behind(gates.open(), "writer", R, "write")
    after = queue_behind(gates.open(), "after", R, "read")
    gate.locks.release(first)
    reading = [granted(future) for future in before]
    assert waiting_clients(gate) == ["writer", "after"]
    for lock in reading:
        gate.locks.release(lock)
    gate.locks.release(granted(writer))
    granted(after)
    order = [entry.client for entry in reversed(gate.history(resource=R, event="grant"))]
    assert set(order[1:3]) == {"before 0", "before 1"}
    assert order[3:] == ["writer", "after"]


def test_a_holder_that_waits_to_reenter_its_own_lock_passes_waiters(gates: Gates) -> None:
    """The writer before it waits for its lock to end, so behind that writer both would wait forever."""
    one, other = gates.open(), gates.open()
    lock = one.locks.acquire("one", R, "read")
    other.locks.acquire("other", R, "read", reentrant=True)
    writer = queue_behind(gates.open(), "writer", R, "write")
    entering = queue_behind(other, "other", R, "write", reentrant=True)
    began = time.monotonic()
    one.locks.release(lock)
    entered = granted(entering)
    assert time.monotonic() - began < PROMPT
    assert (entered.mode, entered.count) == ("exclusive", 2)
    assert not writer.done()
    for _ in range(2):
        other.locks.release(other.locks.get(entered.id))
    granted(writer)


def test_readers_behind_a_writer_that_gives_up_are_granted(gates: Gates) -> None:
    gate = gates.open()
    gate.locks.acquire("reader", R, "read")
    writer = queue_behind(gates.open(), "writer", R, "write", wait=1.0)
    behind = queue_behind(gates.open(), "behind", R, "read")
    assert isinstance(failure(writer), LockRefused)
    assert granted(behind).client == "behind"


# ------------------------------------------------------------------ the end of waiting


def test_a_refusal_after_a_timeout_names_the_blockers(gate: Gate) -> None:
    lock = gate.locks.acquire("holder", R, "write", note="nightly copy")
    began = time.monotonic()
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("b", R, "read", wait=0.3)
    assert 0.3 <= time.monotonic() - began < PATIENCE
    (blocker,) = refusal.value.blockers
    assert (blocker.kind, blocker.client, blocker.lock_id) == ("holder", "holder", lock.id)
    assert (blocker.mode, blocker.since, blocker.note) == (EXCLUSIVE, lock.since, "nightly copy")
    assert waiting_clients(gate) == []
    assert told(gate) == ["grant", "refuse"]
    gate.locks.release(lock)
    gate.locks.acquire("c", R, "write")


def test_the_refusal_names_earlier_waiters_too(gates: Gates) -> None:
    gate = gates.open()
    held = gate.locks.acquire("holder", R, "read")
    earlier = queue_behind(gates.open(), "earlier", R, "write")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("late", R, "write", wait=0.2)
    assert [(blocker.kind, blocker.client) for blocker in refusal.value.blockers] == [
        ("holder", "holder"),
        ("waiter", "earlier"),
    ]
    assert waiting_clients(gate) == ["earlier"]
    gate.locks.release(held)
    granted(earlier)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_an_interrupted_waiter_leaves_the_queue(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    lock = gate.locks.acquire("a", R, "write")
    seen: list[str] = []

    def interrupted(ticket: Ticket) -> NoReturn:
        seen.extend(waiting_clients(gate))
        raise error

    monkeypatch.setattr(gate.locks._obtaining.store, "look", interrupted)
    with pytest.raises(error):
        gate.locks.acquire("b", R, "write", wait=PATIENCE)
    assert seen == ["b"]
    assert waiting_clients(gate) == []
    gate.locks.release(lock)
    gate.locks.acquire("c", R, "write")


def test_a_grant_at_the_moment_of_the_interruption_is_released(store: LockStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = store.queue_up(request_for("b", (R, EXCLUSIVE)))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    assert store.take_turn(ticket)
    store.withdraw(ticket)
    assert store.acquire(request_for("c", (R, EXCLUSIVE)))


def test_a_timeout_at_the_moment_of_the_grant_returns_the_lock(store: LockStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = store.queue_up(request_for("b", (R, EXCLUSIVE)))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    (mine,) = store.give_up(ticket)
    assert mine.client == "b"
    assert not store.waiters(R)


def test_leaving_the_queue_twice_or_without_a_position_is_not_an_error(store: LockStore) -> None:
    store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = store.queue_up(request_for("b", (R, EXCLUSIVE)))
    assert isinstance(ticket, Ticket)
    store.withdraw(ticket)
    store.withdraw(ticket)
    assert not store.waiters(R)


def test_a_waiter_is_not_granted_while_another_is_ahead(store: LockStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    tickets = [store.queue_up(request_for(client, (R, EXCLUSIVE))) for client in ("b", "c")]
    first, second = (ticket for ticket in tickets if isinstance(ticket, Ticket))
    assert first.number < second.number
    assert store.take_turn(first) is None
    store.release(lock.id, lock.token)
    assert store.take_turn(second) is None
    grant = store.take_turn(first)
    assert grant
    assert grant[0].client == "b"


def test_waiting_for_a_turn_ends_early_or_on_time(store: LockStore) -> None:
    store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = store.queue_up(request_for("b", (R, EXCLUSIVE)))
    assert isinstance(ticket, Ticket)
    began = time.monotonic()
    await_turn(store, ticket, 0.3)
    assert time.monotonic() - began < 10
    store.withdraw(ticket)


def test_a_killed_waiter_leaves_the_queue(gates: Gates) -> None:
    """Its process is killed while it waits; the waiters behind it are served nevertheless."""
    program = (
        "import sys, headgate\nheadgate.connect(sys.argv[1]).locks.acquire('killed', sys.argv[2], 'write', wait=600)\n"
    )
    gate = gates.open()
    lock = gate.locks.acquire("holder", R, "read")
    with subprocess.Popen([sys.executable, "-c", program, gates.url, R]) as waiter:
        until(lambda: waiting_clients(gate) == ["killed"], "the process to queue")
        behind = queue_behind(gates.open(), "behind", R, "read", wait=60)
        os.kill(waiter.pid, signal.SIGKILL)
    assert granted(behind).client == "behind"
    assert waiting_clients(gate) == []
    gate.locks.release(lock)


# ------------------------------------------------------------------ several resources


def test_waiting_for_several_resources_grants_all_or_none(gates: Gates) -> None:
    gate = gates.open()
    one, two = gate.locks.acquire("x", "r1", "write"), gate.locks.acquire("y", "r2", "read")
    wants = {"r1": "write", "r2": "write", "r3": "read"}
    future = in_thread(lambda: gates.open().locks.acquire_all("both", wants, wait=PATIENCE))
    until(lambda: len(gate.locks.waiters()) == 3, "a place in each queue")
    assert [(waiter.client, waiter.resource, waiter.mode) for waiter in gate.locks.waiters()] == [
        ("both", "r1", EXCLUSIVE),
        ("both", "r2", EXCLUSIVE),
        ("both", "r3", SHARED),
    ]
    gate.locks.release(one)
    assert holders(gate, "r1") == []
    with pytest.raises(LockRefused, match=r"both .*waits for exclusive"):
        gate.locks.acquire("pushy", "r1", "read")
    gate.locks.release(two)
    grant = granted(future)
    assert [(lock.resource, lock.mode) for lock in grant] == [("r1", EXCLUSIVE), ("r2", EXCLUSIVE), ("r3", SHARED)]
    assert gate.locks.waiters() == []


def test_a_collection_that_times_out_leaves_every_queue(gate: Gate) -> None:
    gate.locks.acquire("x", "r1", "write")
    gate.locks.acquire("y", "r2", "write")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire_all("both", {"r1": "read", "r2": "read", "r3": "write"}, wait=0.2)
    assert [(blocker.resource, blocker.client) for blocker in refusal.value.blockers] == [("r1", "x"), ("r2", "y")]
    assert gate.locks.waiters() == []
    gate.locks.acquire("z", "r3", "write")


# ------------------------------------------------------------------ dead-lock


def test_clients_that_wait_for_each_other_are_named_in_the_refusal(gates: Gates) -> None:
    """a has r1 and wants r2; b has r2 and wants r3; c has r3 and wants r1."""
    gate = gates.open()
    wants = {"a": ("r1", "r2"), "b": ("r2", "r3"), "c": ("r3", "r1")}
    held = {client: gate.locks.acquire(client, has, "write") for client, (has, _) in wants.items()}
    futures: dict[str, Future[Lock]] = {
        client: queue_behind(gates.open(), client, wants[client][1], "write", wait=PATIENCE) for client in ("a", "b")
    }
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("c", "r1", "write", wait=0.2)
    assert refusal.value.cycle == ("c", "a", "b", "c")
    assert "these clients wait for each other (a deadlock): c → a → b → c" in str(refusal.value)
    gate.locks.release(held["c"])
    gate.locks.release(granted(futures["b"]))
    gate.locks.release(held["b"])
    granted(futures["a"])


def test_waiting_for_ones_own_lock_is_refused(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("a", R, "write", wait=0.1)
    assert refusal.value.cycle == ("a", "a")


def test_a_plain_timeout_names_no_deadlock(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("b", R, "write", wait=0.1)
    assert refusal.value.cycle == ()
    assert "each other" not in str(refusal.value)


# ------------------------------------------------------------------ lists of waiters


def test_waiters_are_shown_with_position_mode_and_since(gates: Gates) -> None:
    gate = gates.open()
    held = gate.locks.acquire("a", R, "write", lease=LONG)
    waiting = queue_behind(gates.open(), "b", R, "read")
    (waiter,) = gate.locks.waiters(R)
    assert (waiter.resource, waiter.client, waiter.mode) == (R, "b", SHARED)
    assert str(os.getpid()) in waiter.owner
    assert waiter.since >= gate.locks.list(resource=R)[0].since
    assert gate.locks.waiters("nobody waits here") == []
    gate.locks.release(held)
    granted(waiting)


def test_a_lock_that_was_waited_for_is_like_any_other(gates: Gates) -> None:
    gate = gates.open()
    first = gate.locks.acquire("a", R, "write")
    future = queue_behind(gates.open(), "b", R, "read", lease=LONG, note="why", request_id="my own")
    gate.locks.release(first)
    lock = granted(future)
    assert (lock.lease, lock.note, lock.request_id, lock.count) == (LONG, "why", "my own", 1)
    seen = gate.locks.get(lock.id)
    assert (seen.token, seen.since, seen.mode, seen.note) == (lock.token, lock.since, SHARED, "why")


def test_a_request_has_one_queue_position_however_many_processes_repeat_it(gates: Gates) -> None:
    """Like replicas of a service, each of which knows that others wait for the resource."""
    first, second = gates.open(), gates.open()
    held = first.locks.acquire("a", R, "write")
    request, other = request_for("b", (R, EXCLUSIVE)), request_for("c", (R, EXCLUSIVE))
    before = port_of(second).queue_up(other)
    assert isinstance(before, Ticket)
    assert port_of(second).take_turn(before) is None
    ticket = port_of(first).queue_up(request)
    found = port_of(second).place_of(request) or port_of(second).queue_up(request)
    assert (found, waiting_clients(first)) == (ticket, ["c", "b"])
    assert isinstance(found, Ticket)
    assert port_of(second).place_of(request_for("b", (R, EXCLUSIVE))) is None
    port_of(second).withdraw(before)
    first.locks.release(held)
    until(lambda: port_of(second).take_turn(found), "the turn")
    assert holders(first, R) == [("b", "exclusive")]
    assert waiting_clients(first) == []

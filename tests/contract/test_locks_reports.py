"""What is visible: history, status, lists, clients and resources."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from headgate import Gate, LockRefused, UnknownName
from headgate.core.filters import LockFilter
from headgate.stores.ports.locks import LockStore
from tests.contract.queue_steps import job_in
from tests.contract.steps import (
    EXCLUSIVE,
    LONG,
    SHARED,
    Gates,
    history_of,
    lock_of_the_dead,
    queue_behind,
    request_for,
    told,
)

R = "mysql://db1/core"


# ------------------------------------------------------------------ history


def test_the_history_of_a_script_is_complete_and_in_order(gates: Gates) -> None:
    gate = gates.open()
    writing = gate.locks.acquire("a", R, "write")
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", R, "read")
    reading = gate.locks.downgrade(writing)
    joined = gate.locks.acquire("b", R, "read", reentrant=True)
    gate.locks.acquire("b", R, "read", reentrant=True)
    gate.locks.release(joined)
    gate.locks.release(joined)
    upgraded = gate.locks.upgrade(reading)
    gate.locks.break_lock(upgraded.id, reason="it hangs", by="ops")
    dead = lock_of_the_dead(gates, R)
    gate.locks.release(gate.locks.acquire("c", R, "write"))
    script = [(entry.event, entry.client, entry.before, entry.after) for entry in reversed(gate.history(R))]
    assert script == [
        ("grant", "a", "new", "exclusive"),
        ("refuse", "b", "new", "refused"),
        ("downgrade", "a", "exclusive", "shared"),
        ("grant", "b", "new", "shared"),
        ("enter", "b", "shared", "shared"),
        ("leave", "b", "shared", "shared"),
        ("release", "b", "shared", "released"),
        ("upgrade", "a", "shared", "exclusive"),
        ("break", "a", "exclusive", "broken"),
        ("grant", "dead", "new", "exclusive"),
        ("expire", "dead", "exclusive", "expired"),
        ("grant", "c", "new", "exclusive"),
        ("release", "c", "exclusive", "released"),
    ]
    by_event = {entry.event: entry for entry in gate.history(R)}
    assert by_event["upgrade"].token == upgraded.token > writing.token
    assert by_event["expire"].token == dead.token
    assert by_event["refuse"].reason == "requested shared, but a holds exclusive"


def test_history_ids_grow_and_times_do_not_go_back(gate: Gate) -> None:
    began = datetime.now(UTC) - timedelta(minutes=5)
    for number in range(5):
        gate.locks.release(gate.locks.acquire("a", f"r{number}", "write"))
    entries = list(reversed(gate.history()))
    assert [entry.id for entry in entries] == sorted({entry.id for entry in entries})
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    assert all(began < entry.at < datetime.now(UTC) + timedelta(minutes=5) for entry in entries)
    assert {entry.noun for entry in entries} == {"lock"}


def test_the_history_can_be_filtered_and_paged(gate: Gate) -> None:
    locks = [gate.locks.acquire(client, resource, "read") for client in ("a", "b") for resource in ("r1", "r2")]
    gate.locks.release(locks[0])
    assert [entry.resource for entry in gate.history("r2")] == ["r2", "r2"]
    assert [entry.client for entry in gate.history(client="b")] == ["b", "b"]
    assert [entry.lock_id for entry in gate.history(event="release")] == [locks[0].id]
    assert told(gate, lock_id=locks[0].id) == ["grant", "release"]
    newest = gate.history(limit=2)
    older = gate.history(after=newest.next, limit=2)
    oldest = gate.history(after=older.next)
    assert [entry.id for entry in [*newest, *older, *oldest]] == [entry.id for entry in gate.history()]
    assert len(oldest) == 1
    assert len(gate.history(since=newest[-1].at)) >= 2
    assert not gate.history(since=datetime.now(UTC) + timedelta(days=1))
    assert not gate.history("never named")


def test_refusals_are_counted_and_kept_once_a_minute(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write")
    for _ in range(5):
        with pytest.raises(LockRefused):
            gate.locks.acquire("b", R, "read")
    with pytest.raises(LockRefused):
        gate.locks.acquire("c", R, "write")
    mine = [entry for entry in gate.history(event="refuse") if entry.client == "b"]
    assert sum(entry.count for entry in mine) == 5
    # The minute may have changed meanwhile, but then the entries are from different minutes.
    assert len(mine) == len({entry.at.replace(second=0, microsecond=0) for entry in mine}) <= 2
    assert [entry.count for entry in gate.history(event="refuse", client="c")] == [1]


def test_a_refused_upgrade_is_counted_too(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "read")
    gate.locks.acquire("b", R, "read")
    with pytest.raises(LockRefused):
        gate.locks.upgrade(lock)
    (entry,) = gate.history(event="refuse")
    assert (entry.client, entry.resource) == ("a", R)
    assert entry.reason == "requested exclusive, but b holds shared"


def test_the_history_outlives_a_forgotten_resource(store: LockStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    store.release(lock.id, lock.token)
    store.forget_resource(R)
    assert [entry.resource for entry in history_of(store, resource=R)] == [R, R]


# ------------------------------------------------------------------ status


def test_the_status_has_the_form_of_the_ids(gate: Gate) -> None:
    """Two shared locks on one resource are one entry, with count 2."""
    gate.locks.acquire("a", "ark:/13030/m5", "read")
    gate.locks.acquire("b", "ark:/13030/m5", "read")
    assert gate.status() == {
        "opsQueue": [],
        "lockCount": 1,
        "locks": [{"id": "ark:/13030/m5", "type": "SHARED", "count": 2}],
        "failures": [],
    }


def test_the_status_reports_every_ingest_job_that_has_not_ended_and_what_failed(gate: Gate) -> None:
    failed = job_in(gate.queue, "failed")
    running = job_in(gate.queue, "processing")
    job_in(gate.queue, "pending")
    status = gate.status()
    assert {"request": "PROCESSING", "data": f"{running.batch}/{running.id} ({running.profile})"} in status["opsQueue"]
    assert sorted(each["request"] for each in status["opsQueue"]) == ["PENDING", "PROCESSING"]
    assert [(each["id"], each["message"]) for each in status["failures"]] == [(failed.id, failed.message)]


def test_the_status_of_nothing_is_empty(gate: Gate) -> None:
    assert gate.status() == {"opsQueue": [], "lockCount": 0, "locks": [], "failures": []}
    gate.locks.release(gate.locks.acquire("a", R, "write"))
    assert gate.status()["locks"] == []


def test_the_status_counts_entries_not_locks(gate: Gate) -> None:
    for resource, mode, client in (("b", "read", "x"), ("b", "read", "y"), ("a", "write", "x"), ("c", "read", "x")):
        gate.locks.acquire(client, resource, mode)
    status = gate.status()
    assert status["lockCount"] == 3
    assert status["locks"] == [
        {"id": "a", "type": "EXCLUSIVE", "count": 1},
        {"id": "b", "type": "SHARED", "count": 2},
        {"id": "c", "type": "SHARED", "count": 1},
    ]


def test_a_counted_lock_is_one_lock_in_the_status(gate: Gate) -> None:
    for _ in range(3):
        gate.locks.acquire("a", R, "write", reentrant=True)
    assert gate.status()["locks"] == [{"id": R, "type": "EXCLUSIVE", "count": 1}]


def test_expired_locks_are_not_in_the_status(gates: Gates) -> None:
    lock_of_the_dead(gates, R)
    assert gates.open().status(rich=True)["locks"] == []


def test_the_rich_status_adds_holders_and_waiters(gates: Gates) -> None:
    gate = gates.open()
    lock = gate.locks.acquire("a", R, "write", lease=LONG, note="nightly")
    waiting = queue_behind(gates.open(), "b", R, "read", wait=30)
    status = gate.status(rich=True)
    assert {key: status[key] for key in ("opsQueue", "lockCount", "locks", "failures")} == gate.status()
    (holder,) = status["holders"]
    assert (holder["id"], holder["client"], holder["mode"], holder["token"]) == (lock.id, "a", "exclusive", lock.token)
    assert (holder["since"], holder["lease"], holder["note"], holder["owner"]) == (
        lock.since,
        LONG,
        "nightly",
        lock.owner,
    )
    assert 0 < holder["expires_in"] <= LONG
    (waiter,) = status["waiting"]
    assert (waiter["resource"], waiter["client"], waiter["mode"]) == (R, "b", "shared")
    gate.locks.release(lock)
    waiting.result(timeout=30)


# ------------------------------------------------------------------ lists


def test_the_list_can_be_filtered_in_every_way(gate: Gate) -> None:
    locks = {
        (client, resource, mode): gate.locks.acquire(client, resource, mode).id
        for client, resource, mode in (("a", "r1", "read"), ("b", "r1", "read"), ("a", "r2", "write"))
    }

    def listed(**which: str) -> set[str]:
        return {lock.id for lock in gate.locks.list(**which)}  # type: ignore[arg-type]

    assert listed() == set(locks.values())
    assert listed(resource="r1") == {locks["a", "r1", "read"], locks["b", "r1", "read"]}
    assert listed(client="a") == {locks["a", "r1", "read"], locks["a", "r2", "write"]}
    assert listed(mode="SHARED") == {locks["a", "r1", "read"], locks["b", "r1", "read"]}
    assert listed(client="a", mode="write") == {locks["a", "r2", "write"]}
    assert listed(client="b", resource="r2") == set()
    assert listed(resource="R1") == set()


def test_the_list_is_paged_by_id(gate: Gate) -> None:
    ids = sorted(gate.locks.acquire("a", f"r{number}", "read").id for number in range(7))
    pages, after = [], None
    while page := gate.locks.list(limit=3, after=after):
        pages.append([lock.id for lock in page])
        after = page[-1].id
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [lock_id for page in pages for lock_id in page] == ids


def test_paging_keeps_to_its_filter(gate: Gate) -> None:
    wanted = sorted(gate.locks.acquire("a", f"r{number}", "read").id for number in range(4))
    for number in range(4):
        gate.locks.acquire("b", f"r{number}", "read")
    first = gate.locks.list(client="a", limit=2)
    rest = gate.locks.list(client="a", limit=9, after=first[-1].id)
    assert [lock.id for lock in [*first, *rest]] == wanted


def test_a_lock_shows_who_where_and_why(gate: Gate) -> None:
    lock = gate.locks.acquire("copy-core", R, "write", note="nightly copy")
    (seen,) = gate.locks.list()
    assert (seen.client, seen.note, seen.owner) == ("copy-core", "nightly copy", lock.owner)
    assert re.search(r"pid \d+", seen.owner)
    assert abs(seen.since - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_lock_that_is_not_there_is_unknown(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    gate.locks.release(lock)
    acts: tuple[Callable[[str], object], ...] = (
        gate.locks.get,
        lambda lock_id: gate.locks.break_lock(lock_id, reason="gone"),
    )
    for act in acts:
        with pytest.raises(UnknownName, match=lock.id):
            act(lock.id)


# ------------------------------------------------------------------ clients and resources


def test_a_client_is_registered_once_and_keeps_its_since(store: LockStore) -> None:
    first = store.register_client("b")
    assert store.register_client("b") == first
    store.register_client("a")
    store.register_client("B")
    assert [name for name, _ in store.clients()] == ["B", "a", "b"]
    assert dict(store.clients())["b"] == first
    assert abs(first - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_client_can_be_forgotten_unless_it_holds_a_lock(store: LockStore) -> None:
    store.register_client("a")
    store.forget_client("a")
    assert list(store.clients()) == []
    with pytest.raises(UnknownName, match="'a'"):
        store.forget_client("a")


def test_resources_are_known_once_registered_or_locked(store: LockStore) -> None:
    store.register_resource("b")
    store.register_resource("b")
    (lock,) = store.acquire(request_for("x", ("a", SHARED)))
    assert list(store.resources()) == ["a", "b"]
    store.release(lock.id, lock.token)
    assert list(store.resources()) == ["a", "b"]


def test_registering_a_resource_neither_locks_it_nor_leaves_history(store: LockStore) -> None:
    store.register_resource("a")
    assert store.list(LockFilter()) == []
    assert history_of(store) == []
    (lock,) = store.acquire(request_for("x", ("a", EXCLUSIVE)))
    store.register_resource("a")
    assert store.check(lock.id, lock.token).alive


def test_a_resource_is_forgotten_unless_it_is_held_or_waited_for(store: LockStore) -> None:
    store.register_resource("a")
    store.forget_resource("a")
    assert list(store.resources()) == []
    for name in ("a", "never named"):
        with pytest.raises(UnknownName, match=name):
            store.forget_resource(name)
    store.register_resource("a")
    assert list(store.resources()) == ["a"]


def test_reading_registers_nothing(gate: Gate, store: LockStore) -> None:
    gate.locks.list(resource="r", client="c")
    gate.locks.waiters("r")
    gate.history("r", client="c")
    gate.status(rich=True)
    assert (list(store.resources()), list(store.clients())) == ([], [])

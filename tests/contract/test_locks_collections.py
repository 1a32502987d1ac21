"""All or none: a collection of resources is acquired in one step, or not at all."""

import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from headgate import BadValue, Gate, LockRefused, Mode
from headgate.stores.sql.database.transaction import Transaction
from tests.conftest import SQL_STORES
from tests.contract.steps import LONG, PATIENCE, Gates, everything, granted, holders, in_thread, lock_of_the_dead, told
from tests.waiting import until

#: Statements of one request, and of its repeat after a conflict.
MOST_STATEMENTS = 30
WANTS = {"r3": "write", "r1": "read", "r2": "WRITE"}


def test_a_collection_is_granted_whole_in_the_order_of_its_names(gate: Gate) -> None:
    grant = gate.locks.acquire_all("a", WANTS, lease=LONG, note="why")
    assert [(lock.resource, lock.mode) for lock in grant] == [
        ("r1", Mode.SHARED),
        ("r2", Mode.EXCLUSIVE),
        ("r3", Mode.EXCLUSIVE),
    ]
    assert {(lock.client, lock.lease, lock.note) for lock in grant} == {("a", LONG, "why")}
    assert len({lock.id for lock in grant}) == 3
    assert len({lock.request_id for lock in grant}) == 1
    assert sorted(entry.resource for entry in gate.history(event="grant")) == ["r1", "r2", "r3"]


def test_each_lock_of_a_collection_is_released_on_its_own(gate: Gate) -> None:
    first, *rest = gate.locks.acquire_all("a", WANTS)
    gate.locks.release(first)
    assert {lock.id for lock in gate.locks.list()} == {lock.id for lock in rest}


def test_nothing_is_taken_when_one_is_refused_and_every_blocker_is_named(gate: Gate) -> None:
    one = gate.locks.acquire("x", "r3", "read")
    other = gate.locks.acquire("y", "r3", "read")
    third = gate.locks.acquire("z", "r1", "write")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire_all("a", WANTS)
    named = [(blocker.resource, blocker.client, blocker.lock_id) for blocker in refusal.value.blockers]
    assert named == [("r1", "z", third.id), ("r3", "x", one.id), ("r3", "y", other.id)]
    assert [want.resource for want in refusal.value.request.wants] == ["r1", "r2", "r3"]
    assert len(gate.locks.list()) == 3
    assert holders(gate, "r2") == []
    assert told(gate, event="grant") == ["grant"] * 3


def test_a_refused_collection_makes_no_resource_known(gate: Gate) -> None:
    """Requesting is not locking: resources that were only requested leave no trace."""
    gate.locks.acquire("x", "r3", "read")
    with pytest.raises(LockRefused):
        gate.locks.acquire_all("a", WANTS)
    assert everything(gate).resources == ["r3"]


def test_a_refusal_is_counted_for_the_resources_that_were_busy(gate: Gate) -> None:
    gate.locks.acquire("x", "r1", "write")
    gate.locks.acquire("x", "r3", "write")
    with pytest.raises(LockRefused):
        gate.locks.acquire_all("a", WANTS)
    refused = [(entry.resource, entry.client) for entry in gate.history(event="refuse")]
    assert sorted(refused) == [("r1", "a"), ("r3", "a")]


def test_locks_of_dead_holders_are_removed_on_the_way(gates: Gates) -> None:
    lock_of_the_dead(gates, "r2")
    grant = gates.open().locks.acquire_all("a", WANTS)
    assert [lock.resource for lock in grant] == ["r1", "r2", "r3"]


def test_one_resource_cannot_be_named_twice(gate: Gate) -> None:
    """It is a mapping: a resource has one mode."""
    before = everything(gate)
    for wrong in ([("r1", "read"), ("r1", "write")], {("r1", "r1"): "read"}, "r1", None, {}):
        with pytest.raises(BadValue):
            gate.locks.acquire_all("a", wrong)  # type: ignore[arg-type]
    assert everything(gate) == before


def test_one_bad_name_among_good_ones_takes_nothing(gate: Gate) -> None:
    for wrong in ({"r1": "write", "": "write"}, {"r1": "write", "r2": "append"}, {"r1": "write", 5: "read"}):
        with pytest.raises(BadValue):
            gate.locks.acquire_all("a", wrong)  # type: ignore[arg-type]
    assert gate.locks.list() == []


def test_many_resources_at_once(gate: Gate) -> None:
    wants = {f"data:D/{number}": "write" for number in range(150)}
    grant = gate.locks.acquire_all("a", wants)
    assert [lock.resource for lock in grant] == sorted(wants)
    assert gate.status()["lockCount"] == 150
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire_all("b", wants)
    assert len(refusal.value.blockers) == 150


def test_more_resources_than_the_limit_are_refused_before_the_store_is_asked(gates: Gates) -> None:
    gate = gates.open(resource_limit="3")
    assert len(gate.locks.acquire_all("a", WANTS)) == 3
    before = everything(gate)
    with pytest.raises(BadValue, match=r"4 of them.* 3 are accepted \(setting resource_limit\)"):
        gate.locks.acquire_all("a", {**WANTS, "r4": "read"}, wait=1)
    assert everything(gate) == before
    with pytest.raises(BadValue, match="1,000 are accepted"):
        gates.open().locks.acquire_all("a", {f"r{number}": "read" for number in range(1001)})


def test_a_thousand_resources_are_waited_for_and_granted_together(gates: Gates) -> None:
    """In few steps: each of these calls returns within its deadline even on a loaded machine."""
    wants = {f"s3://bucket/prefix/{number:04}": "write" for number in range(1000)}
    one, other = gates.open(answer_within="20"), gates.open(answer_within="20")
    first = one.locks.acquire("a", "s3://bucket/prefix/0500", "write")
    waiting = in_thread(lambda: other.locks.acquire_all("b", wants, wait=PATIENCE, lease=60))
    # Only one of them is requested: listing a thousand repeatedly would slow down the expected change.
    until(lambda: one.locks.waiters("s3://bucket/prefix/0999"), "it to wait")
    assert len(one.locks.waiters()) == 1000
    one.locks.release(first)
    grant = granted(waiting)
    assert [lock.resource for lock in grant] == sorted(wants)
    again = other.locks.acquire_all("b", wants, reentrant=True, lease=90, request_id="again")
    assert {(lock.count, lock.lease) for lock in again} == {(2, 90)}
    assert [lock.id for lock in again] == [lock.id for lock in grant]
    with pytest.raises(LockRefused) as refusal:
        one.locks.acquire_all("a", dict.fromkeys(wants, "read"))
    assert len(refusal.value.blockers) == 1000
    assert len(one.history(event="refuse", limit=1000)) == 1000


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_collection_takes_few_statements_however_large_it_is(
    gate: Gate, kind: str, monkeypatch: pytest.MonkeyPatch, reentrant: bool
) -> None:
    if kind not in SQL_STORES:
        return
    counts: Counter[str] = Counter()
    for name in ("_execute", "many"):
        plain = getattr(Transaction, name)

        def counted(*arguments: Any, plain: Any = plain, **named: Any) -> Any:
            counts["calls"] += 1
            return plain(*arguments, **named)

        monkeypatch.setattr(Transaction, name, counted)

    def calls(prefix: str, count: int) -> list[int]:
        wants = {f"{prefix}{number}": "read" for number in range(count)}
        found = []
        for how in ({}, {}, {"mode": "write"}, {"wait": 0.01}):
            counts.clear()
            asked = dict.fromkeys(wants, how.pop("mode", "read"))
            with suppress(LockRefused):
                gate.locks.acquire_all("a", asked, reentrant=reentrant, lease=60, **how)  # type: ignore[arg-type]
            found.append(counts["calls"])
        counts.clear()
        with suppress(LockRefused):
            gate.locks.acquire_all("b", dict.fromkeys(wants, "write"))
        return [*found, counts["calls"]]

    assert max(calls("many", 100)) <= MOST_STATEMENTS


def test_a_reentrant_collection_enters_what_is_held_and_is_granted_the_rest(gate: Gate) -> None:
    mine = gate.locks.acquire("a", "r1", "write", reentrant=True)
    grant = gate.locks.acquire_all("a", {"r1": "read", "r2": "read"}, reentrant=True)
    assert [(lock.resource, lock.count) for lock in grant] == [("r1", 2), ("r2", 1)]
    assert grant[0].id == mine.id


def test_crossing_collections_never_block_each_other_forever(gates: Gates) -> None:
    """Whatever order they use, each is one step in one order, so there is no deadlock."""
    start = threading.Barrier(4)

    def work(number: int) -> int:
        gate = gates.open()
        names = ["r1", "r2", "r3"]
        ordered = dict.fromkeys(names if number % 2 else reversed(names), "write")
        start.wait()
        for _ in range(5):
            for lock in gate.locks.acquire_all(f"client {number}", ordered, wait=60):
                gate.locks.release(lock)
        return number

    assert [granted(future) for future in [in_thread(lambda n=n: work(n)) for n in range(4)]] == list(range(4))  # type: ignore[misc]
    assert gates.open().locks.list() == []

"""Tokens only grow, a stale one has no effect, and a repeated request is recognised."""

import subprocess
import sys

import pytest

from headgate import BadValue, Gate, LockLost, LockRefused
from headgate.stores.ports.locks import LockStore
from tests.contract.steps import (
    EXCLUSIVE,
    LONG,
    SHARED,
    Gates,
    everything,
    holders,
    lock_of_the_dead,
    request_for,
    told,
)

R = "mysql://db1/core"


def test_each_grant_on_a_resource_has_a_greater_token(gate: Gate) -> None:
    tokens = []
    for mode in ("write", "read", "write", "read"):
        lock = gate.locks.acquire("a", R, mode)
        tokens.append(lock.token)
        gate.locks.release(lock)
    tokens += [gate.locks.acquire("a", R, "read").token for _ in range(3)]
    assert tokens == sorted(set(tokens))
    assert all(token > 0 for token in tokens)


def test_tokens_grow_over_every_way_that_a_lock_may_end(gates: Gates) -> None:
    gate = gates.open()
    tokens = []
    released = gate.locks.acquire("a", R, "write")
    tokens.append(released.token)
    gate.locks.release(released)
    tokens.append(lock_of_the_dead(gates, R).token)
    broken = gate.locks.acquire("a", R, "read")
    tokens.append(broken.token)
    gate.locks.break_lock(broken.id, reason="it hangs")
    upgraded = gate.locks.acquire("a", R, "read")
    tokens += [upgraded.token, gate.locks.upgrade(upgraded).token]
    assert tokens == sorted(set(tokens))


def test_tokens_keep_growing_after_all_locks_are_released(gates: Gates) -> None:
    first = gates.open()
    lock = first.locks.acquire("a", R, "write")
    first.locks.release(lock)
    gates.close()
    again = gates.open().locks.acquire("a", R, "write")
    assert again.token > lock.token


def test_tokens_keep_growing_after_the_resource_was_deleted(store: LockStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    store.release(lock.id, lock.token)
    store.forget_resource(R)
    assert list(store.resources()) == []
    (again,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    assert again.token > lock.token
    assert list(store.resources()) == [R]


def test_another_process_continues_the_same_tokens(gates: Gates) -> None:
    gate = gates.open()
    before = gate.locks.acquire("a", R, "read").token
    program = (
        "import sys, headgate\nprint(headgate.connect(sys.argv[1]).locks.acquire('b', sys.argv[2], 'read').token)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, gates.url, R], capture_output=True, text=True, check=True)
    assert before < int(ended.stdout) < gate.locks.acquire("a", R, "read").token


# ------------------------------------------------------------------ check, release, break


def test_check_returns_the_current_lock_and_writes_nothing(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write", lease=LONG, note="why")
    before = everything(gate)
    for seen in (gate.locks.check(lock), gate.locks.check(lock.id, lock.token), gate.locks.get(lock.id)):
        assert (seen.id, seen.resource, seen.client, seen.mode) == (lock.id, R, "a", EXCLUSIVE)
        assert (seen.token, seen.since, seen.count, seen.note) == (lock.token, lock.since, 1, "why")
        assert seen.owner == lock.owner
    # The request's id is shown to the holder who proves the grant, and by a service to no one else.
    assert gate.locks.check(lock).request_id == lock.request_id
    assert everything(gate) == before


def test_releasing_twice_is_an_error_that_changes_nothing(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    gate.locks.release(lock)
    before = everything(gate)
    with pytest.raises(LockLost) as lost:
        gate.locks.release(lock)
    assert (lost.value.lock_id, lost.value.token) == (lock.id, lock.token)
    assert everything(gate) == before


def test_releasing_a_lock_that_another_client_holds_now_changes_nothing(gate: Gate) -> None:
    mine = gate.locks.acquire("a", R, "write")
    gate.locks.release(mine)
    other = gate.locks.acquire("b", R, "write")
    before = everything(gate)
    for lock_id, token in ((mine.id, mine.token), (mine.id, other.token), (other.id, mine.token)):
        with pytest.raises(LockLost):
            gate.locks.release(lock_id, token)
    assert everything(gate) == before
    assert gate.locks.check(other).alive


def test_an_explicit_token_overrides_that_of_the_lock(gate: Gate) -> None:
    """It is not ignored silently."""
    lock = gate.locks.acquire("a", R, "write")
    locks = gate.locks
    for act in (locks.release, locks.check, locks.renew, locks.upgrade, locks.downgrade):
        with pytest.raises(LockLost):
            act(lock, lock.token + 1)
    gate.locks.release(lock, lock.token)


def test_one_shared_lock_is_released_without_touching_the_others(gate: Gate) -> None:
    locks = [gate.locks.acquire(client, R, "read") for client in "abc"]
    gate.locks.release(locks[1])
    assert holders(gate, R) == [("a", "shared"), ("c", "shared")]
    with pytest.raises(LockRefused):
        gate.locks.acquire("d", R, "write")


def test_breaking_frees_the_resource_reports_why_and_makes_the_token_stale(gates: Gates) -> None:
    gate, operator = gates.open(), gates.open()
    lock = gate.locks.acquire("a", R, "write")
    broken = operator.locks.break_lock(lock.id, reason="node 7 is down", by="ops on call")
    assert (broken.id, broken.client, broken.token) == (lock.id, "a", lock.token)
    with pytest.raises(LockLost, match="node 7 is down"):
        gate.locks.check(lock)
    assert gate.locks.acquire("b", R, "write").token > lock.token
    (entry,) = gate.history(event="break")
    assert (entry.client, entry.lock_id, entry.token) == ("a", lock.id, lock.token)
    assert (entry.before, entry.after) == ("exclusive", "broken")
    assert entry.reason == "ops on call: node 7 is down"


def test_breaking_ends_all_holds_of_a_counted_lock(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write", reentrant=True)
    lock = gate.locks.acquire("a", R, "write", reentrant=True)
    gate.locks.break_lock(lock.id, reason="it hangs")
    assert gate.locks.list() == []
    gate.locks.acquire("b", R, "write")


def test_a_break_without_a_name_records_the_process(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    gate.locks.break_lock(lock.id, reason="it hangs")
    assert "pid" in gate.history(event="break")[0].reason


# ------------------------------------------------------------------ repeated requests


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE])
def test_a_repeated_request_returns_the_same_grant(gates: Gates, mode: str) -> None:
    """A request is repeated after a lost answer: nothing is granted or recorded twice."""
    lock = gates.open().locks.acquire("a", R, mode, lease=LONG, request_id="mine")
    gate = gates.open()
    again = gate.locks.acquire("a", R, mode, lease=LONG, request_id="mine")
    waited = gate.locks.acquire("a", R, mode, lease=LONG, request_id="mine", wait=5)
    assert {(each.id, each.token, each.count) for each in (lock, again, waited)} == {(lock.id, lock.token, 1)}
    assert told(gate) == ["grant"]


def test_a_repeated_collection_returns_the_same_grants(gate: Gate) -> None:
    wants = {"r1": "read", "r2": "write"}
    first = gate.locks.acquire_all("a", wants, request_id="mine")
    again = gate.locks.acquire_all("a", wants, request_id="mine")
    assert [(lock.id, lock.token) for lock in again] == [(lock.id, lock.token) for lock in first]
    assert told(gate) == ["grant", "grant"]


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_repeated_reentrant_request_is_counted_once(gate: Gate, mode: str) -> None:
    gate.locks.acquire("a", R, mode, reentrant=True, request_id="outer")
    inner = gate.locks.acquire("a", R, mode, reentrant=True, request_id="inner")
    again = gate.locks.acquire("a", R, mode, reentrant=True, request_id="inner")
    assert (inner.count, again.count, again.id) == (2, 2, inner.id)


@pytest.mark.parametrize("held", ["read", "write"])
@pytest.mark.parametrize(
    ("client", "wants"),
    [("b", {R: "same"}), ("a", {R: "other"}), ("a", {R: "same", "another": "read"})],
    ids=["another client", "another mode", "more resources"],
)
def test_a_request_id_with_other_content_is_refused(gate: Gate, held: str, client: str, wants: dict[str, str]) -> None:
    gate.locks.acquire("a", R, held, request_id="mine")
    other = {"same": held, "other": "write" if held == "read" else "read"}
    asked = {resource: other.get(mode, mode) for resource, mode in wants.items()}
    before = everything(gate)
    with pytest.raises(BadValue, match="'mine'"):
        gate.locks.acquire_all(client, asked, request_id="mine")
    assert everything(gate) == before


def test_a_request_id_is_free_again_after_its_lock_has_ended(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "read", request_id="mine")
    gate.locks.release(lock)
    again = gate.locks.acquire("b", R, "write", request_id="mine")
    assert again.token > lock.token
    with pytest.raises(LockLost):
        gate.locks.release(lock)


def test_requests_without_an_id_are_always_distinct(gate: Gate) -> None:
    assert len({gate.locks.acquire("a", R, "read").id for _ in range(20)}) == 20

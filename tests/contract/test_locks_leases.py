"""Persistent locks stay; leased ones expire without renewal, by the store's clock and no other."""

import subprocess
import sys
import time

import pytest

from headgate import Gate, LockLost, LockRefused, Refused, UnknownName
from headgate.stores.ports.locks import LockStore
from tests.contract.steps import (
    EXCLUSIVE,
    LONG,
    LONGER,
    SHARED,
    SHORT,
    Gates,
    everything,
    holders,
    let_die,
    lock_of_the_dead,
    queue_behind,
    request_for,
    told,
)
from tests.waiting import until

R = "mysql://db1/core"
DAY = 86_400


def test_a_persistent_lock_outlives_its_process(gates: Gates) -> None:
    """Acquired by a process that ends silently; still held, and released by any caller with id and token."""
    program = (
        "import os, sys, headgate\n"
        "lock = headgate.connect(sys.argv[1]).locks.acquire('a', sys.argv[2], 'write')\n"
        "print(lock.id, lock.token, flush=True)\n"
        "os._exit(0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, gates.url, R], capture_output=True, text=True, check=True)
    lock_id, token = ended.stdout.split()
    gate = gates.open()
    lock = gate.locks.get(lock_id)
    assert (lock.lease, lock.expires_in, lock.alive) == (None, None, True)
    with pytest.raises(LockRefused, match="persistent"):
        gate.locks.acquire("b", R, "read")
    gate.locks.release(lock_id, int(token))
    assert gate.locks.list() == []


def test_expiring_leaves_persistent_locks_alone(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write")
    assert gate.locks.expire() == 0
    assert holders(gate, R) == [("a", "exclusive")]


def test_a_leased_lock_shows_its_remaining_time(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write", lease=LONG)
    seen = gate.locks.get(lock.id)
    assert lock.lease == seen.lease == LONG
    for each in (lock, seen, gate.locks.check(lock), gate.locks.renew(lock), gate.locks.list()[0]):
        assert each.expires_in is not None
        assert 0 < each.expires_in <= LONG
        assert each.alive


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE])
def test_the_lock_of_a_dead_holder_expires(gates: Gates, mode: str) -> None:
    dead = lock_of_the_dead(gates, R, mode)
    gate = gates.open()
    assert gate.locks.list() == []
    assert gate.status()["lockCount"] == 0
    lock = gate.locks.acquire("next", R, "write")
    assert lock.token > dead.token
    assert told(gate, resource=R) == ["grant", "expire", "grant"]


def test_expiry_is_reported_once_however_many_processes_notice_it(gates: Gates) -> None:
    dead = lock_of_the_dead(gates, R)
    one, other = gates.open(), gates.open()
    one.locks.expire()
    other.locks.expire()
    assert told(one, lock_id=dead.id) == ["grant", "expire"]
    (entry,) = one.history(event="expire")
    assert (entry.client, entry.token, entry.before, entry.after) == ("dead", dead.token, "exclusive", "expired")


def test_expire_says_how_many_it_freed(gates: Gates) -> None:
    doomed, gate = gates.open(), gates.open()
    locks = [doomed.locks.acquire("dead", f"r{number}", "write", lease=SHORT) for number in range(3)]
    gate.locks.acquire("alive", "r9", "write", lease=LONG)
    for lock in locks:
        let_die(lock, gate)
    # Another process may have noticed some of them first, but each is recorded exactly once.
    assert gate.locks.expire() <= 3
    assert told(gate, event="expire") == ["expire"] * 3
    assert gate.locks.expire() == 0
    assert holders(gate, "r9") == [("alive", "exclusive")]


def test_an_expired_lease_is_not_renewed_checked_released_or_changed(gates: Gates) -> None:
    dead = lock_of_the_dead(gates, R)
    gate = gates.open()
    before = everything(gate)
    locks = gate.locks
    for act in (locks.renew, locks.check, locks.release, locks.upgrade, locks.downgrade):
        with pytest.raises(LockLost):
            act(dead.id, dead.token)
    for look in (locks.get, lambda lock_id: locks.break_lock(lock_id, reason="gone")):
        with pytest.raises(UnknownName):
            look(dead.id)
    assert everything(gate) == before


def test_a_renewed_lease_does_not_expire(gate: Gate) -> None:
    """Renewed for several times its length, it is never lost."""
    lock = gate.locks.acquire("a", R, "write", lease=1.0)
    until = time.monotonic() + 2.2
    while time.monotonic() < until:
        renewed = gate.locks.renew(lock)
        assert (renewed.id, renewed.token, renewed.lease) == (lock.id, lock.token, 1.0)
        time.sleep(0.1)
    gate.locks.release(lock)
    assert told(gate) == ["grant", "release"]


def test_renewing_is_not_reported_in_the_history(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write", lease=LONG)
    gate.locks.renew(lock)
    assert told(gate) == ["grant"]


def test_renewing_with_another_length_makes_it_the_lease(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write", lease=LONG)
    renewed = gate.locks.renew(lock, lease=LONGER)
    assert renewed.lease == LONGER
    assert gate.locks.get(lock.id).lease == LONGER


def test_renewing_a_persistent_lock_leaves_it_persistent(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write")
    assert gate.locks.renew(lock).lease is None
    assert gate.locks.get(lock.id).expires_in is None


@pytest.mark.parametrize("shift", [10 * DAY, -10 * DAY], ids=["ahead", "behind"])
def test_the_clock_of_a_client_does_not_matter(gates: Gates, monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    """However wrong the client's wall clock is: a live lease stays valid, and a dead one expires."""
    gate = gates.open()
    lock = gate.locks.acquire("a", R, "write", lease=LONG)
    real_time, real_nanoseconds = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real_time() + shift)
    monkeypatch.setattr(time, "time_ns", lambda: real_nanoseconds() + int(shift * 1e9))
    wrong = gates.open()
    assert wrong.locks.check(lock.id, lock.token).alive
    assert wrong.locks.expire() == 0
    with pytest.raises(LockRefused):
        wrong.locks.acquire("b", R, "write")
    assert wrong.locks.renew(lock).alive
    dead = lock_of_the_dead(gates, "another")
    assert wrong.locks.acquire("b", "another", "write").token > dead.token
    monkeypatch.undo()
    assert gate.locks.check(lock).alive


def test_a_waiter_is_granted_when_the_holder_dies(gates: Gates) -> None:
    doomed, gate = gates.open(), gates.open()
    dead = doomed.locks.acquire("dead", R, "write", lease=1.0)
    waiting = queue_behind(gate, "heir", R, "write")
    lock = waiting.result(timeout=30)
    assert lock.token > dead.token
    assert told(gate, resource=R) == ["grant", "expire", "grant"]


def test_any_process_renews_by_id_and_token(gates: Gates) -> None:
    lock = gates.open().locks.acquire("a", R, "write", lease=1.0)
    other = gates.open()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert other.locks.renew(lock.id, lock.token).lease == 1.0
        time.sleep(0.1)
    other.locks.release(lock.id, lock.token)
    assert told(other) == ["grant", "release"]


# ------------------------------------------------------------------ lock-delay


def test_a_lock_delay_keeps_the_resource_closed_after_a_writer_died(gates: Gates) -> None:
    """For resources that cannot compare tokens: they stay locked while a dead holder may still be writing."""
    delayed = gates.open(lock_delay="30")
    dead = lock_of_the_dead(gates, R, lock_delay="30")
    before = delayed.locks.list()
    for mode in ("read", "write"):
        with pytest.raises(LockRefused) as refusal:
            delayed.locks.acquire("next", R, mode)
        assert [blocker.lock_id for blocker in refusal.value.blockers] == [dead.id]
    assert delayed.locks.list() == before == []
    with pytest.raises(LockLost):
        delayed.locks.check(dead)


def test_a_lock_delay_is_over_after_its_time(gates: Gates) -> None:
    gate = gates.open(lock_delay="0.5")
    dead = lock_of_the_dead(gates, R, lock_delay="0.5")
    began = time.monotonic()
    lock = gate.locks.acquire("next", R, "write", wait=30)
    assert lock.token > dead.token
    assert time.monotonic() - began < 10


def test_a_clean_release_has_no_delay(gates: Gates) -> None:
    gate = gates.open(lock_delay="30")
    gate.locks.release(gate.locks.acquire("a", R, "write", lease=LONG))
    gate.locks.release(gate.locks.acquire("b", R, "write", lease=LONG))
    broken = gate.locks.acquire("c", R, "write", lease=LONG)
    gate.locks.break_lock(broken.id, reason="an operator looked: it does not write any more")
    gate.locks.acquire("d", R, "write")


def test_a_dead_reader_causes_no_delay(gates: Gates) -> None:
    """A reader that wakes up late damages nothing."""
    dead = lock_of_the_dead(gates, R, "read", lock_delay="30")
    lock = gates.open(lock_delay="30").locks.acquire("next", R, "write")
    assert lock.token > dead.token


def test_an_expired_holder_cannot_reenter_during_the_lock_delay(gates: Gates) -> None:
    dead = lock_of_the_dead(gates, R, client="a", lock_delay="30")
    gate = gates.open(lock_delay="30")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("a", R, "write", reentrant=True)
    assert [blocker.lock_id for blocker in refusal.value.blockers] == [dead.id]


def test_a_request_repeated_after_its_reader_died_is_granted_again(gates: Gates) -> None:
    doomed = gates.open(lock_delay="30")
    lock = doomed.locks.acquire("a", R, "read", lease=SHORT, request_id="the same")
    gate = gates.open(lock_delay="30")
    let_die(lock, gate)
    again = gate.locks.acquire("a", R, "read", request_id="the same")
    assert again.id == lock.id
    assert again.token > lock.token


# ------------------------------------------------------------------ locks of dead holders


def test_expired_locks_do_not_keep_clients_or_resources_from_being_deleted(gates: Gates, store: LockStore) -> None:
    store.register_client("dead")
    lock_of_the_dead(gates, R)
    store.forget_client("dead")
    store.forget_resource(R)
    assert (list(store.clients()), list(store.resources())) == ([], [])


def test_clients_with_live_locks_cannot_be_deleted(store: LockStore) -> None:
    store.register_client("a")
    store.acquire(request_for("a", (R, SHARED), lease=LONG))
    before = everything(store)
    with pytest.raises(Refused, match="'a'"):
        store.forget_client("a")
    with pytest.raises(Refused, match=R):
        store.forget_resource(R)
    assert everything(store) == before


def test_a_killed_process_loses_its_lease(gates: Gates) -> None:
    """Killed, not closed: the store only notices the missing renewals."""
    program = (
        "import sys, headgate\n"
        "gate = headgate.connect(sys.argv[1])\n"
        "with gate.locks.held('killed', sys.argv[2], lease=2) as lock:\n"
        "    print(lock.id, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    gate = gates.open()
    with subprocess.Popen(
        [sys.executable, "-c", program, gates.url, R], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        lock_id = holder.stdout.readline().strip()
        with pytest.raises(LockRefused):
            gate.locks.acquire("next", R, "read")
        holder.kill()
    until(lambda: not gate.locks.list(resource=R), "the killed holder's lease to run out")
    gate.locks.acquire("next", R, "write")
    assert told(gate, lock_id=lock_id) == ["grant", "expire"]

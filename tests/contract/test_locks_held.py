"""`held`: renewed while the block runs, released at its end, and never silently lost."""

import threading
import time

import pytest

from headgate import Gate, LockLost, LockRefused, Mode, StoreUnavailable
from headgate.service.leases import renewal
from headgate.service.leases.renewal import LockHold
from tests.contract.steps import LONG, PATIENCE, Gates, holders, is_there, queue_behind, told
from tests.waiting import until

R = "mysql://db1/core"


class Halt(Exception):
    """Raised inside a block."""


def test_the_lock_is_held_inside_and_released_after(gate: Gate) -> None:
    with gate.locks.held("a", R) as lock:
        assert (lock.client, lock.resource, lock.mode) == ("a", R, Mode.EXCLUSIVE)
        there = gate.locks.check(lock)
        assert (there.id, there.token, there.since) == (lock.id, lock.token, lock.since)
        assert there.lease == lock.lock.lease
        assert there.lease is not None
        with pytest.raises(LockRefused):
            gate.locks.acquire("b", R, "read")
    assert gate.locks.list() == []
    assert [event for event in told(gate) if event != "refuse"] == ["grant", "release"]


@pytest.mark.parametrize("error", [Halt, KeyboardInterrupt, SystemExit])
def test_the_lock_is_released_when_the_block_raises(gate: Gate, error: type[BaseException]) -> None:
    with pytest.raises(error), gate.locks.held("a", R):
        raise error
    assert gate.locks.list() == []
    assert told(gate) == ["grant", "release"]


def test_a_refusal_runs_no_block(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write")
    with pytest.raises(LockRefused), gate.locks.held("b", R):
        pytest.fail("the block ran without its lock")
    assert holders(gate, R) == [("a", "exclusive")]


def test_the_mode_and_the_lease_are_as_asked(gate: Gate) -> None:
    with gate.locks.held("a", R, "read", lease=LONG) as one, gate.locks.held("b", R, "read", lease=None) as other:
        assert (one.mode, other.mode) == (Mode.SHARED, Mode.SHARED)
        assert (one.lock.lease, other.lock.lease) == (LONG, None)
        assert other.deadline is None


def test_a_held_lock_is_renewed_over_many_leases(gate: Gate) -> None:
    with gate.locks.held("a", R, lease=0.8) as lock:
        end = time.monotonic() + 1.7
        until(lambda: time.monotonic() > end, "two leases to pass")
        lock.check()
        assert gate.locks.check(lock).id == lock.id
    assert told(gate) == ["grant", "release"]


def test_a_lock_that_is_broken_meanwhile_is_lost_at_the_end_at_the_latest(gates: Gates) -> None:
    gate, operator = gates.open(), gates.open()
    held: list[LockHold] = []

    def lose_it() -> None:
        with gate.locks.held("a", R) as lock:
            held.append(lock)
            operator.locks.break_lock(lock.id, reason="it hangs", by="ops")
            operator.locks.acquire("b", R, "write")

    with pytest.raises(LockLost) as lost:
        lose_it()
    assert (lost.value.lock_id, lost.value.token) == (held[0].id, held[0].token)
    assert holders(operator, R) == [("b", "exclusive")]


def test_the_holder_is_notified_soon_that_its_lock_was_broken(gates: Gates) -> None:
    """`on_lost` is called, once, while the block still runs; and Hold.check raises from then on."""
    gate, operator = gates.open(), gates.open()
    calls: list[LockLost] = []
    called = threading.Event()

    def on_lost(error: LockLost) -> None:
        calls.append(error)
        called.set()

    def lose_it() -> None:
        with gate.locks.held("a", R, lease=2.0, on_lost=on_lost) as lock:
            lock.check()
            operator.locks.break_lock(lock.id, reason="it hangs", by="ops")
            assert called.wait(PATIENCE)
            with pytest.raises(LockLost):
                lock.check()
            assert lock.lost is calls[0]

    with pytest.raises(LockLost) as lost:
        lose_it()
    assert lost.value is calls[0]
    assert len(calls) == 1
    assert "broken" in str(calls[0])


def test_an_error_in_the_block_is_not_hidden_by_a_lost_lock(gates: Gates) -> None:
    gate, operator = gates.open(), gates.open()

    def fail() -> None:
        with gate.locks.held("a", R) as lock:
            operator.locks.break_lock(lock.id, reason="it hangs")
            raise Halt

    with pytest.raises(Halt):
        fail()


def test_the_block_continues_with_the_new_token_after_upgrade_and_downgrade(gate: Gate) -> None:
    with gate.locks.held("a", R, "read", lease=0.8) as lock:
        first = lock.token
        gate.locks.upgrade(lock)
        assert lock.mode is Mode.EXCLUSIVE
        assert lock.token > first
        end = time.monotonic() + 1.0
        until(lambda: time.monotonic() > end, "more than a lease to pass")
        lock.check()
        assert gate.locks.downgrade(lock) == lock.lock
    assert told(gate) == ["grant", "upgrade", "downgrade", "release"]


def test_a_block_that_releases_its_lock_itself_raises_at_the_end(gate: Gate) -> None:
    with pytest.raises(LockLost, match="released"), gate.locks.held("a", R) as lock:
        gate.locks.release(lock)
    assert told(gate) == ["grant", "release"]


def test_the_holder_stops_believing_before_the_store_does(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no renewal succeeds, the holder's own deadline ends it, `margin` seconds early."""
    monkeypatch.setattr(renewal, "RENEWALS", 0.001)  # The next renewal is a thousand leases away.
    told_at: list[float] = []
    called = threading.Event()

    def on_lost(_: LockLost) -> None:
        told_at.append(time.monotonic())
        called.set()

    def go_on() -> None:
        with gate.locks.held("a", R, lease=2.0, margin=1.0, on_lost=on_lost) as lock:
            assert lock.deadline is not None
            assert called.wait(PATIENCE)
            assert told_at[0] < lock.deadline
            assert is_there(gate, lock.id), "the store still keeps it: there was time to stop"

    with pytest.raises(LockLost, match="could not be renewed in time"):
        go_on()


def test_nothing_is_renewed_after_the_end(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[str] = []
    real = gate.locks._renew

    def renew(lock_id: str, token: int, lease: float | None = None) -> object:
        renewed.append(lock_id)
        return real(lock_id, token, lease)

    monkeypatch.setattr(gate.locks, "_renew", renew)
    with gate.locks.held("a", R, lease=0.4):
        until(lambda: len(renewed) >= 2, "two renewals")
    count = len(renewed)
    end = time.monotonic() + 0.5
    until(lambda: time.monotonic() > end, "more than a lease to pass")
    assert len(renewed) == count
    assert told(gate) == ["grant", "release"]


def test_a_lock_declared_lost_is_no_longer_renewed(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block continues after it was notified of the loss: the lock is neither renewed meanwhile, nor afterwards."""
    real, away = gate.locks._renew, threading.Event()
    after_loss: list[str] = []
    lost = threading.Event()

    def renew(lock_id: str, token: int, lease: float | None = None) -> object:
        if lost.is_set():
            after_loss.append(lock_id)
        if away.is_set():
            raise StoreUnavailable(gate.root.name, "nothing is heard of it")
        return real(lock_id, token, lease)

    def go_on() -> None:
        # The margin is most of the lease: the store still has the lock when its holder is notified.
        with gate.locks.held("a", R, lease=20.0, margin=19.0, on_lost=lambda _: lost.set()) as lock:
            away.set()
            assert lost.wait(PATIENCE)
            away.clear()
            end = time.monotonic() + 0.6
            until(lambda: time.monotonic() > end, "several renewals to be due")
            assert is_there(gate, lock.id)

    monkeypatch.setattr(renewal, "RENEWALS", 400)  # Every 50 ms.
    monkeypatch.setattr(gate.locks, "_renew", renew)
    with pytest.raises(LockLost, match="could not be renewed in time"):
        go_on()
    assert after_loss == []
    assert gate.locks.list() == []


def test_a_persistent_lock_whose_release_is_not_answered_is_released_later(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = gate.locks._release, []

    def release(lock_id: str, token: int) -> None:
        tries.append(lock_id)
        if len(tries) < 3:
            raise StoreUnavailable(gate.root.name, "nothing is heard of it")
        real(lock_id, token)

    monkeypatch.setattr(gate.locks, "_release", release)
    with pytest.raises(StoreUnavailable), gate.locks.held("a", R, lease=None):
        pass
    until(lambda: not gate.locks.list(), "the lock to be released")
    assert told(gate) == ["grant", "release"]


def test_held_waits_for_its_turn(gates: Gates) -> None:
    gate = gates.open()
    first = gate.locks.acquire("a", R, "write")
    entered = queue_behind(gates.open(), "b", R, "write", lease=LONG)
    gate.locks.release(first)
    assert entered.result(timeout=PATIENCE).client == "b"


def test_the_deadline_counts_from_before_the_grant(gate: Gate) -> None:
    """Never later than the store's deadline, whether or not it had to wait."""
    for wait in (0, 5):
        before = time.monotonic()
        with gate.locks.held("a", R, lease=LONG, wait=wait) as lock:
            assert lock.deadline is not None
            assert before + LONG <= lock.deadline <= time.monotonic() + LONG

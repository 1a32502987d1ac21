"""Compatibility of locks: the compatibility table, re-entrance, upgrade and downgrade."""

import time

import pytest

from headgate import BadValue, Gate, LockLost, LockRefused, Mode, TransitionRefused
from headgate.core.locks.model import COMPATIBLE
from headgate.core.locks.parsing import MODE_WORDS
from tests.contract.steps import LONG, LONGER, Gates, everything, holders, lock_of_the_dead, queue_behind, told
from tests.waiting import until

R = "mysql://db1/core"
#: Every cell of the table, and the free resource.
GRANTED: dict[tuple[Mode, Mode | None], bool] = {(mode, None): True for mode in Mode}
GRANTED |= {(wanted, held): granted for (wanted, held), granted in COMPATIBLE.items()}
CELLS = [pytest.param(*cell, id=f"{cell[0]}-over-{cell[1] or 'nothing'}") for cell in GRANTED]
MIXED_CASE = [spelling(word) for word in MODE_WORDS for spelling in (str.lower, str.upper, str.title, str.swapcase)]


@pytest.mark.parametrize(("wanted", "held"), CELLS)
def test_each_cell_of_the_table_decides_between_two_clients(gates: Gates, wanted: Mode, held: Mode | None) -> None:
    one, other = gates.open(), gates.open()
    first = one.locks.acquire("first", R, held) if held else None
    if GRANTED[wanted, held]:
        lock = other.locks.acquire("second", R, wanted)
        assert (lock.resource, lock.client, lock.mode, lock.count) == (R, "second", wanted, 1)
        assert first is None or lock.token > first.token
        return
    with pytest.raises(LockRefused) as refusal:
        other.locks.acquire("second", R, wanted)
    assert first is not None
    (blocker,) = refusal.value.blockers
    assert (blocker.kind, blocker.client, blocker.mode, blocker.lock_id) == ("holder", "first", held, first.id)
    assert blocker.since == first.since
    assert holders(one, R) == [("first", held)]


@pytest.mark.parametrize(("wanted", "held"), CELLS)
def test_a_clients_own_locks_count_as_held_by_default(gate: Gate, wanted: Mode, held: Mode | None) -> None:
    if held:
        gate.locks.acquire("same", R, held)
    if GRANTED[wanted, held]:
        gate.locks.acquire("same", R, wanted)
        return
    with pytest.raises(LockRefused):
        gate.locks.acquire("same", R, wanted)
    assert holders(gate, R) == [("same", held)]


def test_one_client_can_hold_several_separate_shared_locks(gate: Gate) -> None:
    first = gate.locks.acquire("same", R, "read")
    second = gate.locks.acquire("same", R, "read")
    assert first.id != second.id
    assert (first.count, second.count) == (1, 1)
    gate.locks.release(first)
    assert gate.locks.check(second).id == second.id
    assert holders(gate, R) == [("same", "shared")]


@pytest.mark.parametrize("word", MIXED_CASE)
def test_read_write_shared_exclusive_name_two_modes_in_any_case(gate: Gate, word: str) -> None:
    lock = gate.locks.acquire("a", R, word)
    assert lock.mode is MODE_WORDS[word.lower()]
    assert [each.id for each in gate.locks.list(mode=word.swapcase())] == [lock.id]


def test_a_lock_on_a_resource_does_not_cover_parts_of_it(gate: Gate) -> None:
    gate.locks.acquire("a", "data:D", "write")
    gate.locks.acquire("b", "data:D/1", "write")
    gate.locks.acquire("c", "data:", "write")


# ------------------------------------------------------------------ re-entrant


@pytest.mark.parametrize(
    ("first", "again"),
    [("read", "read"), ("write", "read"), ("write", "write")],
)
def test_reentrant_counts_holds_of_one_client_in_one_lock(gate: Gate, first: str, again: str) -> None:
    outer = gate.locks.acquire("a", R, first, reentrant=True)
    inner = gate.locks.acquire("a", R, again, reentrant=True)
    assert (inner.id, inner.token, inner.mode, inner.count) == (outer.id, outer.token, outer.mode, 2)
    assert told(gate, resource=R) == ["grant", "enter"]
    assert [lock.count for lock in gate.locks.list(resource=R)] == [2]


def test_a_reentrant_lock_is_left_as_often_as_it_was_entered(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "write", reentrant=True)
    for _ in range(2):
        gate.locks.acquire("a", R, "write", reentrant=True)
    for left in (2, 1):
        gate.locks.release(lock)
        assert gate.locks.check(lock).count == left
        with pytest.raises(LockRefused):
            gate.locks.acquire("b", R, "read")
    gate.locks.release(lock)
    with pytest.raises(LockLost):
        gate.locks.release(lock)
    assert holders(gate, R) == []
    events = [event for event in told(gate, resource=R) if event != "refuse"]
    assert events == ["grant", "enter", "enter", "leave", "leave", "release"]


def test_a_reader_that_enters_as_a_writer_is_upgraded_when_it_is_alone(gate: Gate) -> None:
    reading = gate.locks.acquire("a", R, "read", reentrant=True)
    writing = gate.locks.acquire("a", R, "write", reentrant=True)
    assert (writing.id, writing.mode, writing.count) == (reading.id, Mode.EXCLUSIVE, 2)
    assert writing.token > reading.token
    assert told(gate, resource=R) == ["grant", "upgrade", "enter"]
    with pytest.raises(LockLost):
        gate.locks.check(reading)


def test_a_reader_among_others_cannot_enter_as_a_writer(gate: Gate) -> None:
    reading = gate.locks.acquire("a", R, "read", reentrant=True)
    other = gate.locks.acquire("b", R, "read")
    with pytest.raises(LockRefused) as refusal:
        gate.locks.acquire("a", R, "write", reentrant=True)
    assert [blocker.lock_id for blocker in refusal.value.blockers] == [other.id]
    assert gate.locks.check(reading).count == 1


def test_reentrance_is_for_the_same_client_only(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write", reentrant=True)
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", R, "write", reentrant=True)


def test_entering_again_does_not_wait_behind_a_queue(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "read", reentrant=True)
    writer = queue_behind(gate, "w", R, "write")
    assert gate.locks.acquire("a", R, "read", reentrant=True).count == 2
    gate.locks.release(lock)
    gate.locks.release(lock)
    assert writer.result(timeout=30).client == "w"


def test_a_lock_entered_again_lives_by_the_longer_lease(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write", lease=LONG, reentrant=True)
    longer = gate.locks.acquire("a", R, "write", lease=LONGER, reentrant=True)
    assert longer.lease == LONGER
    assert gate.locks.get(longer.id).lease == LONGER
    shorter = gate.locks.acquire("a", R, "write", lease=LONG, reentrant=True)
    assert shorter.lease == LONGER
    for_ever = gate.locks.acquire("a", R, "write", reentrant=True)
    assert (for_ever.lease, for_ever.expires_in) == (None, None)
    assert gate.locks.get(for_ever.id).lease is None
    still = gate.locks.acquire("a", R, "write", lease=LONG, reentrant=True)
    assert (still.lease, still.count) == (None, 5)


def test_reentering_extends_the_lease_to_at_least_the_requested_length(gate: Gate) -> None:
    """However much of the first lease has passed by then."""
    gate.locks.acquire("a", R, "write", lease=LONG, reentrant=True)
    begun = time.monotonic()
    until(lambda: time.monotonic() > begun + 1, "a part of the lease to pass")
    asked = LONG - 0.5
    again = gate.locks.acquire("a", R, "write", lease=asked, reentrant=True)
    assert again.lease == LONG
    for lock in (again, gate.locks.get(again.id)):
        assert lock.expires_in is not None
        assert lock.expires_in > asked - 0.4


def test_an_expired_holder_cannot_reenter(gates: Gates) -> None:
    """A client that comes back after its lease expired gets a new grant, not its old one."""
    dead = lock_of_the_dead(gates, R, client="a")
    again = gates.open().locks.acquire("a", R, "write", reentrant=True)
    assert again.token > dead.token
    assert again.count == 1


# ------------------------------------------------------------------ upgrade and downgrade


def test_the_only_reader_becomes_a_writer_with_a_new_token(gate: Gate) -> None:
    reading = gate.locks.acquire("a", R, "read")
    writing = gate.locks.upgrade(reading)
    assert (writing.id, writing.mode, writing.client) == (reading.id, Mode.EXCLUSIVE, "a")
    assert writing.token > reading.token
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", R, "read")
    with pytest.raises(LockLost):
        gate.locks.check(reading)
    gate.locks.release(writing)
    assert holders(gate, R) == []


def test_upgrade_is_refused_beside_another_reader_and_never_waits(gate: Gate) -> None:
    one = gate.locks.acquire("a", R, "read")
    other = gate.locks.acquire("b", R, "read")
    for lock, blocker in ((one, other), (other, one)):
        with pytest.raises(LockRefused) as refusal:
            gate.locks.upgrade(lock)
        assert [each.lock_id for each in refusal.value.blockers] == [blocker.id]
        assert gate.locks.check(lock).mode is Mode.SHARED
    gate.locks.release(other)
    assert gate.locks.upgrade(one).mode is Mode.EXCLUSIVE


def test_upgrade_is_refused_beside_another_lock_of_the_same_client(gate: Gate) -> None:
    one = gate.locks.acquire("a", R, "read")
    gate.locks.acquire("a", R, "read")
    with pytest.raises(LockRefused):
        gate.locks.upgrade(one)


def test_a_dead_reader_does_not_block_an_upgrade(gates: Gates) -> None:
    gate = gates.open()
    reading = gate.locks.acquire("a", R, "read")
    lock_of_the_dead(gates, R, "read")
    assert gate.locks.upgrade(reading).mode is Mode.EXCLUSIVE
    assert told(gate, resource=R) == ["grant", "grant", "expire", "upgrade"]


def test_an_upgrade_passes_a_waiting_writer(gate: Gate) -> None:
    """The sole holder continues at once: a waiter waits for it anyway."""
    reading = gate.locks.acquire("a", R, "read")
    writer = queue_behind(gate, "w", R, "write")
    writing = gate.locks.upgrade(reading)
    assert not writer.done()
    gate.locks.release(writing)
    assert writer.result(timeout=30).token > writing.token


def test_a_downgraded_writer_shares_the_lock_with_readers(gate: Gate) -> None:
    writing = gate.locks.acquire("a", R, "write")
    reading = gate.locks.downgrade(writing)
    assert (reading.id, reading.mode, reading.token) == (writing.id, Mode.SHARED, writing.token)
    gate.locks.acquire("b", R, "read")
    with pytest.raises(LockRefused):
        gate.locks.acquire("c", R, "write")
    assert holders(gate, R) == [("a", "shared"), ("b", "shared")]


def test_downgrade_lets_waiting_readers_in_and_no_writer_between(gates: Gates) -> None:
    gate = gates.open()
    writing = gate.locks.acquire("a", R, "write")
    reader = queue_behind(gates.open(), "reader", R, "read")
    writer = queue_behind(gates.open(), "writer", R, "write")
    reading = gate.locks.downgrade(writing)
    joined = reader.result(timeout=30)
    assert gate.locks.check(reading).mode is Mode.SHARED
    assert not writer.done()
    gate.locks.release(reading)
    gate.locks.release(joined)
    assert writer.result(timeout=30).client == "writer"


def test_upgrading_a_writer_or_downgrading_a_reader_is_refused_by_the_table(gate: Gate) -> None:
    writing = gate.locks.acquire("a", R, "write")
    reading = gate.locks.acquire("a", "other", "read")
    before = everything(gate)
    with pytest.raises(TransitionRefused) as refusal:
        gate.locks.upgrade(writing)
    assert (refusal.value.state, refusal.value.event) == ("exclusive", "upgrade")
    assert "downgrade" in refusal.value.allowed
    with pytest.raises(TransitionRefused):
        gate.locks.downgrade(reading)
    assert everything(gate) == before


def test_upgrade_and_downgrade_keep_lease_note_and_owner(gate: Gate) -> None:
    lock = gate.locks.acquire("a", R, "read", lease=LONG, note="nightly copy")
    for changed in (gate.locks.upgrade(lock), gate.locks.downgrade(gate.locks.get(lock.id))):
        assert (changed.lease, changed.note, changed.owner) == (LONG, "nightly copy", lock.owner)
        assert changed.since == lock.since


def test_a_counted_lock_keeps_its_count_over_downgrade(gate: Gate) -> None:
    gate.locks.acquire("a", R, "write", reentrant=True)
    lock = gate.locks.acquire("a", R, "write", reentrant=True)
    assert gate.locks.downgrade(lock).count == 2


def test_an_unknown_mode_is_named_in_the_error(gate: Gate) -> None:
    with pytest.raises(BadValue, match="'readwrite' is not one of shared, read, exclusive, write"):
        gate.locks.acquire("a", R, "readwrite")

"""Storage guards under our locks: programs without Headgate are excluded, and nothing is left behind."""

import fcntl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from headgate import BadValue, Gate, LockLost, LockRefused, Mode, StorageGuardFailed, TransitionRefused
from headgate.client.locks import RemoteLocks
from headgate.service.guards.keeper import GuardKeeper
from headgate.service.guards.kinds import GuardBusy, StorageLock
from headgate.service.locks.use_cases import Locks
from tests.conftest import STORES
from tests.contract.steps import Gates, holders, request_for, told
from tests.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_text("content")
    return path


@pytest.fixture
def guarded(gates: Gates) -> Gate:
    return gates.open(guards="file")


#: Long enough for a busy machine.
LEASE = 60.0
#: Files that other programs have locked.
THEIRS: dict[Path, IO[str]] = {}


@contextmanager
def stranger(path: Path, kind: int) -> Iterator[None]:
    """A program without Headgate: a file lock belongs to the open file, so this one is equivalent."""
    with path.open("r+") as file:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        THEIRS[path] = file
        yield


def leave(path: Path) -> None:
    """The other program ends before its block does."""
    fcntl.flock(THEIRS[path], fcntl.LOCK_UN)


def may(path: Path, kind: int) -> bool:
    try:
        with stranger(path, kind):
            return True
    except BlockingIOError:
        return False


def test_another_program_is_blocked_by_our_file_lock(guarded: Gate, path: Path) -> None:
    lock = guarded.locks.acquire("a", path.as_uri(), "write", lease=LEASE)
    assert not may(path, fcntl.LOCK_SH)
    reading = guarded.locks.downgrade(lock)
    assert may(path, fcntl.LOCK_SH)
    assert not may(path, fcntl.LOCK_EX)
    writing = guarded.locks.upgrade(reading)
    assert not may(path, fcntl.LOCK_SH)
    guarded.locks.release(writing)
    assert may(path, fcntl.LOCK_EX)


def test_the_file_lock_of_another_program_refuses_the_lock(guarded: Gate, path: Path) -> None:
    with stranger(path, fcntl.LOCK_EX), pytest.raises(LockRefused) as refusal:
        guarded.locks.acquire("a", path.as_uri(), "read", lease=LEASE)
    (blocker,) = refusal.value.blockers
    assert (blocker.kind, blocker.resource) == ("guard", path.as_uri())
    assert "outside Headgate" in str(refusal.value)
    assert guarded.locks.list() == []
    guarded.locks.acquire("a", path.as_uri(), "write", lease=LEASE)


def test_waiting_continues_until_the_other_program_releases_the_file(guarded: Gate, path: Path) -> None:
    with stranger(path, fcntl.LOCK_EX), pytest.raises(LockRefused):
        guarded.locks.acquire("a", path.as_uri(), "write", wait=0.5, lease=LEASE)
    assert guarded.locks.list() == []
    guarded.locks.acquire("a", path.as_uri(), "write", wait=5, lease=LEASE)


def test_file_locks_of_a_collection_are_acquired_all_or_none(guarded: Gate, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("content")
    wants = {path.as_uri(): "write", other.as_uri(): "write", "mysql://db1/core": "write"}
    with stranger(other, fcntl.LOCK_SH), pytest.raises(LockRefused):
        guarded.locks.acquire_all("a", wants, lease=LEASE)
    assert guarded.locks.list() == []
    assert may(path, fcntl.LOCK_EX)
    guarded.locks.acquire_all("a", wants, lease=LEASE)


def test_several_readers_of_one_process_share_one_file_lock(guarded: Gate, path: Path) -> None:
    locks = [guarded.locks.acquire(client, path.as_uri(), "read", lease=LEASE) for client in "abc"]
    for lock in locks[:2]:
        guarded.locks.release(lock)
    assert not may(path, fcntl.LOCK_EX)
    guarded.locks.release(locks[2])
    assert may(path, fcntl.LOCK_EX)


def test_a_reentrant_lock_keeps_its_file_lock_until_the_last_release(guarded: Gate, path: Path) -> None:
    lock = guarded.locks.acquire("a", path.as_uri(), "write", reentrant=True, lease=LEASE)
    for _ in range(2):
        guarded.locks.acquire("a", path.as_uri(), "write", reentrant=True, lease=LEASE)
    for _ in range(2):
        guarded.locks.release(lock)
        assert not may(path, fcntl.LOCK_SH)
    guarded.locks.release(lock)
    assert may(path, fcntl.LOCK_EX)


def test_a_repeated_request_has_one_file_lock(guarded: Gate, path: Path) -> None:
    guarded.locks.acquire("a", path.as_uri(), "read", request_id="mine", lease=LEASE)
    guarded.locks.release(guarded.locks.acquire("a", path.as_uri(), "read", request_id="mine", lease=LEASE))
    assert may(path, fcntl.LOCK_EX)


def test_breaking_a_lock_releases_the_file_lock(guarded: Gate, path: Path) -> None:
    guarded.locks.acquire("a", path.as_uri(), "write", reentrant=True, lease=LEASE)
    lock = guarded.locks.acquire("a", path.as_uri(), "write", reentrant=True, lease=LEASE)
    guarded.locks.break_lock(lock.id, reason="it hangs")
    assert may(path, fcntl.LOCK_EX)


def test_held_releases_the_file_lock_when_the_lock_was_lost(gates: Gates, guarded: Gate, path: Path) -> None:
    operator = gates.open()

    def lose_it() -> None:
        with guarded.locks.held("a", path.as_uri(), lease=LEASE) as lock:
            assert not may(path, fcntl.LOCK_SH)
            operator.locks.break_lock(lock.id, reason="it hangs")

    with pytest.raises(LockLost, match="broken"):
        lose_it()
    assert may(path, fcntl.LOCK_EX)


def test_an_upgrade_that_another_program_blocks_changes_nothing(guarded: Gate, path: Path) -> None:
    lock = guarded.locks.acquire("a", path.as_uri(), "read", lease=LEASE)
    with stranger(path, fcntl.LOCK_SH), pytest.raises(LockRefused) as refusal:
        guarded.locks.upgrade(lock)
    assert [blocker.kind for blocker in refusal.value.blockers] == ["guard"]
    assert guarded.locks.check(lock).mode is Mode.SHARED
    assert not may(path, fcntl.LOCK_EX)
    assert may(path, fcntl.LOCK_SH)


def test_an_upgrade_that_the_store_refuses_keeps_the_file_lock(gates: Gates, path: Path) -> None:
    guarded, other = gates.open(guards="file"), gates.open(guards="file")
    lock = guarded.locks.acquire("a", path.as_uri(), "read", lease=LEASE)
    other.locks.acquire("b", path.as_uri(), "read", lease=LEASE)
    with pytest.raises(LockRefused):
        guarded.locks.upgrade(lock)
    assert may(path, fcntl.LOCK_SH)
    assert not may(path, fcntl.LOCK_EX)


def test_upgrading_a_writer_keeps_its_file_lock_exclusive(guarded: Gate, path: Path) -> None:
    lock = guarded.locks.acquire("a", path.as_uri(), "write", lease=LEASE)
    with pytest.raises(TransitionRefused):
        guarded.locks.upgrade(lock)
    assert not may(path, fcntl.LOCK_SH)


def test_resources_of_other_schemes_and_gates_without_guards_are_not_touched(
    gates: Gates, guarded: Gate, path: Path
) -> None:
    guarded.locks.acquire("a", "mysql://db1/core", "write", lease=LEASE)
    gates.open().locks.acquire("a", path.as_uri(), "write")
    assert may(path, fcntl.LOCK_EX)


def test_a_failing_guard_releases_everything(guarded: Gate, tmp_path: Path) -> None:
    missing = (tmp_path / "no such folder" / "data").as_uri()
    for wants in ({missing: "write"}, {"mysql://db1/core": "write", missing: "write"}):
        with pytest.raises(StorageGuardFailed, match="No such file"):
            guarded.locks.acquire_all("a", wants, lease=LEASE)
        assert guarded.locks.list() == []
    assert told(guarded).count("grant") == told(guarded).count("release")


def test_outside_the_service_a_persistent_lock_with_a_guard_is_refused_with_the_reason(
    guarded: Gate, path: Path
) -> None:
    with pytest.raises(BadValue, match=r"guard of file:.* ends with this process.*set a lease.*headgate up"):
        guarded.locks.acquire("a", path.as_uri(), "write")
    with pytest.raises(BadValue):
        guarded.locks.acquire("a", path.as_uri(), "write", wait=1)
    assert (guarded.locks.list(), told(guarded)) == ([], [])
    assert may(path, fcntl.LOCK_EX)
    guarded.locks.acquire("a", "mysql://db1/core", "write")


def test_a_refusal_by_another_program_leaves_no_grant_in_the_history(guarded: Gate, path: Path) -> None:
    with stranger(path, fcntl.LOCK_EX):
        for wait in (0, 0.5):
            with pytest.raises(LockRefused, match="outside Headgate"):
                guarded.locks.acquire("a", path.as_uri(), "write", wait=wait, lease=LEASE)
    assert "grant" not in told(guarded)


def test_a_waiter_for_a_file_lock_keeps_its_turn(guarded: Gate, path: Path) -> None:
    granted: list[str] = []

    def wait(client: str) -> None:
        lock = guarded.locks.acquire(client, path.as_uri(), "write", wait=60, lease=LEASE)
        granted.append(client)
        guarded.locks.release(lock)

    line = guarded.locks._guards._lines
    with stranger(path, fcntl.LOCK_EX), ThreadPoolExecutor(3) as pool:
        waiting = []
        for number, client in enumerate("abc", 1):
            waiting.append(pool.submit(wait, client))
            until(lambda: len(line.get(path.as_uri(), {})) == number, f"{client} waits")  # noqa: B023 - used at once
        with pytest.raises(LockRefused, match="is ahead in the queue"):
            guarded.locks._obtaining.acquire(request_for("late", (path.as_uri(), Mode.EXCLUSIVE), lease=LEASE))
        leave(path)
        for each in waiting:
            each.result()
    assert granted == ["a", "b", "c"]
    assert told(guarded).count("grant") == 3


# Over HTTP the guards of the service count, and the position is kept: tests/http/test_guards.py.
@pytest.mark.parametrize("kind", STORES)
def test_a_queue_position_is_kept_while_another_program_holds_the_file(gates: Gates, guarded: Gate, path: Path) -> None:
    """The holder has no guard, so another program gets the file; then the holder leaves, but the program does not."""
    plain = gates.open()
    held = plain.locks.acquire("holder", path.as_uri(), "write", lease=LEASE)
    with stranger(path, fcntl.LOCK_EX), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(guarded.locks.acquire, "first", path.as_uri(), "write", wait=60, lease=LEASE)
        until(lambda: [each.client for each in plain.locks.waiters()] == ["first"], "it waits")
        plain.locks.release(held)
        with pytest.raises(LockRefused):
            plain.locks.acquire("second", path.as_uri(), "write", lease=LEASE)
        assert not waiting.done()
        leave(path)
        assert waiting.result().client == "first"
    assert told(guarded).count("grant") == 2


def test_giving_up_on_a_file_lock_leaves_nothing_behind(gates: Gates, guarded: Gate, path: Path) -> None:
    plain = gates.open()
    held = plain.locks.acquire("holder", path.as_uri(), "write", lease=LEASE)
    with stranger(path, fcntl.LOCK_EX), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(guarded.locks.acquire, "first", path.as_uri(), "write", wait=1.5, lease=LEASE)
        until(lambda: bool(plain.locks.waiters()), "it waits")
        plain.locks.release(held)
        with pytest.raises(LockRefused):
            waiting.result()
    assert (plain.locks.list(), plain.locks.waiters()) == ([], [])


def test_a_writer_is_not_starved_by_readers_of_other_processes(gates: Gates, guarded: Gate, path: Path) -> None:
    other = gates.open(guards="file")
    reading = other.locks.acquire("reader", path.as_uri(), "read", lease=LEASE)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(guarded.locks.acquire, "writer", path.as_uri(), "write", wait=60, lease=LEASE)
        until(lambda: [each.client for each in other.locks.waiters()] == ["writer"], "the writer waits")
        with pytest.raises(LockRefused, match="writer"):
            other.locks.acquire("late", path.as_uri(), "read", lease=LEASE)
        other.locks.release(reading)
        assert writing.result().client == "writer"


class Brittle:
    """A guard that grants requests, is busy for special names, and fails on release."""

    def lock(self, resource: str, _mode: Mode) -> StorageLock:
        if "busy" in resource:
            raise GuardBusy("somebody has it")
        return BrittleHold()


class BrittleHold:
    def change(self, mode: Mode) -> None:
        """Nothing to do."""

    def close(self) -> None:
        raise OSError("the disk is on fire")


@pytest.fixture
def brittle(gate: Gate) -> Locks:
    guards = GuardKeeper({"x": Brittle()})
    return RemoteLocks(gate.service.connection, guards) if gate.service else Locks(gate.store.locks, guards)


def test_an_error_while_releasing_a_guard_is_reported_and_the_lock_is_released(gate: Gate, brittle: Locks) -> None:
    lock = brittle.acquire("a", "x:1", "write", lease=LEASE)
    with pytest.raises(StorageGuardFailed, match="it could not be released: the disk is on fire"):
        brittle.release(lock)
    assert holders(gate, "x:1") == []


def test_an_error_while_releasing_a_guard_does_not_stop_the_release_of_a_collection(gate: Gate, brittle: Locks) -> None:
    with pytest.raises((StorageGuardFailed, LockRefused)):
        brittle.acquire_all("a", {"x:1": "write", "x:2 busy": "write", "x:3": "write"}, lease=LEASE)
    assert gate.locks.list() == []

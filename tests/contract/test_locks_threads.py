"""Several gates and many threads in one process, on one resource."""

import random
import threading
from concurrent.futures import Future

import pytest

import headgate
from headgate import Gate, LockRefused, Mode
from tests.contract.steps import PATIENCE, Gates, granted, in_thread, told

R = "mysql://db1/core"
THREADS = 8


class Register:
    """The holder as an independent witness sees it; and the newest token that it was shown."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._inside: dict[str, Mode] = {}
        self._newest = 0
        self.entered = 0
        self.together = 0

    def enter(self, lock: headgate.Lock) -> None:
        with self._guard:
            self._inside[lock.id] = lock.mode
            alone = len(self._inside) == 1
            assert alone or set(self._inside.values()) == {Mode.SHARED}, self._inside
            if lock.mode is Mode.EXCLUSIVE:
                assert lock.token > self._newest, "an older token came after a newer one"
                self._newest = lock.token
            self.entered += 1
            self.together = max(self.together, len(self._inside))

    def leave(self, lock: headgate.Lock) -> None:
        with self._guard:
            del self._inside[lock.id]


def fight(gate: Gate, register: Register, name: str, rounds: int, start: threading.Barrier) -> int:
    chance = random.Random(name)
    start.wait()
    for _ in range(rounds):
        lock = gate.locks.acquire(name, R, chance.choice(("read", "write")), wait=60, lease=60)
        register.enter(lock)
        register.leave(lock)
        gate.locks.release(lock)
    return rounds


@pytest.mark.parametrize("number_of_gates", [1, 2, THREADS])
def test_eight_threads_on_one_resource_never_overlap(gates: Gates, number_of_gates: int) -> None:
    opened = [gates.open() for _ in range(number_of_gates)]
    register, start = Register(), threading.Barrier(THREADS)
    futures: list[Future[int]] = [
        in_thread(lambda n=n: fight(opened[n % number_of_gates], register, f"thread {n}", 6, start))  # type: ignore[misc]
        for n in range(THREADS)
    ]
    assert sum(granted(future) for future in futures) == register.entered == THREADS * 6
    assert opened[0].locks.list() == []
    assert opened[0].locks.waiters() == []
    history = told(opened[0], resource=R)
    assert history.count("grant") == history.count("release") == THREADS * 6


def test_eight_threads_use_a_brand_new_resource_at_the_same_moment(gates: Gates) -> None:
    opened = [gates.open() for _ in range(THREADS)]
    start = threading.Barrier(THREADS)

    def first_use(gate: Gate, number: int) -> int:
        start.wait()
        return gate.locks.acquire(f"thread {number}", "brand new", "read", wait=PATIENCE).token

    futures = [in_thread(lambda g=g, n=n: first_use(g, n)) for n, g in enumerate(opened)]  # type: ignore[misc]
    tokens = [granted(future) for future in futures]
    assert len(set(tokens)) == THREADS


def test_exactly_one_of_many_callers_that_do_not_wait_is_granted(gates: Gates) -> None:
    opened = [gates.open() for _ in range(THREADS)]
    start = threading.Barrier(THREADS)

    def try_once(gate: Gate, number: int) -> bool:
        start.wait()
        try:
            gate.locks.acquire(f"thread {number}", R, "write")
        except LockRefused:
            return False
        return True

    futures = [in_thread(lambda g=g, n=n: try_once(g, n)) for n, g in enumerate(opened)]  # type: ignore[misc]
    assert sum(granted(future) for future in futures) == 1


def test_exactly_one_of_many_releases_of_a_lock_succeeds(gates: Gates) -> None:
    opened = [gates.open() for _ in range(THREADS)]
    lock = opened[0].locks.acquire("a", R, "write")
    start = threading.Barrier(THREADS)

    def release(gate: Gate) -> bool:
        start.wait()
        try:
            gate.locks.release(lock.id, lock.token)
        except headgate.LockLost:
            return False
        return True

    futures = [in_thread(lambda g=g: release(g)) for g in opened]  # type: ignore[misc]
    assert sum(granted(future) for future in futures) == 1
    assert told(opened[0]) == ["grant", "release"]


def test_one_repeated_request_from_many_threads_is_one_grant(gates: Gates) -> None:
    opened = [gates.open() for _ in range(THREADS)]
    start = threading.Barrier(THREADS)

    def ask(gate: Gate) -> tuple[str, int]:
        start.wait()
        lock = gate.locks.acquire("a", R, "write", request_id="the same")
        return lock.id, lock.token

    futures = [in_thread(lambda g=g: ask(g)) for g in opened]  # type: ignore[misc]
    assert len({granted(future) for future in futures}) == 1
    assert told(opened[0]) == ["grant"]


def test_at_most_one_of_many_upgrading_readers_succeeds(gates: Gates) -> None:
    opened = [gates.open() for _ in range(4)]
    locks = [gate.locks.acquire(f"reader {number}", R, "read") for number, gate in enumerate(opened)]
    start = threading.Barrier(len(opened))

    def upgrade_or_leave(gate: Gate, lock: headgate.Lock) -> bool:
        start.wait()
        try:
            gate.locks.upgrade(lock)
        except LockRefused:
            gate.locks.release(lock)
            return False
        return True

    futures = [
        in_thread(lambda g=g, k=k: upgrade_or_leave(g, k))  # type: ignore[misc]
        for g, k in zip(opened, locks, strict=True)
    ]
    assert sum(granted(future) for future in futures) <= 1
    assert len(opened[0].locks.list()) <= 1


def test_a_gate_that_is_closed_leaves_the_others_alone(gates: Gates) -> None:
    one, other = gates.open(), gates.open()
    lock = one.locks.acquire("a", R, "write")
    other.close()
    assert one.locks.check(lock).token == lock.token
    one.locks.release(lock)


def test_a_gate_is_a_context_manager(gates: Gates) -> None:
    with headgate.connect(gates.url) as gate:
        lock = gate.locks.acquire("a", R, "write")
    gates.open().locks.release(lock)

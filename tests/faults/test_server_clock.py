"""The clock of a database server is set while locks are held: leases count only the time that has really passed.

libfaketime moves the wall clock of a private server while it runs. A process that asked the server before notices it;
one that never did can take a lock from a living holder, which learns of it with its next renewal.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import pytest

import headgate
from headgate import Gate, LockLost, LockRefused
from tests.faults.conftest import Report
from tests.faults.test_clock import library, shared_by, unlink_shared
from tests.servers import MariaDB, PostgreSQL, PrivateServer
from tests.waiting import until

HOUR = 3600
#: Short enough to wait for, and longer than a busy machine takes for a few calls.
LEASE = 8.0
R = "clock:1"


def with_a_clock(kind: type[PrivateServer]) -> PrivateServer:
    """A server whose clock a test can set by writing into the file `clock` in its folder."""

    class Clocked(kind):  # type: ignore[valid-type, misc] # made of either
        def _command(self) -> list[str]:
            clock = self.folder / "clock"
            clock.write_text("+0")
            clock.chmod(0o644)
            fake = [f"LD_PRELOAD={library()}", f"FAKETIME_TIMESTAMP_FILE={clock}", "FAKETIME_NO_CACHE=1"]
            same = ["FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]
            return ["env", *fake, *same, *super()._command()]

        def start(self) -> Self:
            super().start()
            unlink_shared(self.pid)
            return self

    return Clocked()


@contextmanager
def running(kind: type[PrivateServer]) -> Iterator[tuple[str, Callable[[int], None]]]:
    """A database on such a server, and how to set its clock. It leaves no shared memory."""
    with with_a_clock(kind) as server:
        pid = server.pid

        def set_clock(seconds: int) -> None:
            (server.folder / "clock").write_text(f"{seconds:+d}")

        yield server.fresh(), set_clock
    assert shared_by(pid) == []


def left(gate: Gate, lock_id: str) -> float:
    found = gate.locks.get(lock_id).expires_in
    assert found is not None
    return found


@pytest.mark.parametrize("kind", [PostgreSQL, MariaDB], ids=["postgresql", "mariadb"])
def test_a_server_clock_that_is_set_ends_no_lease_and_prolongs_none(kind: type[PrivateServer]) -> None:
    with running(kind) as (url, set_clock), headgate.connect(url) as gate, headgate.connect(url) as other:
        other.locks.register_client("b")  # It was connected to the server before.
        lock = gate.locks.acquire("a", R, "exclusive", lease=LEASE)
        dead = gate.locks.acquire("dead", "clock:2", "exclusive", lease=0.001)
        set_clock(HOUR)
        lock = gate.locks.renew(lock)
        for seconds in (2 * HOUR, 0, -HOUR, HOUR):
            set_clock(seconds)
            with pytest.raises(LockRefused):
                other.locks.acquire("b", R, "exclusive")
            assert 0 < left(other, lock.id) <= LEASE
            lock = gate.locks.renew(lock)
            assert 0 < left(other, lock.id) <= LEASE
        # Expired leases stay expired.
        assert other.locks.acquire("b", "clock:2", "exclusive").token > dead.token


def test_a_stranger_may_take_the_lock_and_the_holder_learns_of_it_at_its_next_renewal(report: Report) -> None:
    """The bound: a quarter of the lease, at most 5 s, and one call."""
    with running(PostgreSQL) as (url, set_clock), headgate.connect(url) as gate:
        lost: list[float] = []
        with (  # noqa: PT012 - the block itself says so at its end
            pytest.raises(LockLost, match="its lease expired"),
            gate.locks.held("holder", R, lease=LEASE, on_lost=lambda _: lost.append(time.monotonic())) as hold,
        ):
            set_clock(HOUR)
            with headgate.connect(url) as stranger:
                lock = stranger.locks.acquire("stranger", R, "exclusive")
                taken = time.monotonic()
            assert lock.token > hold.token
            until(lambda: lost, "the holder to learn of it")
            hold.check()
        report(overlap=round(lost[0] - taken, 2), lease=LEASE)
        assert lost[0] - taken < LEASE

"""A wall clock that jumps by an hour, as one process sees it, neither ends a lease nor prolongs one.

On a file leases run on the time since boot, which no change of the wall clock moves; on a server its clock decides.
libfaketime moves the wall clock of one process, while it runs.

libfaketime spoils one thing that a real jump leaves alone: sleeping until a moment of the monotonic clock, as
time.sleep does, fails with EINVAL. The process therefore sleeps by select, and uses no thread that waits with a limit.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import LockRefused
from tests.faults.conftest import FULL, Report
from tests.faults.processes import ROOT, Channel, Message
from tests.fresh import scheme
from tests.shared_servers import cannot_be_had

R = "clock:1"
HOUR = 3600
LEASE = 1.0
#: Time for the process to be scheduled and the store to answer, on a busy machine.
SLACK_SECONDS = 2.0

#: Relative to the true time: ahead, back (two hours at once), and true again.
JUMPS = [HOUR, -HOUR, 0] if not FULL else [HOUR, -HOUR, 24 * HOUR, -24 * HOUR] * 3


class Subject:
    """A process with its own clock."""

    def __init__(self, url: str, folder: Path) -> None:
        self._clock = folder / "clock"
        self._clock.write_text("+0")
        ours, theirs = socket.socketpair()
        environment = os.environ | {
            "LD_PRELOAD": library(), "FAKETIME_TIMESTAMP_FILE": str(self._clock), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip
        program = (
            "import select, socket, sys, time; time.sleep = lambda seconds: select.select([], [], [], seconds); "
            "from tests.faults.processes import Channel; from tests.faults.scripts import obey; "
            "obey(Channel(socket.socket(fileno=int(sys.argv[1]))), sys.argv[2])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(theirs.fileno()), url],
            cwd=ROOT, env=environment, pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()
        self._channel = Channel(ours)
        assert self._channel.receive() == {"kind": "ready"}
        unlink_shared(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, kind: str, **order: Any) -> Message:
        self._channel.send(kind, **order)
        answer = self._channel.receive()
        assert answer is not None
        return answer

    def jump(self, seconds: int) -> None:
        """Move its wall clock; the time since boot is unchanged. Checked to have happened."""
        self._clock.write_text(f"{seconds:+d}")
        answer = self.ask("clock")
        assert abs(answer["wall"] - time.time() - seconds) < 60
        assert abs(answer["at"] - time.monotonic()) < 60

    def close(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


def library() -> str:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        cannot_be_had("faketime", "libfaketime is missing: install the Debian package faketime")
    return str(found[0])


def shared_by(pid: int) -> list[Path]:
    """The files of the memory and the semaphore that libfaketime made for a process."""
    found = (Path("/dev", "shm", name) for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"))
    return [each for each in found if each.exists()]


def unlink_shared(pid: int) -> None:
    """Remove them by name while the process lives: it keeps using them, and leaves nothing however it ends. So they are
    certainly its own, and not those of a process of another run with the same number.
    """
    for each in shared_by(pid):
        each.unlink(missing_ok=True)


@contextmanager
def subject(url: str, folder: Path) -> Iterator[Subject]:
    running = Subject(url, folder)
    try:
        yield running
    finally:
        running.close()


def is_refused(gate: headgate.Gate) -> bool:
    """Whether another client is refused; a grant is released."""
    try:
        lock = gate.locks.acquire("other", R, "exclusive")
    except LockRefused:
        return True
    gate.locks.release(lock)
    return False


def test_jumps_of_the_holders_clock(store_url: str, tmp_path: Path, report: Report) -> None:
    """No jump ends a live lease; a lease that is not renewed expires in time, and not an hour later."""
    with headgate.connect(store_url) as gate, subject(store_url, tmp_path) as holder:
        renewed = time.monotonic()
        lock = holder.ask("acquire", client="jumper", resource=R, lease=LEASE)
        for jump in JUMPS:
            holder.jump(jump)
            refused, until = 0, time.monotonic() + 1.2 * LEASE
            while time.monotonic() < until or not refused:
                asked = time.monotonic()
                # A renewal that adds an hour, or nothing, would show here.
                seen = holder.ask("renew", id=lock["id"], token=lock["token"])
                assert "error" in seen or 0 < seen["expires_in"] <= LEASE
                if "error" not in seen and is_refused(gate):
                    refused += 1
                    renewed = asked
                    time.sleep(LEASE / 10)
                    continue
                # A lease expires only when the machine is suspended for its length.
                assert time.monotonic() - (renewed if "error" in seen else asked) >= LEASE, "a live lease was ended"
                renewed = time.monotonic()
                lock = holder.ask("acquire", client="jumper", resource=R, lease=LEASE)
        holder.close()
        died = time.monotonic()
        gate.locks.acquire("other", R, "exclusive", wait=30)
        freed = time.monotonic() - died
        report(store=scheme(store_url), jumps=len(JUMPS), free_after=round(freed, 2), lease=LEASE)
        assert freed < 2 * LEASE + SLACK_SECONDS


@pytest.mark.parametrize("jump", JUMPS[:2], ids=["ahead", "back"])
def test_a_jump_of_somebody_elses_clock(store_url: str, tmp_path: Path, jump: int) -> None:
    """A client with a wrong clock ends no other client's lease, and is granted when the lease has expired."""
    left = headgate.connect(store_url)
    with headgate.connect(store_url) as gate, subject(store_url, tmp_path) as other:
        with gate.locks.held("holder", R, lease=LEASE) as hold:
            other.jump(jump)
            until = time.monotonic() + 1.2 * LEASE
            while time.monotonic() < until:
                assert other.ask("acquire", client="jumper", resource=R)["error"] == "LockRefused"
                assert other.ask("expire")["count"] == 0
                time.sleep(LEASE / 10)
            hold.check()
        dead = left.locks.acquire("holder", R, "exclusive", lease=LEASE)
        left.close()
        asked = time.monotonic()
        lock = other.ask("acquire", client="jumper", resource=R, wait=30)
        assert lock["token"] > dead.token
        assert time.monotonic() - asked < 2 * LEASE + SLACK_SECONDS


def test_a_killed_process_leaves_no_shared_memory(tmp_path: Path) -> None:
    with subject(f"sqlite:///{tmp_path}/headgate.db", tmp_path) as process:
        process.jump(HOUR)
    assert shared_by(process.pid) == []

"""Many processes on one SQLite file: all are served in turn, and a stopped writer is named."""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

import headgate
from headgate import StoreUnavailable
from headgate.service.locks import waiting
from tests.contract.steps import PATIENCE, granted, in_thread
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Zygote
from tests.waiting import until

PROCESSES = 64
PAIRS = 20 if FULL else 2


@pytest.mark.parametrize("mode", ["truncate", "wal"] if FULL else ["truncate"])
def test_every_one_of_many_processes_is_served(mode: str, tmp_path: Path, processes: Zygote, report: Report) -> None:
    url = f"sqlite:///{tmp_path}/headgate.sqlite?journal_mode={mode}"
    with headgate.connect(url) as gate:
        crowd = [
            processes.spawn("tests.faults.crowd:visit", url=url, name=f"client-{number}", pairs=PAIRS)
            for number in range(PROCESSES)
        ]
        for child in crowd:
            child.expect("ready")
        for child in crowd:
            child.channel.send("go")
        longest = max(child.expect("done", seconds=300)["longest"] for child in crowd)
        grants = Counter(entry.client for entry in gate.history(event="grant", limit=100_000))
    report(store="sqlite", processes=PROCESSES, pairs=sum(grants.values()), violations=0, longest=round(longest, 2))
    assert grants == {f"client-{number}": PAIRS for number in range(PROCESSES)}


def test_a_stopped_writer_is_named(tmp_path: Path, processes: Zygote) -> None:
    """Also to processes that come later; and the file works again when the writer continues or is gone."""
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    with headgate.connect(url, answer_within="0.5") as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.define_job("make", inputs=["raw"])
        writer = processes.spawn("tests.faults.stopper:hold_rows", url=url, resource="r", job="make")
        writer.expect("inside")
        writer.stop()
        for _ in range(2):
            with pytest.raises(
                StoreUnavailable, match=rf"process {writer.pid}, .*\(stopped\) has kept it locked"
            ) as it:
                gate.locks.acquire("a", "r", "write")
            assert it.value.outcome == "none"
        writer.kill()
        until(lambda: _works(gate), "the file to work again")


def test_a_file_that_is_busy_is_waited_for(tmp_path: Path, processes: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that may wait is not ended by a writer that holds the file for longer than one answer may take."""
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    interrupted = threading.Event()
    monkeypatch.setattr(waiting, "event", lambda *_, **__: interrupted.set())
    with headgate.connect(url, answer_within="0.5") as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.define_job("make", inputs=["raw"])
        writer = processes.spawn("tests.faults.stopper:hold_rows", url=url, resource="r", job="make")
        writer.expect("inside")
        caller = in_thread(lambda: gate.locks.acquire("a", "r", "write", wait=PATIENCE))
        assert interrupted.wait(PATIENCE)
        assert not caller.done()
        writer.kill()
        assert granted(caller).client == "a"


def _works(gate: headgate.Gate) -> bool:
    try:
        gate.locks.release(gate.locks.acquire("a", "r", "write"))
    except StoreUnavailable:
        return False
    return True


def test_a_killed_waiter_leaves_no_socket_for_long(tmp_path: Path, processes: Zygote) -> None:
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    sockets = tmp_path / "headgate.sqlite-wake"
    with headgate.connect(url) as gate:
        lock = gate.locks.acquire("a", "crowd:one", "exclusive")
        waiter = processes.spawn("tests.faults.crowd:visit", url=url, name="waiter", pairs=1)
        waiter.expect("ready")
        waiter.channel.send("go")
        until(lambda: gate.locks.waiters("crowd:one"), "the waiter to stand in the queue")
        assert len(list(sockets.iterdir())) == 1
        os.kill(waiter.pid, signal.SIGKILL)
        waiter.wait()
        # It was handed the lock, since it was alive a moment ago; its socket no longer answers.
        gate.locks.release(lock)
        assert list(sockets.iterdir()) == []

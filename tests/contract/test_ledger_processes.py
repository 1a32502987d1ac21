"""Several processes on a chain with a join, some of them killed: each chunk is made, with one accepted success."""

import os
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from headgate import Gate
from tests.contract.over_http import LEDGER_STORES
from tests.contract.steps import Gates
from tests.waiting import until

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
CHUNKS = 40
WORKERS = 4
KILLS = 6

WORKER = """
import sys, time
import headgate
gate = headgate.connect(sys.argv[1])
while True:
    idle = True
    for job in ("double", "square", "join"):
        claim = gate.ledger.find_next(job, lease=1.0)
        if claim is None:
            continue
        idle = False
        for name in claim.inputs:
            made = gate.ledger.status(name, dataid=claim.dataid, kind="OUTPUT")
            assert [row.status for row in made] == ["READY"], made
        time.sleep(0.04)
        try:
            gate.ledger.success(claim)
        except headgate.ClaimLost:
            pass
    rows = gate.ledger.status("joined", status="READY")
    if len(rows) == int(sys.argv[2]):
        break
    if idle:
        time.sleep(0.02)
"""


def start(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, url, str(CHUNKS)], stderr=subprocess.PIPE)


@pytest.mark.timeout(180)
def test_each_chunk_is_made_once_under_kills(gates: Gates) -> None:
    gate = gates.open()
    define(gate)
    gate.ledger.publish("raw", [str(number) for number in range(CHUNKS)])
    workers = [start(gates.url) for _ in range(WORKERS)]
    for _ in range(KILLS):
        kill_one_at_work(gate, workers, gates.url)
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors.decode()
    check(gate)


def kill_one_at_work(gate: Gate, workers: list[subprocess.Popen[bytes]], url: str) -> None:
    """Kill a worker between its claim and its report, and start another in its place."""
    until(lambda: gate.ledger.status(status="RUNNING", limit=1), "somebody at work")
    pids = {int(row.worker.split()[2]) for row in gate.ledger.status(status="RUNNING") if row.alive}
    for number, worker in enumerate(workers):
        if worker.pid in pids:
            os.kill(worker.pid, signal.SIGKILL)
            worker.communicate()
            workers[number] = start(url)
            return


def define(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("raw", "doubled", "squared", "joined"):
        ledger.define_dataset(name)
    policy: dict[str, Any] = {"max_crashes": 0, "max_attempts": 0}
    ledger.define_job("double", inputs=["raw"], outputs=["doubled"], **policy)
    ledger.define_job("square", inputs=["raw"], outputs=["squared"], **policy)
    ledger.define_job("join", inputs=["doubled", "squared"], outputs=["joined"], **policy)


def check(gate: Gate) -> None:
    """Every chunk READY, one accepted success each, and every claim ended by a success or a reaper."""
    rows = gate.ledger.status(kind="OUTPUT")
    assert Counter(row.status for row in rows) == {"READY": 4 * CHUNKS}
    told = gate.history(noun="chunk", limit=100_000)
    successes = Counter((entry.job, entry.resource) for entry in told if entry.event == "success")
    assert set(successes.values()) == {1}
    assert len(successes) == 3 * CHUNKS
    counts = Counter(entry.event for entry in told)
    assert counts["claim"] == counts["success"] + counts["reap"]
    assert counts["reap"], "nobody was killed while it worked"
    assert gate.locks.list() == []

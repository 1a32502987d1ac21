"""Eight processes take from one state: no job is taken twice or left, and the batch is reported once."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from headgate import Gate
from tests.contract.queue_steps import batch_with_jobs
from tests.contract.steps import Gates

PROCESSES = 8
JOBS = 80

CONSUMER = """
import json, sys
import headgate
with headgate.connect(sys.argv[1]) as gate:
    print("ready", flush=True)
    sys.stdin.readline()
    taken = []
    while job := gate.queue.acquire_job("pending"):
        taken.append([job.id, job.token])
        gate.queue.fire(job, "fail" if int(job.id[3:]) % 2 else "accept", f"by {sys.argv[2]}")
    print(json.dumps(taken), flush=True)
"""


@pytest.mark.timeout(180)
def test_no_job_is_taken_twice(gates: Gates) -> None:
    gate = gates.open()
    batch = batch_with_jobs(gate.queue, JOBS)
    crowd = [start(gates.url, number) for number in range(PROCESSES)]
    for consumer in crowd:
        assert consumer.stdout
        assert consumer.stdout.readline() == "ready\n"
    found = [consumer.communicate(timeout=120)[0] for consumer in begun(crowd)]
    taken = [job for each in found for job, _ in json.loads(each)]
    assert sorted(taken) == [job.id for job in gate.queue.jobs()]
    assert len({tuple(pair) for each in found for pair in json.loads(each)}) == JOBS
    check(gate, batch.id)


def start(url: str, number: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CONSUMER, url, str(number)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def begun(crowd: "list[subprocess.Popen[str]]") -> "list[subprocess.Popen[str]]":
    """All of them at once."""
    for consumer in crowd:
        assert consumer.stdin
        consumer.stdin.write("go\n")
        consumer.stdin.flush()
    return crowd


def check(gate: Gate, batch: str) -> None:
    """Each job moved once, and the batch's counts are those of its jobs."""
    told = gate.history(item=batch, limit=100_000)
    moves = Counter(entry.job for entry in told if entry.event in ("accept", "fail"))
    assert set(moves.values()) == {1}
    assert len(moves) == JOBS
    failed = sum(entry.event == "fail" for entry in told)
    counts = gate.queue.batch(batch).jobs
    assert (counts.processing, counts.failed) == (JOBS - failed, failed)
    assert gate.queue.faults() == []

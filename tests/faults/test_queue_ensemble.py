"""Three ZooKeeper servers whose leader is killed, and consumers that are killed, while batches are processed."""

import random
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import pytest

import headgate
from headgate import Gate, StoreUnavailable
from headgate.core.history import Entry
from headgate.core.tables.states import BATCH, INGEST_JOB
from tests.ensemble import ZooKeeperEnsemble
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Child, Zygote
from tests.waiting import until


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    batches: int
    jobs: int
    consumers: int
    leaders_killed: int
    consumers_killed: int
    #: How long a consumer holds an item that it has taken, so that it is killed while it holds one.
    hold: float
    seconds: float


PLAN = Plan(25, 20, 4, 10, 100, 0.3, 1500) if FULL else Plan(2, 10, 3, 1, 3, 0.1, 100)
#: The pause between two kills of consumers.
PAUSE = 0.5


@pytest.mark.torture
@pytest.mark.timeout(PLAN.seconds + 60)
def test_every_job_ends_once_and_every_batch_is_reported_once(
    zookeeper_ensemble: ZooKeeperEnsemble, processes: Zygote, report: Report
) -> None:
    url = zookeeper_ensemble.fresh() + "?patience=20"
    seed = time.time_ns() % 2**32
    chance = random.Random(seed)
    began = time.monotonic()
    with headgate.connect(url, max_crashes="0") as gate:
        fill(gate)
        crowd = [start(processes, url) for _ in range(PLAN.consumers)]
        leaders = PLAN.leaders_killed
        for number in range(PLAN.consumers_killed):
            time.sleep(PAUSE * chance.random())
            victim = chance.randrange(len(crowd))
            crowd[victim].kill()
            crowd[victim] = start(processes, url)
            if leaders and number * PLAN.leaders_killed >= (PLAN.leaders_killed - leaders) * PLAN.consumers_killed:
                leaders -= 1
                kill_leader(zookeeper_ensemble)
        until(lambda: ended(gate), "every batch to end", PLAN.seconds)
        for consumer in crowd:
            consumer.channel.send("stop")
            consumer.wait()
        check(gate)
        report(
            jobs=PLAN.batches * PLAN.jobs, leaders_killed=PLAN.leaders_killed, consumers_killed=PLAN.consumers_killed,
            seconds=round(time.monotonic() - began), seed=seed,
        )  # fmt: skip


def fill(gate: Gate) -> None:
    for _ in range(PLAN.batches):
        gate.queue.submit("demo", "ann", "https://example.org/x")
        batch = gate.queue.acquire_batch("pending")
        assert batch
        gate.queue.create_jobs(batch, [{"payload_url": f"https://example.org/{n}"} for n in range(PLAN.jobs)])
        gate.queue.fire(batch, "start")


def start(processes: Zygote, url: str) -> Child:
    child = processes.spawn("tests.faults.consumer:consume", url=url, hold=PLAN.hold)
    child.expect("ready")
    return child


def kill_leader(ensemble: ZooKeeperEnsemble) -> None:
    fallen = ensemble.leader()
    fallen.kill()
    ensemble.leader()
    fallen.restart()


def ended(gate: Gate) -> bool:
    try:
        states = gate.queue.counts()[BATCH.name]
    except StoreUnavailable:
        return False
    return sum(states.get(state, 0) for state in ("completed", "failed")) == PLAN.batches


def check(gate: Gate) -> None:
    """According to the history, each item went from state to state without a gap or a repeat, and ended once."""
    told: dict[str, list[Entry]] = defaultdict(list)
    for entry in reversed(gate.history(limit=1_000_000)):
        told[entry.job].append(entry)
    jobs = {job.id: job for job in gate.queue.jobs()}
    assert len(jobs) == PLAN.batches * PLAN.jobs
    for item, entries in told.items():
        path = [entries[0].before, *(entry.after for entry in entries)]
        assert [entry.before for entry in entries] == path[:-1], item
        ends = ("completed", "failed")
        assert sum(state in ends for state in path) == 1, (item, path)
        if item in jobs:
            assert jobs[item].state == path[-1]
            assert set(pairwise(path)) <= {(row.source, row.target) for row in INGEST_JOB.rows}
        else:
            assert [entry.event for entry in entries].count("report") == 1
    assert {batch.report is not None for batch in gate.queue.batches()} == {True}
    assert gate.queue.faults() == []

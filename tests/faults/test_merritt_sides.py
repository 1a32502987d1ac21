"""Both sides of a shared tree, each with processes that are killed: no step twice, none lost, none wrongly failed.

The other side works with kazoo in Merritt's spelling and knows nothing of Headgate's code: tests/merritt/other_side.py.
Where one of its processes is killed between two of its writes, the damage is the original's too: an operator's
`doctor --repair` runs beside it, as a page of the docs says.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import headgate
from headgate import Gate, Refused, StoreUnavailable
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Child, Zygote
from tests.merritt.other_side import OtherSide
from tests.merritt.walk import orphans
from tests.shared_servers import Servers
from tests.waiting import until

JOBS = 5
#: Where each side's processes record the steps that they have finished.
SIDES = {"ours": "tests.faults.merritt_consumer:ours", "theirs": "tests.faults.merritt_consumer:theirs"}


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    #: During this time, there is always a batch of each side.
    seconds: float
    processes: int
    #: The minimum number of killed processes, of each side in turn, and seconds between two kills.
    kills: int
    pause: float


PLANS = [Plan(120, 4, 40, 0.5), Plan(600, 4, 200, 0.5)] if FULL else [Plan(1, 1, 4, 0.3)]


@pytest.fixture
def other(servers: Servers) -> Iterator[tuple[str, OtherSide]]:
    url = servers.fresh("zookeeper")
    other = OtherSide(url.split("/")[2], "/" + url.rpartition("/")[2])
    other.init_nodes()
    yield f"{url}?spelling=mrt-zk&patience=20", other
    other.close()
    servers.drop("zookeeper", url)


@pytest.mark.torture
@pytest.mark.timeout(1800)  # Its kills are counted: on a busy machine they take longer than its seconds.
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.seconds:g}s")
def test_two_sides_of_a_tree_do_nothing_twice_and_lose_nothing(
    other: tuple[str, OtherSide], processes: Zygote, report: Report, tmp_path: Path, plan: Plan
) -> None:
    url, theirs = other
    seed = time.time_ns() % 2**32
    chance, kills, count, done = random.Random(seed), Counter[str](), 0, 0
    with headgate.connect(url, max_crashes="0") as gate:
        crowd = [(side, start(processes, side, url, tmp_path)) for side in SIDES for _ in range(plan.processes)]
        until_time = time.monotonic() + plan.seconds
        while time.monotonic() < until_time or kills.total() < plan.kills:
            if left(gate) < 2 * JOBS:
                submit(gate, theirs)
                count += 2
            done += removed(gate, theirs, ours=kills.total() % 2 == 0)
            time.sleep(plan.pause * chance.random())
            victim = chance.randrange(plan.processes) + plan.processes * (kills.total() % 2)
            side, child = crowd[victim]
            child.kill()
            kills[side] += 1
            crowd[victim] = (side, start(processes, side, url, tmp_path))
            mend(gate)
        until(lambda: mended(gate) == count - done, f"all batches to end (seed {seed})", 120)
        for _, child in crowd:
            child.channel.send("stop")
            child.wait()
        done += removed(gate, theirs, ours=True)
        again = twice((tmp_path / "steps").read_text().splitlines())
        assert not again, "\n".join([f"ended twice (seed {seed})", *again])
        assert done == count, f"lost (seed {seed})"
        mend(gate)
    assert orphans(theirs) == []
    report(store="zookeeper", faults=sum(kills.values()), ours=kills["ours"], theirs=kills["theirs"], jobs=count * JOBS,
           violations=0, seed=seed)  # fmt: skip


def start(processes: Zygote, side: str, url: str, folder: Path) -> Child:
    child = processes.spawn(SIDES[side], url=url, steps=str(folder / "steps"))
    child.expect("ready")
    return child


def submit(gate: Gate, theirs: OtherSide) -> None:
    """A batch of each side, with jobs of that side."""
    ours = gate.queue.submit("demo", "ann", "https://example.org/x")
    batch = gate.queue.acquire_batch("pending")
    assert batch is not None
    assert batch.id == ours.id
    ark = {"primary": f"ark:/99999/{ours.id}"}
    rows = [{"payload_url": f"https://example.org/{n}", "identifiers": ark} for n in range(JOBS)]
    gate.queue.create_jobs(batch, rows)
    gate.queue.fire(batch, "start")
    said = {"profile": "demo", "submitter": "bob", "filename": "https://example.org/y", "type": "file"}
    other = theirs.create_batch(**said)
    assert theirs.lock(f"/batches/{other}")
    theirs.create(f"/batches/{other}/states")
    theirs.set_batch(other, "Processing")
    for _ in range(JOBS):
        theirs.create_job(other, said, identifiers={"primary_id": f"ark:/99999/{other}", "local_id": []})
    theirs.set_batch(other, "Reporting")
    theirs.unlock(f"/batches/{other}")


def twice(steps: list[str]) -> list[str]:
    """Steps that were finished more than once, each with the sides that did so."""
    counts = Counter(" ".join(step.split()[:2]) for step in steps)
    return [step for step in steps if counts[" ".join(step.split()[:2])] > 1]


def left(gate: Gate) -> int:
    counts = gate.queue.counts()["ingest job"]
    return sum(counts.values()) - counts.get("completed", 0)


def mended(gate: Gate) -> int:
    """How many batches have ended, once more is repaired."""
    mend(gate)
    return gate.queue.counts()["batch"].get("completed", 0)


def removed(gate: Gate, theirs: OtherSide, *, ours: bool) -> int:
    """Remove completed batches, by one of the sides; returns how many. All of their jobs must have completed."""
    count = 0
    for batch in gate.queue.batches("completed"):
        jobs = [job.state for job in gate.queue.jobs(batch=batch.id)]
        assert jobs == ["completed"] * JOBS, f"{batch.id} is completed, but its jobs are {jobs}"
        if not ours:
            theirs.delete_batch(batch.id)
        else:
            with suppress(Refused):  # Its reporter was killed, and its session has not ended yet.
                gate.queue.act(batch.id, "clean", daemon=True)
        count += batch.id not in theirs.names("/batches")
    return count


def mend(gate: Gate) -> None:
    """How an operator repairs partial changes."""
    try:
        for fault in gate.queue.faults():
            gate.queue.repair(fault, by="an operator")
    except StoreUnavailable:
        pass

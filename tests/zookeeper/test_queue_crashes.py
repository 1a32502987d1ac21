"""Owners whose session ends, in both spellings: counted under our own node only."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import headgate
from headgate import Gate, ItemLost
from headgate.core.queue.model import Folder, work_states
from headgate.service.queue.use_cases import Queue
from tests.contract.queue_steps import batch_with_jobs, new_batch, retaken, taken_batch, taken_job
from tests.contract.steps import LONG, SHORT
from tests.waiting import until
from tests.zookeeper.test_queue_losses import expire


@pytest.fixture(params=["design", "mrt-zk"])
def spelt(request: pytest.FixtureRequest, url: str) -> str:
    return f"{url}?spelling={request.param}"


@pytest.fixture
def gates(spelt: str) -> Iterator[tuple[Gate, Gate]]:
    """One store that observes, and one whose sessions end."""
    with headgate.connect(spelt) as gate, headgate.connect(spelt) as doomed:
        yield gate, doomed


def die(doomed: Gate, queue: Queue, state: str, url: str) -> str:
    """A daemon takes a job and its session ends."""
    taken = taken_job(doomed.queue, state)
    expire(doomed, LONG, url)
    until(lambda: not queue.job(taken.id).worker, "the lock to go")
    return taken.id


def test_a_job_is_held_in_every_state_without_foreign_nodes(
    gates: tuple[Gate, Gate], spelt: str, url: str, raw: Any
) -> None:
    gate, doomed = gates
    queue, root = gate.queue, f"/{url.rpartition('/')[2]}"
    batch = batch_with_jobs(queue, max_crashes=1)
    merritt, (job,) = spelt.endswith("mrt-zk"), queue.jobs()
    for state in work_states(queue.tables()[1]):
        job_id = die(doomed, queue, state, url)
        assert job_id == job.id
        assert queue.acquire_job(state, lease=LONG) is None
        held = queue.job(job_id)
        assert (held.state, held.crashes, held.former) == ("held", 1, state)
        status = json.loads(raw.get(f"{root}/jobs/{job_id}/status")[0])
        assert status["status"] == ("Held" if merritt else "held")
        time = "last_modified" if merritt else "last_modification_date"
        assert set(status) == {"status", "last_successful_status", time, "retry_count", "message"}
        assert status["message"].startswith("its worker crashed once while ")
        assert json.loads(raw.get(f"{root}/headgate/queue/takings/{job_id}")[0]) == {"crashes": 1, "state": state}
        assert raw.get_children(f"{root}/jobs/states/held") == [f"05-{job_id}"]
        assert queue.job_ids(batch.id, Folder.PROCESSING) == [job_id]
        assert queue.release(job_id).state == state
        assert raw.get_children(f"{root}/headgate/queue/takings") == []
        event = "accept" if state == "pending" else "finish"
        queue.fire(taken_job(queue, state), event)
    assert queue.job(job.id).state == "completed"
    assert queue.faults() == []


def test_sessions_that_end_are_counted_by_the_next_taker(gates: tuple[Gate, Gate], url: str) -> None:
    gate, doomed = gates
    batch_with_jobs(gate.queue)
    (job,) = gate.queue.jobs()
    for count in (1, 2):
        job_id = die(doomed, gate.queue, "pending", url)
        again = retaken(lambda: gate.queue.acquire_job("pending", lease=LONG))
        assert (again.id, again.crashes, gate.queue.job(job_id).crashes) == (job_id, count, count)
        gate.queue.give_back(again)
    die(doomed, gate.queue, "pending", url)
    assert gate.queue.reap() == 1
    assert gate.queue.job(job.id).state == "held"
    new_batch(gate.queue)
    batch = taken_batch(doomed.queue)
    expire(doomed, LONG, url)
    until(lambda: not gate.queue.batch(batch.id).worker, "the lock to go")
    assert retaken(lambda: gate.queue.acquire_batch("pending", lease=LONG)).crashes == 1


def test_neither_a_clean_exit_nor_a_report_after_a_lost_session_is_a_crash(
    gates: tuple[Gate, Gate], spelt: str, url: str
) -> None:
    gate, doomed = gates
    batch_with_jobs(gate.queue)
    with headgate.connect(spelt) as orderly:
        taken_job(orderly.queue)
    lost = taken_job(doomed.queue)
    assert lost.crashes == 0
    expire(doomed, LONG, url)
    until(lambda: not gate.queue.job(lost.id).worker, "the lock to go")
    with pytest.raises(ItemLost):
        doomed.queue.fire(lost, "accept")
    assert gate.queue.reap() == 0
    # Its session is alive, and it did not renew in time: the lease expired, and the item is not reported.
    slow = doomed.queue.acquire_job("pending", lease=SHORT)
    assert slow is not None
    until(lambda: not gate.queue.job(lost.id).worker, "its lease to run out")
    with pytest.raises(ItemLost):
        doomed.queue.give_back(slow)
    again = retaken(lambda: gate.queue.acquire_job("pending", lease=LONG))
    assert (again.id, again.crashes) == (lost.id, 0)
    assert gate.queue.faults() == []


def test_a_note_of_a_removed_item_is_a_fault(gates: tuple[Gate, Gate], url: str, raw: Any) -> None:
    """And if another tool moved it meanwhile, the count starts again."""
    queue, root = gates[0].queue, f"/{url.rpartition('/')[2]}"
    batch_with_jobs(queue)
    (job,) = queue.jobs()
    note = f"{root}/headgate/queue/takings"
    raw.create(f"{note}/{job.id}", b'{"crashes":2,"state":"downloading"}')
    raw.create(f"{note}/jid0000009999", b'{"crashes":2,"state":"pending"}')
    assert [fault.kind for fault in queue.faults()] == ["stray-node"]
    assert queue.repair(queue.faults()[0])
    assert taken_job(queue).crashes == 0
    assert raw.get_children(note) == [job.id]

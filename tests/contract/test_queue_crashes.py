"""Workers that crash, on every store: counted in each state, held after too many, reset by a release."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate import Gate, ItemLost
from headgate.core.queue.model import Folder, Item, is_batch, work_states
from headgate.core.tables.machine import Machine
from headgate.core.tables.states import BATCH, INGEST_JOB
from headgate.service.queue.use_cases import Queue
from tests.contract.queue_steps import (
    STEPS,
    WHO,
    WHY,
    advance,
    as_job,
    as_taken,
    batch_in,
    batch_with_jobs,
    everything,
    folders,
    new_batch,
    retaken,
    row_name,
    taken_job,
    told,
)
from tests.contract.steps import LONG
from tests.waiting import until

#: Seconds after which an owner that never renews counts as dead.
AT_ONCE = 0.03


def show(queue: Queue, item: Item) -> Item:
    return queue.batch(item.id) if is_batch(item.id) else queue.job(item.id)


def taken_to_die(queue: Queue, item: Item) -> Item:
    """Taken by a worker that never renews it. No session keeps it alive either."""
    acquire = queue.acquire_batch if is_batch(item.id) else queue.acquire_job
    taken = acquire(item.state, lease=AT_ONCE, outlives=True)
    assert taken is not None
    assert taken.id == item.id
    return taken


def die(queue: Queue, item: Item) -> Item:
    """Its owner dies, and the reaper notices. Returns the item after that."""
    taken_to_die(queue, item)
    until(lambda: queue.reap() == 1, "the reaper to notice")
    return show(queue, item)


def check_deaths(gate: Gate, machine: Machine, item: Item, most: int, note: Callable[[str, Any], None]) -> Item:
    """Deaths up to the limit, in the item's state; then it is held, and released to its former state."""
    queue, state = gate.queue, item.state
    again, held = (row for row in machine.rows if row.event == "reap" and row.source == state)
    for count in range(1, most):
        before = everything(gate)
        found = die(queue, item)
        assert (found.state, found.crashes, found.former, found.since) == (state, count, "", item.since)
        check_told(gate, found, state, state)
        assert (everything(gate).counts, everything(gate).folders) == (before.counts, before.folders)
        note("transition", row_name(machine, again))
    found = die(queue, item)
    assert (found.state, found.crashes, found.former, found.worker) == ("held", most, state, "")
    word = "notifying" if state == "notify" else state
    assert found.message.startswith(f"its worker crashed {most} times while {word}; ")
    check_told(gate, found, state, "held")
    acquire = queue.acquire_batch if is_batch(item.id) else queue.acquire_job
    assert acquire(state, lease=LONG) is None
    note("transition", row_name(machine, held))
    back = queue.release(item.id, reason=WHY, by=WHO)
    assert (back.state, back.crashes, back.former, show(queue, item).crashes) == (state, 0, "", 0)
    release = [row for row in machine.rows if (row.event, row.target) == ("release", state)]
    note("transition", row_name(machine, release[0]))
    return back


def check_told(gate: Gate, item: Item, before: str, after: str) -> None:
    entry = told(gate, item.id)[-1]
    assert (entry.event, entry.before, entry.after, entry.reason) == ("reap", before, after, item.message)
    assert entry.client, "who died"


def test_a_job_that_kills_its_workers_is_held_in_every_state(
    gate: Gate, record_property: Callable[[str, Any], None]
) -> None:
    """The limit is the job's own: its profile's, at the time of its creation."""
    queue = gate.queue
    batch = batch_with_jobs(queue, max_crashes=2)
    job = queue.job(queue.job_ids(batch.id, Folder.PROCESSING)[0])
    for state in STEPS:
        job = advance(queue, job, state)
        back = as_job(check_deaths(gate, INGEST_JOB, job, 2, record_property))
        assert (back.last_successful, back.retry_count) == (job.last_successful, job.retry_count)
        assert folders(queue, batch.id)[Folder.PROCESSING.value] == [job.id]
    assert advance(queue, job, "completed").crashes == 0
    assert gate.queue.faults() == []


@pytest.mark.parametrize("state", work_states(BATCH))
def test_a_batch_that_kills_its_workers_is_held(
    gate: Gate, state: str, record_property: Callable[[str, Any], None]
) -> None:
    batch = batch_in(gate.queue, state)
    back = check_deaths(gate, BATCH, batch, 3, record_property)
    assert back.state == state
    assert gate.queue.faults() == []


def test_after_three_crashes_consumers_get_the_next_job(gate: Gate) -> None:
    """Only consumers notice. The count stays when a job returns to the queue, and restarts when its state changes."""
    queue = gate.queue
    batch_with_jobs(queue)
    (bad,) = queue.jobs()
    for count in range(3):
        taken = retaken(lambda: queue.acquire_job("pending", lease=AT_ONCE, outlives=True))
        assert (taken.id, taken.crashes) == (bad.id, count)
    batch_with_jobs(queue)
    good = queue.jobs()[1]
    until(lambda: not queue.job(bad.id).worker, "its last owner to die")
    assert taken_job(queue).id == good.id
    held = queue.job(bad.id)
    assert (held.state, held.crashes, held.former) == ("held", 3, "pending")
    queue.release(bad.id, reason=WHY)
    taken_to_die(queue, queue.job(bad.id))
    until(lambda: queue.reap() == 1, "the reaper to notice")
    queue.give_back(taken_job(queue), "not now")
    assert queue.job(bad.id).crashes == 1
    again = taken_job(queue)
    assert (again.id, again.crashes) == (bad.id, 1)
    assert queue.fire(again, "accept").crashes == queue.job(bad.id).crashes == 0
    assert gate.queue.faults() == []


def test_without_a_limit_it_is_retried_forever(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, max_crashes=0)
    (job,) = queue.jobs()
    for count in range(1, 5):
        found = die(queue, job)
        assert (found.state, found.crashes) == ("pending", count)
    deleted = [entry.event for entry in told(gate, job.id)]
    assert deleted == ["create", "reap", "reap", "reap", "reap"]


def test_an_owner_that_reports_too_late_did_not_die(gate: Gate) -> None:
    """It lost the item, and its report is not recorded; but nobody else had noticed yet."""
    queue = gate.queue
    batch_with_jobs(queue)
    new_batch(queue)
    (job,), (batch,) = queue.jobs(), queue.batches("pending")
    for item, event in ((job, "accept"), (batch, "start")):
        acts: tuple[Callable[[Item], object], ...] = (
            lambda taken: queue.fire(as_taken(taken), event),  # noqa: B023
            lambda taken: queue.give_back(as_taken(taken)),
        )
        for act in acts:
            taken = taken_to_die(queue, item)
            until(lambda: not show(queue, item).worker, "its lease to run out")  # noqa: B023
            with pytest.raises(ItemLost):
                act(taken)
            assert queue.reap() == 0
            found = show(queue, item)
            assert (found.state, found.crashes) == (item.state, 0)
    assert [entry.event for entry in told(gate, job.id)] == ["create"]


def test_deleting_leaves_no_trace_of_a_job_that_killed_its_workers(gate: Gate) -> None:
    queue = gate.queue
    batch = batch_with_jobs(queue, 2, max_crashes=1)
    first, second = queue.jobs()
    for job in (first, second):
        assert die(queue, job).state == "held"
    queue.delete(first.id, reason=WHY)
    assert [job.id for job in queue.jobs()] == [second.id]
    queue.delete(second.id, reason=WHY)
    other = new_batch(queue)
    for _ in range(3):
        die(queue, other)
    assert queue.batch(other.id).state == "held"
    queue.delete(other.id, reason=WHY)
    assert [each.id for each in queue.batches()] == [batch.id]
    assert gate.queue.faults() == []

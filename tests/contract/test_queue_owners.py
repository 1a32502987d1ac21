"""Taking, renewing, releasing; and that a dead consumer, or one that was never the owner, can change nothing."""

from collections.abc import Callable

import pytest

from headgate import Gate, ItemLost, QueueRefused
from headgate.core.queue.model import Identifiers, Place, Taken
from headgate.core.tables.states import INGEST_JOB
from headgate.service.queue.use_cases import Queue
from tests.contract.queue_steps import (
    STEPS,
    WHY,
    advance,
    as_job,
    as_taken,
    batch_with_jobs,
    everything,
    job_in,
    new_batch,
    retaken,
    taken_batch,
    taken_job,
)
from tests.contract.steps import LONG, LONGER, SHORT, Gates, in_thread
from tests.waiting import until

OWNERS_ACTS: dict[str, Callable[[Queue, Taken], object]] = {
    "fire": lambda queue, taken: queue.fire(taken, "accept", "mine"),
    "renew": lambda queue, taken: queue.renew(taken),
    "give_back": lambda queue, taken: queue.give_back(taken, "mine"),
    "change": lambda queue, taken: queue.change(taken, space_needed=1),
}


def refused(gate: Gate, taken: Taken) -> None:
    """No operation of an owner works, and nothing changes."""
    before = everything(gate)
    for act in OWNERS_ACTS.values():
        with pytest.raises(ItemLost) as loss:
            act(gate.queue, taken)
        assert (loss.value.item, loss.value.token) == (taken.id, taken.token)
    assert everything(gate) == before


def test_only_the_newest_owner_can_do_anything(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "pending")
    refused(gate, Taken(job.id, 1, "pending"))
    first = taken_job(queue)
    refused(gate, Taken(job.id, first.token + 1, "pending"))
    queue.give_back(first, "not now")
    assert queue.job(job.id).message == "not now"
    refused(gate, as_taken(first))
    second = taken_job(queue)
    assert second.token != first.token
    refused(gate, as_taken(first))
    assert queue.renew(second) == LONG
    assert queue.renew(second, lease=LONGER) == LONGER
    queue.fire(second, "accept")
    refused(gate, as_taken(first))


@pytest.mark.parametrize("act", OWNERS_ACTS)
def test_an_item_that_nobody_took_has_no_owner(gate: Gate, act: str) -> None:
    queue = gate.queue
    with pytest.raises(ItemLost):
        OWNERS_ACTS[act](queue, Taken("jid0000000999", 1, "pending"))
    assert everything(gate).history == []


def test_a_taken_item_is_not_taken_again(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 2)
    new_batch(queue)
    first, second = taken_job(queue), taken_job(queue)
    assert first.id < second.id
    assert queue.acquire_job("pending") is None
    assert taken_batch(queue).worker
    assert queue.acquire_batch("pending") is None
    shown = queue.job(first.id)
    assert (shown.worker, shown.lease) == (first.worker, LONG)
    assert everything(gate).history[0].event == "submit", "taking is not recorded: no state changed"


def test_a_repeated_request_returns_the_same_item(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 2)
    first = queue.acquire_job("pending", lease=LONG, request_id="one")
    again = queue.acquire_job("pending", lease=LONG, request_id="one")
    assert first
    assert again
    assert (again.id, again.token) == (first.id, first.token)
    other = queue.acquire_job("pending", lease=LONG, request_id="two")
    assert other
    assert other.id != first.id
    new_batch(queue)
    batch = queue.acquire_batch("pending", lease=LONG, request_id="three")
    repeated = queue.acquire_batch("pending", lease=LONG, request_id="three")
    assert batch
    assert repeated
    assert (repeated.id, repeated.token) == (batch.id, batch.token)


def test_an_item_of_a_dead_consumer_is_taken_again_in_the_same_state(gates: Gates) -> None:
    """A job in each state, all taken by one consumer that dies."""
    gate, doomed = gates.open(), gates.open()
    batch_with_jobs(gate.queue, len(STEPS))
    for job, state in zip(gate.queue.jobs(), reversed(STEPS), strict=True):
        advance(gate.queue, job, state)
    dead = {state: doomed.queue.acquire_job(state, lease=SHORT) for state in STEPS}
    again = {state: retaken(lambda: gate.queue.acquire_job(state, lease=LONG)) for state in STEPS}  # noqa: B023
    for state, lost in dead.items():
        assert lost
        assert (again[state].id, again[state].retry_count) == (lost.id, 0)
        assert again[state].token != lost.token
        refused_events(gate, as_taken(lost))


def refused_events(gate: Gate, taken: Taken) -> None:
    """The dead one wakes up and reports: nothing is recorded."""
    before = everything(gate)
    for event in INGEST_JOB.allowed(taken.state):
        with pytest.raises(ItemLost):
            gate.queue.fire(taken, event, "I was only asleep")
    assert everything(gate) == before


def test_a_batch_of_a_dead_owner_is_taken_by_another(gates: Gates) -> None:
    gate, doomed = gates.open(), gates.open()
    new_batch(gate.queue)
    dead = doomed.queue.acquire_batch("pending", lease=SHORT)
    assert dead
    assert retaken(lambda: gate.queue.acquire_batch("pending", lease=LONG)).id == dead.id
    refused_batch = as_taken(dead)
    for event in ("hold", "start"):
        with pytest.raises(ItemLost):
            gate.queue.fire(refused_batch, event)
    with pytest.raises(ItemLost):
        gate.queue.create_jobs(refused_batch, [{"payload_url": "https://example.org/1"}])


def test_an_owner_records_changes_and_keeps_the_item(gate: Gate) -> None:
    queue = gate.queue
    job_in(queue, "estimating")
    job = taken_job(queue, "estimating")
    names = Identifiers("ark:/99999/x", ("loc1", "löc 2"))
    changed = as_job(
        queue.change(job, space_needed=10**12, identifiers=names, configuration={"title": "T"}, priority=7)
    )
    assert (changed.space_needed, changed.identifiers, changed.priority) == (10**12, names, 7)
    assert changed.configuration == {**job.configuration, "title": "T"}
    assert queue.job(job.id) == changed
    assert (changed.token, changed.worker, changed.state) == (job.token, job.worker, "estimating")
    moved = as_job(queue.fire(job, "finish", "sized", configuration={"title": "U"}, space_needed=5))
    assert (moved.space_needed, moved.configuration["title"], moved.identifiers) == (5, "U", names)
    assert (moved.last_successful, moved.message) == ("estimating", "sized")
    assert queue.job(job.id) == moved


def test_a_priority_set_with_a_state_change_reorders_the_queue(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 3)
    for _ in range(3):
        queue.fire(taken_job(queue), "accept")
    for priority in (50, None, 2):
        queue.fire(taken_job(queue, "estimating"), "finish", priority=priority)
    assert [taken_job(queue, "provisioning").priority for _ in range(3)] == [2, 5, 50]


def test_a_round_looks_at_every_job_once(gate: Gate) -> None:
    queue = gate.queue
    batch = batch_with_jobs(queue, 4)
    for number in range(4):
        queue.fire(taken_job(queue), "accept")
        queue.fire(taken_job(queue, "estimating"), "finish", priority=5 if number % 2 else 8)
    seen, place = [], None
    while job := queue.acquire_job("provisioning", lease=LONG, after=place):
        seen.append((job.priority, job.id))
        place = job.place
        queue.give_back(job, "no room")
    assert len(seen) == 4
    assert seen == sorted(seen)
    assert queue.batch(batch.id).jobs.processing == 4
    beyond = Place(99, "jid9999999999")
    assert queue.acquire_job("provisioning", after=beyond) is None


def test_a_batch_with_a_taken_job_cannot_be_deleted(gates: Gates) -> None:
    """A batch is not deleted while a consumer has it."""
    gate = gates.open()
    job = job_in(gate.queue, "failed", "provisioning")
    assert gate.queue.report_finished() == [job.batch]
    gate.queue.fire(taken_batch(gate.queue, "reporting"), "finish")
    gate.queue.resume(job.id, reason=WHY)
    taken = taken_job(gate.queue, "downloading")
    with pytest.raises(QueueRefused, match=job.id):
        gate.queue.delete(job.batch, reason=WHY)
    gate.queue.fire(taken, "fail", "again")
    gate.queue.delete(job.batch, reason=WHY)
    assert gate.queue.jobs() == []


def test_an_idle_consumer_is_woken_when_there_is_work(gates: Gates) -> None:
    gate, other = gates.open(), gates.open()
    batch = new_batch(gate.queue)
    other.queue.await_work(["pending"], [], 20)
    assert taken_batch(other.queue).id == batch.id
    sleeper = in_thread(lambda: other.queue.await_work([], ["pending", "estimating"], 60))
    batch_with_jobs(gate.queue)
    sleeper.result(timeout=30)
    assert taken_job(other.queue).batch != batch.id


def test_each_of_many_idle_consumers_is_woken_for_its_own_state(gates: Gates) -> None:
    """The first to leave may have been the one that polled for the others."""
    gate, other = gates.open(), gates.open()
    batches = in_thread(lambda: other.queue.await_work(["pending"], [], 60))
    jobs = [in_thread(lambda: other.queue.await_work([], ["pending"], 60)) for _ in range(3)]
    later = in_thread(lambda: other.queue.await_work([], ["estimating"], 60))
    new_batch(gate.queue)
    batches.result(timeout=30)
    taken_batch(gate.queue)
    batch_with_jobs(gate.queue, 3)
    for each in jobs:
        each.result(timeout=30)
    gate.queue.fire(taken_job(gate.queue), "accept")
    later.result(timeout=30)


def test_there_is_nothing_to_do_while_the_queue_is_paused(gates: Gates) -> None:
    gate = gates.open()
    job_in(gate.queue, "pending")
    gate.queue.set_hold(reason="maintenance")
    gate.queue.await_work([], ["pending"], 0.05)
    assert gate.queue.acquire_job("pending") is None
    gate.queue.clear_hold()
    gate.queue.await_work([], ["pending"], 20)
    assert taken_job(gate.queue).worker


def test_items_of_dead_owners_are_freed(gates: Gates) -> None:
    gate, doomed = gates.open(), gates.open()
    job = job_in(gate.queue, "pending")
    dead = doomed.queue.acquire_job("pending", lease=SHORT)
    assert dead
    until(lambda: not gate.queue.job(job.id).worker, "the job to be nobody's")
    refused(gate, as_taken(dead))
    gate.queue.reap()
    assert gate.queue.reap() == 0
    assert gate.queue.faults() == []
    assert taken_job(gate.queue).id == job.id


def test_a_batch_can_be_taken_behind_another_one(gate: Gate) -> None:
    """So that an item that cannot be done yet blocks no other."""
    first, second = (gate.queue.submit("demo", "me", f"http://example.org/{each}").id for each in range(2))
    behind = gate.queue.acquire_batch("pending", after=first)
    assert behind is not None
    assert behind.id == second
    assert gate.queue.acquire_batch("pending", after=first) is None
    assert [each.id for each in gate.queue.batches(taken=True)] == [second]
    found = gate.queue.acquire_batch("pending")
    assert found is not None
    assert found.id == first


def test_taken_jobs_can_be_listed_separately(gate: Gate) -> None:
    batch_with_jobs(gate.queue, 2)
    job = taken_job(gate.queue)
    assert [each.id for each in gate.queue.jobs(taken=True)] == [job.id]
    gate.queue.give_back(job)
    assert gate.queue.jobs(taken=True) == []

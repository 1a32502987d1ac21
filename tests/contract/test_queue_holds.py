"""The order of jobs, holds and the pause, lists, and what is refused before anything is written."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate import BadValue, Gate, HeadgateError, QueueRefused, UnknownName
from headgate.core.queue.model import ALL, Taken
from headgate.service.queue.use_cases import Queue
from tests.contract.queue_steps import (
    PROFILE,
    WHY,
    as_job,
    batch_in,
    batch_with_jobs,
    everything,
    job_in,
    new_batch,
    taken_batch,
    taken_job,
    told,
)
from tests.contract.steps import LONG

# ---------------------------------------------------------------- order


def test_the_smallest_priority_goes_first_then_the_oldest(gate: Gate) -> None:
    queue = gate.queue
    for priority in (50, 5, 99, 0, 5):
        batch_with_jobs(queue, 1, priority=priority)
    taken = [taken_job(queue) for _ in range(5)]
    assert [job.priority for job in taken] == [0, 5, 5, 50, 99]
    assert [job.id for job in taken[1:3]] == sorted(job.id for job in taken[1:3])


def test_changing_the_priority_changes_the_queue_position(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 3)
    jobs = [job.id for job in queue.jobs()]
    assert queue.set_priority(jobs[2], 0, reason="urgent", by="ann").priority == 0
    first = taken_job(queue)
    assert first.id == jobs[2]
    assert queue.set_priority(first.id, 9, reason="not so urgent").priority == 9
    moved = as_job(queue.fire(first, "accept"))
    assert (moved.priority, moved.state) == (9, "estimating"), "its owner continues"
    assert [taken_job(queue).id for _ in range(2)] == jobs[:2]
    entry = told(gate, first.id)[1]
    assert (entry.event, entry.client) == ("set-priority", "ann")
    assert "urgent" in entry.reason
    assert queue.faults() == []


def test_a_priority_out_of_range_is_refused_and_not_clamped(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "pending")
    taken = taken_job(queue)
    before = everything(gate)
    wrong: list[Any] = [-1, 100, 105, 5.0, "5", True]
    for priority in wrong:
        with pytest.raises(BadValue):
            queue.set_priority(job.id, priority, reason=WHY)
        with pytest.raises(BadValue):
            queue.fire(taken, "accept", priority=priority)
    assert everything(gate) == before


# ---------------------------------------------------------------- holds


def test_a_hold_shows_its_author_reason_and_time(gate: Gate) -> None:
    queue = gate.queue
    assert queue.holds() == []
    first = queue.set_hold(PROFILE, reason="storage is moved", by="ann")
    assert (first.profile, first.reason, first.who) == (PROFILE, "storage is moved", "ann")
    assert first.since
    assert queue.set_hold(PROFILE, reason="another", by="bob") == first
    queue.set_hold("other", reason="x", by="bob")
    assert [hold.profile for hold in queue.holds()] == sorted([PROFILE, "other"])
    assert queue.hold_of(PROFILE) == first
    assert queue.clear_hold(PROFILE, by="bob")
    assert not queue.clear_hold(PROFILE)
    assert [hold.profile for hold in queue.holds()] == ["other"]
    entries = [entry for entry in gate.history() if entry.resource == PROFILE]
    assert [(entry.noun, entry.event, entry.client) for entry in reversed(entries)] == [
        ("hold", "hold", "ann"), ("hold", "clear", "bob"),
    ]  # fmt: skip


def test_held_items_stay_held_until_they_are_released(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "held")
    batch = batch_in(queue, "held")
    queue.set_hold(PROFILE, reason="not yet", by="ann")
    for item in (job.id, batch.id):
        with pytest.raises(QueueRefused, match="ann: not yet"):
            queue.release(item)
    queue.clear_hold(PROFILE)
    assert (queue.job(job.id).state, queue.batch(batch.id).state) == ("held", "held")
    assert queue.release(job.id, reason="go").state == "pending"
    assert queue.release(batch.id).state == "pending"
    assert taken_job(queue).id == job.id
    assert taken_batch(queue).id == batch.id


def test_an_item_that_is_taken_in_pending_names_the_hold_of_its_collection(gate: Gate) -> None:
    queue = gate.queue
    queue.set_hold("other", reason=WHY)
    batch_with_jobs(queue, 3)
    new_batch(queue)
    assert [taken_job(queue).hold, taken_batch(queue).hold] == ["", ""]
    hold = queue.set_hold(PROFILE, reason="storage is moved", by="ann")
    new_batch(queue)
    job = taken_job(queue)
    assert [job.hold, taken_batch(queue).hold] == [hold.in_words] * 2
    queue.clear_hold(PROFILE)
    assert taken_job(queue).hold == "", "the hold was cleared"
    queue.set_hold(PROFILE, reason=WHY)
    assert as_job(queue.fire(job, "accept")).hold == ""
    assert taken_job(queue, "estimating").hold == "", "only what is pending is held"


def test_the_hold_of_one_collection_is_not_that_of_another(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "held")
    queue.set_hold(PROFILE + "x", reason=WHY)
    queue.set_hold(PROFILE.upper(), reason=WHY)
    assert queue.release(job.id).state == "pending"


def test_a_pause_stops_new_work_and_lets_running_work_finish(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 2)
    new_batch(queue)
    running = taken_job(queue)
    pause = queue.set_hold(reason="maintenance", by="ann")
    assert pause.profile == ALL
    assert queue.acquire_job("pending") is None
    assert queue.acquire_batch("pending") is None
    assert queue.renew(running) == LONG
    assert queue.fire(running, "accept").state == "estimating"
    assert queue.acquire_job("estimating") is None
    queue.clear_hold()
    assert taken_job(queue, "estimating").id == running.id
    assert taken_batch(queue).worker


# ---------------------------------------------------------------- lists


def test_lists_can_be_filtered_and_paged(gate: Gate) -> None:
    queue = gate.queue
    batches = [batch_with_jobs(queue, 2, profile=f"profile {number}") for number in range(3)]
    new_batch(queue)
    assert [batch.id for batch in queue.batches("processing")] == [batch.id for batch in batches]
    assert [batch.id for batch in queue.batches(profile="profile 1")] == [batches[1].id]
    assert len(queue.batches(submitter="ann")) == 4
    assert queue.batches(submitter="bob") == []
    assert [job.batch for job in queue.jobs(batch=batches[2].id)] == [batches[2].id] * 2
    assert len(queue.jobs(profile="profile 0")) == 2
    queue.fire(taken_job(queue), "accept")
    assert [job.state for job in queue.jobs("estimating")] == ["estimating"]
    paged: list[str] = []
    while page := queue.jobs(after=paged[-1] if paged else None, limit=2):
        paged += [job.id for job in page]
    assert paged == [job.id for job in queue.jobs()]
    assert queue.counts()["ingest job"] == {"pending": 5, "estimating": 1}, "states without items are left out"
    assert [batch.id for batch in queue.batches(after=batches[0].id, limit=1)] == [batches[1].id]


def test_reading_writes_nothing(gate: Gate) -> None:
    queue = gate.queue
    job_in(queue, "failed", "downloading")
    batch_with_jobs(queue)
    taken_job(queue)
    first = everything(gate)
    queue.faults()
    queue.hold_of(PROFILE)
    assert everything(gate) == first


def test_the_history_can_be_paged_and_filtered_by_event(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "failed", "downloading")
    everything_told = gate.history(item=job.batch)
    assert [entry.event for entry in gate.history(event="fail")] == ["fail"]
    first = gate.history(item=job.batch, limit=3)
    rest = gate.history(item=job.batch, after=first.next)
    assert [*first, *rest] == list(everything_told)
    assert gate.history(item=job.id)[0].event == "fail"
    queue.set_hold("other", reason=WHY, by="nobody else")
    whole = gate.history(limit=1000)
    for noun in ("batch", "ingest job", "hold"):
        alone = gate.history(noun=noun, limit=1000)
        assert list(alone) == [entry for entry in whole if entry.noun == noun]
        assert alone
    assert [entry.noun for entry in gate.history(client="nobody else")] == ["hold"]
    since = everything_told[1].at
    assert all(entry.at >= since for entry in gate.history(since=since))


# ---------------------------------------------------------------- bad input

BAD: dict[str, Callable[[Queue], object]] = {
    "an id of nothing": lambda queue: queue.job("lunch"),
    "an id with too few digits": lambda queue: queue.batch("bid001"),
    "a state that nobody takes from": lambda queue: queue.acquire_job("failed"),
    "a state of a batch for a job": lambda queue: queue.acquire_job("reporting"),
    "a state that is none": lambda queue: queue.acquire_batch("lunch"),
    "a profile with a slash": lambda queue: queue.submit("a/b", "ann", "https://example.org"),
    "no payload": lambda queue: queue.submit(PROFILE, "ann", ""),
    "unknown metadata": lambda queue: queue.submit(PROFILE, "ann", "https://example.org", lunch="soup"),
    "a list of an unknown state": lambda queue: queue.jobs("lunch"),
    "a negative lease": lambda queue: queue.acquire_job("pending", lease=-1),
    "a hold without a reason": lambda queue: queue.set_hold(PROFILE, reason=""),
    "a token that is none": lambda queue: queue.renew(Taken("jid0000000001", -1, "pending")),
    "negative space": lambda queue: queue.change(Taken("jid0000000001", 1, "pending"), space_needed=-1),
}
UNKNOWN: dict[str, Callable[[Queue], object]] = {
    "a job": lambda queue: queue.job("jid0000000077"),
    "a batch": lambda queue: queue.batch("bid0000000077"),
    "a batch by a job's id": lambda queue: queue.batch("jid0000000001"),
    "a job to resume": lambda queue: queue.resume("jid0000000077"),
    "a batch to delete": lambda queue: queue.delete("bid0000000077", reason=WHY),
    "a job to move in the order": lambda queue: queue.set_priority("jid0000000077", 1),
    "jobs of a batch": lambda queue: queue.job_ids("bid0000000077", "batch-failed"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("cases", "error"), [(BAD, BadValue), (UNKNOWN, UnknownName)], ids=["bad", "unknown"])
def test_impossible_requests_are_refused(gate: Gate, cases: dict[str, Any], error: type[HeadgateError]) -> None:
    job_in(gate.queue, "pending")
    before = everything(gate)
    for what, act in cases.items():
        with pytest.raises(error):
            act(gate.queue)
        assert everything(gate) == before, what

"""Batches: created in portions and resumed after interruptions, reported once, cleaned without a trace."""

import pytest

from headgate import BadValue, Gate, ItemLost, QueueRefused, TransitionRefused, UnknownName
from headgate.core.queue.model import Folder, JobCounts, NewJob, Report
from tests.contract.queue_steps import (
    PROFILE,
    WHY,
    advance,
    as_batch,
    as_job,
    as_taken,
    batch_in,
    batch_with_jobs,
    everything,
    folders,
    is_there,
    job_in,
    new_batch,
    port,
    retaken,
    rows_for,
    taken_batch,
    taken_job,
    told,
)
from tests.contract.steps import Gates


def test_a_repeated_submission_returns_the_same_batch(gate: Gate) -> None:
    one = gate.queue.submit(PROFILE, "ann", "https://example.org/x", request_id="first")
    assert gate.queue.submit(PROFILE, "ann", "https://example.org/x", request_id="first").id == one.id
    assert gate.queue.submit(PROFILE, "ann", "https://example.org/x", request_id="second").id != one.id
    assert len(gate.queue.batches()) == 2
    assert len(told(gate, one.id)) == 1


def test_ids_have_ten_digits_and_are_never_reused(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "failed")
    assert (job.id[:3], len(job.id), job.batch[:3], len(job.batch)) == ("jid", 13, "bid", 13)
    queue.delete(job.id, reason=WHY)
    queue.report_finished()
    queue.fire(taken_batch(queue, "reporting"), "finish")
    queue.clean(0)
    assert queue.batches() == []
    other = job_in(queue, "pending")
    assert other.id > job.id
    assert other.batch > job.batch


def test_the_oldest_batch_is_taken_first(gate: Gate) -> None:
    made = [new_batch(gate.queue).id for _ in range(3)]
    assert [taken_batch(gate.queue).id for _ in range(3)] == made


def test_jobs_are_made_in_order_and_in_portions(gate: Gate) -> None:
    queue = gate.queue
    new_batch(queue)
    batch = taken_batch(queue)
    assert queue.create_jobs(batch, rows_for(600)) == 600
    assert queue.batch(batch.id).made == 600
    jobs = queue.jobs(batch=batch.id)
    assert [job.configuration["payload_url"] for job in jobs] == [row["payload_url"] for row in rows_for(600)]
    assert len({job.id for job in jobs}) == 600
    assert queue.batch(batch.id).jobs == JobCounts(600, 0, 0)


def test_making_that_was_cut_off_is_taken_up_and_no_job_is_made_twice(gates: Gates) -> None:
    gate, doomed = gates.open(), gates.open()
    rows = rows_for(10)
    new_batch(gate.queue)
    dead = doomed.queue.acquire_batch("pending", lease=2.0)
    assert dead
    assert doomed.queue.create_jobs(dead, rows[:4]) == 4
    batch = retaken(lambda: gate.queue.acquire_batch("pending"))
    assert (batch.id, batch.made, batch.jobs.processing) == (dead.id, 4, 4)
    with pytest.raises(ItemLost):
        gate.queue.create_jobs(as_taken(dead), rows)
    assert gate.queue.create_jobs(batch, rows) == 10
    assert gate.queue.create_jobs(batch, rows) == 10
    jobs = gate.queue.jobs(batch=batch.id)
    assert [job.configuration["payload_url"] for job in jobs] == [row["payload_url"] for row in rows]
    gate.queue.fire(batch, "start")
    with pytest.raises(ItemLost):
        gate.queue.create_jobs(batch, rows_for(11))
    assert len(gate.queue.jobs()) == 10


def test_a_portion_that_is_sent_again_is_made_once(gate: Gate) -> None:
    """As after a lost answer: the store itself skips existing jobs."""
    queue, store = gate.queue, port(gate)
    new_batch(queue)
    taken = as_taken(taken_batch(queue))
    portion = [NewJob(f"https://example.org/{number}") for number in range(4)]
    assert store.create_jobs(taken, 0, portion, "/work") == 4
    assert store.create_jobs(taken, 0, portion, "/work") == 4
    assert store.create_jobs(taken, 2, portion, "/work") == 6
    with pytest.raises(BadValue):
        store.create_jobs(taken, 7, portion, "/work")
    urls = [job.configuration["payload_url"][-1] for job in queue.jobs()]
    assert urls == ["0", "1", "2", "3", "2", "3"]


def test_jobs_are_made_for_a_pending_batch_alone(gate: Gate) -> None:
    batch = batch_in(gate.queue, "reporting")
    taken = taken_batch(gate.queue, "reporting")
    with pytest.raises(TransitionRefused):
        gate.queue.create_jobs(taken, rows_for(3))
    assert gate.queue.batch(batch.id).made == 1


def test_a_batch_without_a_job_ends_failed(gate: Gate) -> None:
    queue = gate.queue
    batch = new_batch(queue)
    queue.fire(taken_batch(queue), "start", "the manifest is corrupt")
    assert queue.batch(batch.id).message == "the manifest is corrupt"
    assert queue.report_finished() == [batch.id]
    assert queue.fire(taken_batch(queue, "reporting"), "finish").state == "failed"


def test_a_batch_is_reported_once_when_its_last_job_has_ended(gate: Gate) -> None:
    queue = gate.queue
    batch = batch_with_jobs(queue, 3)
    held = as_job(queue.fire(taken_job(queue), "hold", WHY))
    failed = as_job(queue.fire(taken_job(queue), "fail", "corrupt"))
    good = advance(queue, queue.jobs("pending")[0], "completed")
    assert queue.report_finished() == []
    assert folders(queue, batch.id) == {
        "batch-processing": [held.id], "batch-failed": [failed.id], "batch-completed": [good.id],
    }  # fmt: skip
    queue.delete(held.id, reason="nobody wants it")
    assert queue.report_finished() == [batch.id]
    assert queue.report_finished() == []
    reporting = taken_batch(queue, "reporting")
    report = Report((failed.id,), (good.id,))
    done = as_batch(queue.fire(reporting, "finish", "told", report=report))
    assert done.state == "failed"
    kept = queue.batch(batch.id).report
    assert kept
    assert (kept.failed, kept.successful) == (report.failed, report.successful)
    assert kept.at
    assert [entry.event for entry in told(gate, batch.id)] == ["submit", "start", "report", "finish"]


def test_a_failed_batch_is_resumed_and_reported_again(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "failed", "processing")
    queue.report_finished()
    queue.fire(taken_batch(queue, "reporting"), "finish")
    assert queue.resume(job.id, reason="the inventory is back").state == "recording"
    resumed = queue.job(job.id)
    assert (resumed.retry_count, resumed.last_successful, resumed.message) == (1, "processing", "the inventory is back")
    assert queue.batch(job.batch).state == "failed"
    assert queue.batch(job.batch).jobs == JobCounts(1, 0, 0)
    with pytest.raises(QueueRefused):
        queue.update_report(job.batch, reason=WHY)
    advance(queue, resumed, "completed")
    assert queue.report_finished() == [], "a person decides when to report again"
    queue.update_report(job.batch, reason=WHY)
    taken = taken_batch(queue, "update-reporting")
    assert queue.fire(taken, "finish", report=Report((), (job.id,))).state == "completed"


def test_a_deleted_job_leaves_no_trace_but_its_history(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "failed", "downloading")
    queue.delete(job.id, reason="a duplicate", by="ann")
    assert not is_there(queue, job.id)
    assert queue.jobs() == []
    assert queue.batch(job.batch).jobs == JobCounts(0, 0, 0)
    assert queue.batch(job.batch).made == 1
    last = told(gate, job.id)[-1]
    assert (last.event, last.client, last.reason) == ("delete", "ann", "a duplicate")
    assert job.id in {entry.job for entry in gate.history(item=job.batch)}


def test_a_deleted_batch_leaves_no_trace_of_its_jobs(gate: Gate) -> None:
    queue = gate.queue
    kept = batch_with_jobs(queue, 2)
    for _ in range(2):
        queue.fire(taken_job(queue), "hold", WHY)
    batch = batch_in(queue, "failed")
    before = {job.id for job in queue.jobs(batch=kept.id)}
    queue.delete(batch.id, reason=WHY)
    assert {job.id for job in queue.jobs()} == before
    assert [each.id for each in queue.batches()] == [kept.id]
    with pytest.raises(UnknownName):
        queue.job_ids(batch.id, Folder.FAILED)


def test_a_completed_job_is_cleaned_at_once_and_its_batch_after_the_retention(gate: Gate) -> None:
    queue = gate.queue
    batch = batch_in(queue, "completed")
    job = queue.jobs()[0]
    store = port(gate)
    assert list(store.cleanable(store.job_table, 0, 10)) == [job.id]
    assert queue.clean(3600) == [job.id]
    assert queue.faults() == []
    assert (queue.job(job.id).state, queue.batch(batch.id).jobs.completed) == ("cleaned", 1)
    assert queue.clean(3600) == []
    assert queue.clean(0) == [batch.id]
    found = everything(gate)
    assert (found.batches, found.jobs, found.counts) == ([], [], {"batch": {}, "ingest job": {}})
    assert queue.faults() == []


def test_a_cleaned_job_is_kept_for_the_report(gate: Gate) -> None:
    queue = gate.queue
    job = job_in(queue, "cleaned")
    assert queue.job_ids(job.batch, Folder.COMPLETED) == [job.id]
    assert queue.batch(job.batch).jobs == JobCounts(0, 0, 1)
    with pytest.raises(QueueRefused):
        queue.set_priority(job.id, 1, reason=WHY)
    assert queue.report_finished() == [job.batch]
    assert queue.fire(taken_batch(queue, "reporting"), "finish").state == "completed"
    assert queue.faults() == []

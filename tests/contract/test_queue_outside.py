"""Outside owners of batches and ingest jobs: the holds that they see, and the reports written for them."""

from headgate import Gate
from tests.contract.queue_steps import PROFILE, WHY, as_batch, batch_with_jobs, new_batch, taken_batch, taken_job


def test_an_item_of_a_held_collection_says_so_to_its_owner(gate: Gate) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 1)
    new_batch(queue)
    queue.set_hold(PROFILE, reason="it is moved", by="ann")
    batch, job = taken_batch(queue), taken_job(queue)
    assert all("on hold, set by ann: it is moved" in each.hold for each in (batch, job))
    assert queue.fire(job, "hold", WHY).state == "held"
    assert queue.job(job.id).hold == ""
    queue.give_back(batch)
    queue.clear_hold(PROFILE)
    assert taken_batch(queue).hold == ""


def test_a_finish_without_a_report_leaves_a_true_one(gate: Gate) -> None:
    queue = gate.queue
    batch = batch_with_jobs(queue, 2)
    for _ in range(2):
        queue.fire(taken_job(queue), "fail", WHY)
    failed = tuple(sorted(job.id for job in queue.jobs()))
    queue.report_finished()
    ended = as_batch(queue.fire(taken_batch(queue, "reporting"), "finish"))
    assert ended.report is not None
    assert (ended.report.failed, ended.report.successful) == (failed, ())
    queue.delete(failed[0], reason=WHY)
    queue.update_report(batch.id)
    again = as_batch(queue.fire(taken_batch(queue, "update-reporting"), "finish"))
    assert again.report is not None
    assert (again.report.failed, again.report.successful) == (failed[1:], ())

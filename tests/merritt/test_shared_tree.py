"""Both sides of a tree: Headgate can work on batches and jobs of Merritt's programs, and the other way round."""

from typing import Any

import pytest

from headgate import Batch, Gate, IngestJob, QueueRefused
from headgate.core.queue.model import Folder, Identifiers
from headgate.service.queue.use_cases import Queue
from tests.contract.steps import LONG
from tests.merritt.other_side import OtherSide

CONFIGURATION = {
    "batchID": "bid-1", "jobID": "jid-1", "profile": "demo", "type": "file", "submitter": "bob",
    "responseForm": "xml", "filename": "https://example.org/a.txt", "title": "A title", "update": False,
    "retainTargetURL": "true", "DCtitle": "Another", "objectID": "ark:/99999/fk4x", "localID": "l1; l2",
}  # fmt: skip


def submit(other: OtherSide) -> str:
    return other.create_batch(
        profile="demo", submitter="bob", filename="https://example.org/a.txt", type="file", update=False
    )


def take_batch(queue: Queue, state: str = "pending") -> Batch:
    batch = queue.acquire_batch(state, lease=LONG)
    assert batch is not None
    return batch


def take(queue: Queue, state: str) -> IngestJob:
    job = queue.acquire_job(state, lease=LONG)
    assert job is not None
    return job


def below_own_root(other: OtherSide) -> list[str]:
    """Headgate's own data about single batches and jobs."""
    own = "/headgate/queue"
    return [
        f"{name}/{each}"
        for name in ("batches", "jobs", "requests", "takings", "owners")
        for each in other.names(f"{own}/{name}")
    ]


def test_a_batch_of_the_other_side_gets_its_jobs(gate: Gate, other: OtherSide) -> None:
    """Headgate's data about it is created on first use, and no job number is skipped."""
    batch_id = submit(other)
    batch = take_batch(gate.queue)
    assert (batch.id, batch.profile, batch.submission.submitter, batch.submission.type) == (
        batch_id,
        "demo",
        "bob",
        "file",
    )
    made = gate.queue.create_jobs(batch, [{"payload_url": "https://example.org/a.txt", "payload_type": "file"}])
    assert made == 1
    gate.queue.fire(batch, "start")
    assert [name for name in other.names("/jobs") if name != "states"] == ["jid0000000001"]
    assert other.take_job("Pending") == "jid0000000001"


def test_all_data_of_a_job_of_the_other_side_is_read(gate: Gate, other: OtherSide) -> None:
    batch = submit(other)
    job_id = other.create_job(batch, CONFIGURATION, metadata={"erc_what": "no", "erc_where": "there"})
    job = gate.queue.job(job_id)
    wanted = {
        "profile_name": "demo", "submitter": "bob", "payload_url": "https://example.org/a.txt", "payload_type": "file",
        "submission_mode": "add", "erc_what": "A title", "erc_where": "there", "dc_title": "Another",
        "supplied_id": "ark:/99999/fk4x", "batch_id": batch, "working_dir": f"/zfs/queue/{batch}/{job_id}",
    }  # fmt: skip
    assert {name: job.configuration.get(name) for name in wanted} == wanted
    assert job.identifiers == Identifiers("ark:/99999/fk4x", ("l1", "l2"))


def test_keys_that_another_program_wrote_into_a_configuration_stay(gate: Gate, other: OtherSide) -> None:
    """Including keys that Headgate does not know; Headgate's own data is under its own root."""
    job_id = other.create_job(submit(other), {**CONFIGURATION, "theirs": [1, {"a": 2}]})
    job = take(gate.queue, "pending")
    gate.queue.change(job, configuration={"failed_files": [], "note": "checked", "theirs": 5})
    gate.queue.fire(job, "accept", configuration={"stored_version": 3})
    assert other.content(f"/jobs/{job_id}/configuration") == {**CONFIGURATION, "note": "checked", "theirs": 5}
    found = gate.queue.job(job_id).configuration
    assert (found["failed_files"], found["stored_version"], found["theirs"]) == ([], 3, 5)
    other.set_job(job_id, "Deleted")
    other.set_batch(job.batch, "Deleted")
    assert gate.queue.clean(0)
    assert below_own_root(other) == []


def test_keys_that_another_program_wrote_into_identifiers_stay(gate: Gate, other: OtherSide) -> None:
    names = {"primary_id": "", "local_id": ["l1"], "doi": "10.1/x"}
    job_id = other.create_job(submit(other), CONFIGURATION, identifiers=names)
    job = take(gate.queue, "pending")
    gate.queue.change(job, identifiers=Identifiers("ark:/99999/fk4x", ("l1", "l2")))
    wanted = {"primary_id": "ark:/99999/fk4x", "local_id": ["l1", "l2"], "doi": "10.1/x"}
    assert other.content(f"/jobs/{job_id}/identifiers") == wanted
    gate.queue.fire(job, "accept", identifiers=Identifiers("ark:/99999/fk4y", ("l1", "l2")))
    assert other.content(f"/jobs/{job_id}/identifiers") == {**wanted, "primary_id": "ark:/99999/fk4y"}


def test_a_batch_whose_jobs_the_other_side_created_ends_by_the_jobs_in_the_tree(gate: Gate, other: OtherSide) -> None:
    for result, state in (("finish", "completed"), ("fail", "failed")):
        batch_id = submit(other)
        assert other.take_pending_batch() == batch_id
        other.create_job(batch_id, CONFIGURATION)
        other.set_batch(batch_id, "Reporting")
        other.unlock(f"/batches/{batch_id}")
        assert gate.queue.acquire_batch("reporting") is None, "its job has not ended"
        job = take(gate.queue, "pending")
        gate.queue.fire(job, "fail" if result == "fail" else "accept")
        if result == "finish":
            for step in ("Estimating", "Provisioning", "Downloading", "Processing", "Storing", "Recording", "Notify"):
                gate.queue.fire(take(gate.queue, step.lower()), "finish")
        reporter = take_batch(gate.queue, "reporting")
        assert (reporter.id, reporter.made) == (batch_id, 1)
        assert gate.queue.fire(reporter, "finish").state == state


def test_a_batch_of_ours_whose_jobs_the_other_side_made_is_not_finished_as_failed(gate: Gate, other: OtherSide) -> None:
    batch = gate.queue.submit("demo", "ann", "https://example.org/a.txt", type="file")
    assert other.take_pending_batch() == batch.id
    job = other.create_job(batch.id, CONFIGURATION)
    other.set_batch(batch.id, "Reporting")
    other.unlock(f"/batches/{batch.id}")
    other.set_job(job, "Completed")
    assert gate.queue.fire(take_batch(gate.queue, "reporting"), "finish").state == "completed"


def test_a_request_can_be_repeated_after_the_other_side_removed_its_batch(gate: Gate, other: OtherSide) -> None:
    def submit_again() -> str:
        return gate.queue.submit("demo", "ann", "https://example.org/a", request_id="r1", erc_what="t", size="5").id

    first = submit_again()
    assert submit_again() == first
    other.set_batch(first, "Completed")
    assert other.delete_completed() == [first]
    second = submit_again()
    assert second != first
    assert submit_again() == second
    assert gate.queue.batch(second).submission.metadata["size"] == "5"


def test_nodes_left_of_items_that_the_other_side_removed_are_found_and_removed(gate: Gate, other: OtherSide) -> None:
    batch = gate.queue.submit("demo", "ann", "https://example.org/a", request_id="r1")
    taken = take_batch(gate.queue)
    gate.queue.create_jobs(taken, [{"payload_url": "https://example.org/a", "settings": {"mine": 1}}])
    gate.queue.fire(taken, "start")
    other.set_job("jid0000000001", "Completed")
    other.set_batch(batch.id, "Completed")
    other.delete_completed()
    assert below_own_root(other) != []
    faults = gate.queue.faults()
    assert {fault.kind for fault in faults} == {"stray-node"}
    assert all(gate.queue.repair(fault) for fault in faults)
    assert below_own_root(other) == []
    assert gate.queue.faults() == []


@pytest.mark.parametrize("priority", [105, 1000, -3])
def test_a_priority_that_no_consumer_can_read_is_repaired(gate: Gate, other: OtherSide, priority: int) -> None:
    job_id = other.create_job(submit(other), CONFIGURATION, priority=priority)
    other.set_batch("bid0000000000", "Processing")
    (fault,) = gate.queue.faults()
    assert (fault.kind, fault.item) == ("wrong-priority", job_id)
    assert gate.queue.repair(fault)
    assert gate.queue.faults() == []
    right = max(0, min(priority, 99))
    assert other.names("/jobs/states/pending") == [f"{right:02d}-{job_id}"]
    assert take(gate.queue, "pending").priority == right


def test_a_batch_that_the_other_side_is_creating_is_not_called_damaged(gate: Gate, other: OtherSide) -> None:
    batch_id = submit(other)
    assert other.take_pending_batch() == batch_id
    assert gate.queue.faults() == []
    assert gate.queue.report_finished() == []
    other.unlock(f"/batches/{batch_id}")
    assert [fault.kind for fault in gate.queue.faults()] == ["never-finishes"]


def test_a_job_of_ours_has_all_data_that_merritts_services_need(gate: Gate, other: OtherSide) -> None:
    gate.queue.submit("demo", "ann", "https://example.org/a", type="file")
    batch = take_batch(gate.queue)
    said = {"erc_what": "T", "erc_who": "W", "submitted": "2026-01-01T00:00:00+00:00", "batch_type": "file"}
    gate.queue.create_jobs(batch, [{"payload_url": "https://example.org/a", "payload_type": "file", "settings": said}])
    job = "/jobs/jid0000000001"
    configuration = other.content(f"{job}/configuration")
    assert configuration.pop("jobID").startswith("jid-")
    assert configuration == {
        "batchID": other.content(f"/batches/{batch.id}/submission")["batchID"], "profile": "demo", "submitter": "ann",
        "filename": "https://example.org/a", "type": "file", "update": False, "title": "T", "creator": "W",
        "submissionDate": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    assert other.content(f"{job}/identifiers") == {"primary_id": "", "local_id": []}
    assert other.content(f"{job}/metadata") == {"erc_what": "T", "erc_who": "W"}
    gate.queue.fire(batch, "start")
    gate.queue.fire(take(gate.queue, "pending"), "accept")
    store: dict[str, Any] = {"manifest_url": "file:///m", "mode": "add/1/ark%3A", "delete": ""}
    gate.queue.fire(take(gate.queue, "estimating"), "finish", configuration={"store": store})
    assert other.content(f"{job}/store") == store
    assert gate.queue.job("jid0000000001").configuration["store"] == store
    assert gate.queue.job_ids(batch.id, Folder.PROCESSING) == ["jid0000000001"]


def test_a_batch_that_is_being_removed_is_not_reported_by_the_other_side(gate: Gate, other: OtherSide) -> None:
    """The removal is interrupted after its first write; any process continues it."""
    batch = submit(other)
    other.create_job(batch, CONFIGURATION)
    other.set_job("jid0000000001", "Completed")
    other.set_batch(batch, "Completed")
    store = gate.store.queue
    with pytest.MonkeyPatch.context() as interrupted:
        interrupted.setattr(store._removing, "drop_batch", lambda _: None)  # type: ignore[attr-defined]
        assert gate.queue.clean(0) == [batch]
    assert gate.queue.batches() == []
    assert other.take_batch_to_report() is None
    (fault,) = gate.queue.faults()
    assert (fault.kind, fault.item) == ("half-removed", batch)
    assert gate.queue.repair(fault)
    assert (other.names("/batches"), below_own_root(other), gate.queue.faults()) == ([], [], [])


def test_a_hold_that_the_other_side_cleared_does_not_describe_its_next_one(gate: Gate, other: OtherSide) -> None:
    """Merritt's holds are empty nodes: who set one, and why, is kept under our own root."""
    gate.queue.set_hold("demo", reason="it is moved", by="ann")
    assert not other.zk.get(other.path("/locks/collections/demo"))[0]
    assert [(each.profile, each.reason, each.who) for each in gate.queue.holds()] == [("demo", "it is moved", "ann")]
    other.delete("/locks/collections/demo")
    assert gate.queue.holds() == []
    assert [fault.kind for fault in gate.queue.faults()] == ["stray-node"]
    other.create("/locks/collections/demo")
    assert [(each.profile, each.reason, each.who) for each in gate.queue.holds()] == [("demo", "", "")]
    for fault in gate.queue.faults():
        assert gate.queue.repair(fault)
    assert (gate.queue.faults(), other.names("/locks/collections")) == ([], ["demo"])
    gate.queue.clear_hold("demo")
    gate.queue.set_hold("demo", reason="once more")
    other.delete("/locks/collections/demo")
    gate.queue.set_hold("demo", reason="and again")
    assert [each.reason for each in gate.queue.holds()] == ["and again"]
    gate.queue.clear_hold("demo")
    assert other.names("/headgate/queue/holds") == other.names("/locks/collections") == []


def test_a_failed_job_can_be_resumed_while_others_of_a_batch_of_theirs_are_running(
    gate: Gate, other: OtherSide
) -> None:
    """Merritt calls a batch Reporting as soon as its jobs are created; its report is due when none is running."""
    batch = submit(other)
    failed, running = (other.create_job(batch, CONFIGURATION) for _ in range(2))
    other.set_batch(batch, "Reporting")
    for status in ("Estimating", "Provisioning", "Downloading", "Failed"):
        other.set_job(failed, status)
    assert gate.queue.resume(failed).state == "downloading"
    for job in (failed, running):
        other.set_job(job, "Failed")
    with pytest.raises(QueueRefused, match="its batch is reporting"):
        gate.queue.resume(failed)


def test_a_name_of_a_batch_that_is_gone_is_found_and_removed(gate: Gate, other: OtherSide) -> None:
    """As the orphan report of Merritt's admin tool does."""
    kept = submit(other)
    other.create("/batch-uuids/bid-gone", "bid0000000077")
    (fault,) = gate.queue.faults()
    assert (fault.kind, fault.item) == ("stray-node", other.path("/batch-uuids/bid-gone"))
    assert gate.queue.repair(fault)
    assert [other.text(f"/batch-uuids/{name}") for name in other.names("/batch-uuids")] == [kept]

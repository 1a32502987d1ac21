"""Merritt's locks of objects: taken with the step, honoured in both forms, inherited, explained, and repaired."""

import threading

import pytest
from kazoo.client import KazooClient

import headgate
from headgate import Gate, IngestJob, ItemLost
from headgate.core.queue.model import OBJECT_OWNER, Identifiers
from headgate.service.queue.use_cases import Queue
from tests.contract.steps import LONG
from tests.merritt.other_side import OtherSide
from tests.waiting import until

ARK, NAME = "ark:/99999/fk4x", "ark_99999_fk4x"
#: The lock of each step, by its node.
LOCKS = {
    "processing": "/locks/localid/l1_library",
    "storing": f"/locks/storage/{NAME}",
    "recording": f"/locks/inventory/{NAME}",
}


def job_in(other: OtherSide, state: str) -> str:
    """A job of the other side that is in a state, with what its lock is named for."""
    batch = other.create_batch(profile="demo", submitter="bob", filename="https://example.org/a", type="file")
    other.set_batch(batch, "Processing")
    configuration = {"profile": "demo", "type": "file", "submitter": "bob", "filename": "https://example.org/a"}
    primary = "" if state == "processing" else ARK
    identifiers = {"primary_id": primary, "local_id": ["l1"]}
    job = other.create_job(batch, {**configuration, OBJECT_OWNER: "library"}, identifiers=identifiers)
    for step in ("Estimating", "Provisioning", "Downloading", "Processing", "Storing", "Recording"):
        other.set_job(job, step)
        if step.lower() == state:
            break
    return job


def take(queue: Queue, state: str) -> IngestJob | None:
    return queue.acquire_job(state, lease=LONG)


@pytest.mark.parametrize("state", LOCKS)
def test_a_step_has_its_lock_from_taking_to_end(gate: Gate, other: OtherSide, state: str) -> None:
    job_in(other, state)
    for end in ("released", "finish"):
        job = take(gate.queue, state)
        assert job is not None
        data, stat = other.zk.get(other.path(LOCKS[state]))
        assert not data, "empty, as Merritt's"
        assert bool(stat.ephemeralOwner) is (state != "storing"), "its services keep that for storage persistently"
        assert len(other.names("/headgate/queue/objects")) == 1
        gate.queue.give_back(job) if end == "released" else gate.queue.fire(job, "finish")
        assert not other.exists(LOCKS[state])
        assert other.names("/headgate/queue/objects") == []


@pytest.mark.parametrize("ephemeral", [True, False])
@pytest.mark.parametrize("state", LOCKS)
def test_a_busy_object_defers_its_job_and_no_other(
    gate: Gate, other: OtherSide, state: str, *, ephemeral: bool
) -> None:
    """No thread holds the job; a consumer that waits for work is woken when the lock goes."""
    kind, _, name = LOCKS[state].removeprefix("/locks/").partition("/")
    assert other.lock_object(kind, name, ephemeral=ephemeral)
    busy = job_in(other, state)
    assert take(gate.queue, state) is None
    (why,) = gate.queue.explain(busy)
    session = f"session {other.zk.client_id[0]:#x}" if ephemeral else "without a session"
    assert why == f"{other.path(LOCKS[state])} is held by another program, {session}"
    found: list[IngestJob | None] = []
    waiter = threading.Thread(target=lambda: found.append(gate.queue.acquire_job(state, lease=LONG, wait=30)))
    waiter.start()
    other.unlock_object(kind, name)
    waiter.join(40)
    assert [job and job.id for job in found] == [busy]
    assert not other.lock_object(kind, name), "the other side honours ours"


def test_the_next_owner_of_a_job_inherits_what_a_dead_one_had_locked(gate: Gate, other: OtherSide, url: str) -> None:
    """Between the two nobody else gets the object."""
    job_id = job_in(other, "storing")
    with headgate.connect(f"{url}?spelling=mrt-zk") as dying:
        assert take(dying.queue, "storing") is not None
        session = dying.store.queue._taking._kept[job_id].session  # type: ignore[attr-defined]
        thief = KazooClient(hosts=url.split("/")[2], client_id=session._client.client_id)
        thief.start()
        thief.stop()
        thief.close()
        until(lambda: not other.exists(f"/jobs/{job_id}/lock"), "its session has ended")
        assert not other.lock_object("storage", ARK)
        assert gate.queue.explain(job_id) == [], "it waits for the job's next owner"
        job = take(gate.queue, "storing")
        assert job is not None
        assert job.crashes == 1
        gate.queue.fire(job, "finish")
        assert not other.exists(LOCKS["storing"])
        assert gate.queue.faults() == []


def test_a_lock_whose_job_is_gone_is_found_and_removed(gate: Gate, other: OtherSide) -> None:
    job_id = job_in(other, "storing")
    job = take(gate.queue, "storing")
    assert job is not None
    other.delete_job(job_id)
    kinds = {fault.kind: fault for fault in gate.queue.faults()}
    assert kinds["object-lock"].item == other.path(LOCKS["storing"])
    assert all(gate.queue.repair(fault) for fault in kinds.values())
    assert not other.exists(LOCKS["storing"])
    assert gate.queue.faults() == []


def test_a_lock_of_another_program_that_no_job_needs_is_reported_alone(gate: Gate, other: OtherSide) -> None:
    other.lock_object("storage", "ark:/1/a", ephemeral=False)
    other.lock_object("inventory", "ark:/1/b")
    (fault,) = gate.queue.faults()
    assert (fault.kind, fault.repair) == ("object-lock", "")
    assert not gate.queue.repair(fault)
    assert other.exists("/locks/storage/ark_1_a")


def test_a_job_that_hangs_is_failed_with_all_locks_of_its_object(gate: Gate, other: OtherSide) -> None:
    """Those of Merritt's consumers too; the consumer of ours learns that it lost the job."""
    job_id = job_in(other, "storing")
    assert other.take_job("Storing") == job_id
    other.lock_object("storage", ARK, ephemeral=False)
    other.lock_object("inventory", ARK)
    failed = gate.queue.act(job_id, "force-fail", reason="it hangs", by="ann")
    assert (failed.state, failed.message) == ("failed", "it hangs")
    assert (other.names("/locks/storage"), other.names("/locks/inventory")) == ([], [])
    assert not other.exists(f"/jobs/{job_id}/lock")
    assert gate.queue.faults() == []
    again = gate.queue.resume(job_id)
    assert again.state == "storing"
    job = take(gate.queue, "storing")
    assert job is not None
    gate.queue.act(job_id, "force-fail", reason="once more")
    with pytest.raises(ItemLost):
        gate.queue.fire(job, "finish")
    assert other.names("/locks/storage") == other.names("/headgate/queue/objects") == []


def test_identifiers_that_appear_during_a_step_leave_no_lock_behind(gate: Gate, other: OtherSide) -> None:
    job_in(other, "processing")
    job = take(gate.queue, "processing")
    assert job is not None
    gate.queue.change(job, identifiers=Identifiers(ARK, ("l1", "l2")))
    gate.queue.fire(job, "finish")
    assert other.names("/locks/localid") == []

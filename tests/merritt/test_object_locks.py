"""Merritt's locks of objects: taken with the step, honoured in both forms, inherited, explained, and repaired."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
    """A job of the other side in a state, with the data that its lock is named after."""
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


@contextmanager
def died_on(job_id: str, other: OtherSide, url: str) -> Iterator[None]:
    """A consumer of ours takes a job to store it, and its session is lost."""
    with headgate.connect(f"{url}?spelling=mrt-zk") as dying:
        taken = take(dying.queue, "storing")
        assert taken is not None
        assert taken.id == job_id
        session = dying.store.queue._taking._kept[job_id].session  # type: ignore[attr-defined]
        thief = KazooClient(hosts=url.split("/")[2], client_id=session._client.client_id)
        thief.start()
        thief.stop()
        thief.close()
        until(lambda: not other.exists(f"/jobs/{job_id}/lock"), "its session has ended")
        yield


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
def test_a_busy_object_defers_only_its_own_job(gate: Gate, other: OtherSide, state: str, *, ephemeral: bool) -> None:
    """No thread waits for the job; a consumer that waits for work is woken when the lock is removed."""
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


def test_the_next_owner_of_a_job_inherits_the_locks_of_a_dead_one(gate: Gate, other: OtherSide, url: str) -> None:
    """In between no other job gets the object."""
    job_id = job_in(other, "storing")
    with died_on(job_id, other, url):
        assert not other.lock_object("storage", ARK)
        assert gate.queue.explain(job_id) == [], "it waits for the job's next owner"
        job = take(gate.queue, "storing")
        assert job is not None
        assert job.crashes == 1
        gate.queue.fire(job, "finish")
        assert not other.exists(LOCKS["storing"])
        assert gate.queue.faults() == []


def test_a_consumer_of_the_other_side_gets_the_object_of_a_dead_one_of_ours(
    gate: Gate, other: OtherSide, url: str
) -> None:
    """It has the job, and waits for the object's lock, which no consumer of ours can inherit meanwhile."""
    job_id = job_in(other, "storing")
    with died_on(job_id, other, url):
        gate.queue.reap()
        assert not other.lock_object("storage", ARK), "it waits for the job's next owner"
        assert other.take_job("Storing") == job_id
        (fault,) = gate.queue.faults()
        assert (fault.kind, fault.item) == ("object-lock", other.path(LOCKS["storing"]))
        gate.queue.reap()
        assert gate.queue.faults() == []
        assert other.lock_object("storage", ARK, ephemeral=False)
        gate.queue.reap()
        assert other.exists(LOCKS["storing"]), "that one is Merritt's"


@pytest.mark.parametrize("by", ["doctor", "reaper"])
@pytest.mark.parametrize("status", ["Recording", "Failed"])
def test_a_lock_of_a_job_that_the_other_side_moved_on_is_removed(
    gate: Gate, other: OtherSide, url: str, status: str, by: str
) -> None:
    job_id = job_in(other, "storing")
    with died_on(job_id, other, url):
        other.set_job(job_id, status)
        (fault,) = gate.queue.faults()
        assert (fault.kind, fault.item) == ("object-lock", other.path(LOCKS["storing"]))
        if by == "doctor":
            assert gate.queue.repair(fault)
        else:
            gate.queue.reap()
        assert (other.names("/locks/storage"), other.names("/headgate/queue/objects")) == ([], [])
        assert gate.queue.faults() == []


def test_a_lock_that_another_job_has_meanwhile_is_not_removed(gate: Gate, other: OtherSide, url: str) -> None:
    """Merritt's tool removed the first lock, and moved that job on."""
    first = job_in(other, "storing")
    with died_on(first, other, url):
        other.unlock_object("storage", ARK)
        other.set_job(first, "Recording")
        second = job_in(other, "storing")
        storing = take(gate.queue, "storing")
        assert storing is not None
        assert storing.id == second
        gate.queue.reap()
        recording = take(gate.queue, "recording")
        assert recording is not None
        assert recording.id == first
        assert other.exists(LOCKS["storing"])
        gate.queue.fire(recording, "finish")
        assert other.exists(LOCKS["storing"])
        gate.queue.fire(storing, "finish")
        assert other.names("/locks/storage") == other.names("/headgate/queue/objects") == []


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
    """Those of Merritt's consumers too; our consumer is notified that it lost the job."""
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

"""Depositors' names that cannot be ZooKeeper node names: no operation waits for a node that cannot be created."""

import pytest

from headgate import Gate
from headgate.core.queue.model import OBJECT_OWNER
from tests.contract.steps import LONG
from tests.merritt.other_side import OtherSide

#: ZooKeeper checks UTF-16, and refuses code points outside the basic plane, in the private area, or at its end.
ODD = ["\N{GRINNING FACE}", "\U00020bb7", "a\ufffd", "\ue000", "\x7f", "..", "."]


def job_in(other: OtherSide, state: str, primary: str, local: str) -> str:
    batch = other.create_batch(profile="demo", submitter="bob", filename="https://example.org/a", type="file")
    other.set_batch(batch, "Processing")
    configuration = {"profile": "demo", "type": "file", "submitter": "bob", OBJECT_OWNER: "library"}
    job = other.create_job(
        batch, configuration, identifiers={"primary_id": primary, "local_id": [local] if local else []}
    )
    for step in ("Estimating", "Provisioning", "Downloading", "Processing", "Storing", "Recording"):
        other.set_job(job, step)
        if step == state:
            break
    return job


@pytest.mark.parametrize("name", ODD)
def test_a_job_with_such_an_identifier_is_taken_and_has_its_lock(gate: Gate, other: OtherSide, name: str) -> None:
    steps = {
        "Processing": ("localid", "", name),
        "Storing": ("storage", name, ""),
        "Recording": ("inventory", name, ""),
    }
    for state, (folder, *names) in steps.items():
        job_id, second = (job_in(other, state, *names) for _ in range(2))
        job = gate.queue.acquire_job(state.lower(), lease=LONG)
        assert job is not None
        assert job.id == job_id
        assert len(other.names(f"/locks/{folder}")) == 1
        assert gate.queue.acquire_job(state.lower(), lease=LONG) is None, f"{second} waits for the same object"
        gate.queue.fire(job, "finish")
        assert other.names(f"/locks/{folder}") == other.names("/headgate/queue/objects") == []
        other.set_job(second, "Failed")
        other.set_job(job_id, "Failed")
    assert gate.queue.faults() == []


@pytest.mark.parametrize("name", [each for each in ODD if each.isprintable()])
def test_a_collection_of_such_a_name_is_held_and_released(gate: Gate, other: OtherSide, name: str) -> None:
    batch = other.create_batch(profile=name, submitter="bob", filename="https://example.org/a", type="file")
    gate.queue.set_hold(name, reason="it is moved", by="ann")
    assert [(each.profile, each.reason, each.who) for each in gate.queue.holds()] == [(name, "it is moved", "ann")]
    taken = gate.queue.acquire_batch("pending", lease=LONG)
    assert taken is not None
    assert "it is moved" in taken.hold
    assert gate.queue.fire(taken, "hold").state == "held"
    gate.queue.clear_hold(name)
    assert gate.queue.holds() == []
    assert gate.queue.release(batch).state == "pending"
    assert other.names("/locks/collections") == []


@pytest.mark.parametrize("name", [*ODD, "a/b", "in-use"])
def test_a_submitters_own_name_never_prevents_a_batch(gate: Gate, other: OtherSide, name: str) -> None:
    """Older forms send one, which is ignored; Merritt's programs find the batch by it if they can."""
    first, second = (gate.queue.submit("demo", "ann", "https://example.org/a", batch_id=name).id for _ in range(2))
    assert sorted(other.text(f"/batch-uuids/{each}") for each in other.names("/batch-uuids")) == [first, second]
    assert gate.queue.batch(first).submission.metadata["batch_id"] == name
    assert gate.queue.batch(second).submission.metadata["batch_id"].startswith("bid-")
    assert gate.queue.faults() == []
    for batch in (first, second):
        gate.queue.set_hold("demo", reason="x")
        taken = gate.queue.acquire_batch("pending", lease=LONG)
        assert taken is not None
        gate.queue.fire(taken, "hold")
        gate.queue.delete(batch, reason="x")
    assert set(gate.queue.clean(0)) == {first, second}
    assert other.names("/batch-uuids") == other.names("/batches") == []

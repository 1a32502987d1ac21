"""Nodes that other programs damaged or removed: shown, repaired where that is safe, and never an obstacle."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate
from headgate import ForeignStore, Gate, StoreMisconfigured, StoreUnavailable, UnknownName
from headgate.core.faults import Fault
from headgate.core.queue.model import Folder
from headgate.service.queue.use_cases import Queue
from headgate.stores.zookeeper.ensemble import tries
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.queue import faults as queue_faults
from headgate.stores.zookeeper.queue.removing import Removing
from tests.contract.queue_steps import WHY, batch_with_jobs, job_in, taken_job
from tests.contract.steps import LONG
from tests.waiting import until


@pytest.fixture
def gate(url: str) -> Iterator[Gate]:
    with headgate.connect(url) as gate:
        yield gate


@pytest.fixture
def root(url: str) -> str:
    return "/" + url.rpartition("/")[2]


def repaired(queue: Queue, kind: str, item: str) -> Fault:
    """This is the only fault; after the repair there is none."""
    (fault,) = queue.faults()
    assert (fault.kind, fault.item) == (kind, item), fault
    assert fault.repair
    assert queue.repair(fault, by="ann")
    assert queue.faults() == []
    assert not queue.repair(fault), "it is no longer so"
    return fault


Spoil = Callable[[Any, str, str], None]
#: Nodes as another tool left them, and the name of the fault.
SPOILT: dict[str, tuple[str, Spoil]] = {
    "in two places of the queue": (
        "two-entries", lambda raw, root, job: raw.create(f"{root}/jobs/states/notify/05-{job}"),
    ),
    "in no place of the queue": (
        "lost-entry", lambda raw, root, job: raw.delete(f"{root}/jobs/states/downloading/05-{job}"),
    ),
    "another priority than its entry": (
        "wrong-entry", lambda raw, root, job: raw.set(f"{root}/jobs/{job}/priority", b"7"),
    ),
    "in two folders of its batch": (
        "two-references",
        lambda raw, root, job: raw.create(f"{root}/batches/bid0000000000/states/batch-failed/{job}"),
    ),
    "in no folder of its batch": (
        "lost-reference",
        lambda raw, root, job: raw.delete(f"{root}/batches/bid0000000000/states/batch-processing/{job}"),
    ),
    "a lock of no session": ("dead-lock", lambda raw, root, job: raw.create(f"{root}/jobs/{job}/lock")),
}  # fmt: skip


@pytest.mark.parametrize("what", SPOILT)
def test_a_job_in_the_wrong_place_is_moved_to_its_state(gate: Gate, raw: Any, root: str, what: str) -> None:
    queue = gate.queue
    job = job_in(queue, "downloading")
    kind, spoil = SPOILT[what]
    spoil(raw, root, job.id)
    fault = repaired(queue, kind, job.id)
    told = gate.history(item=job.id, event="repair")
    assert [(entry.client, fault.what in entry.reason) for entry in told] == [("ann", True)]
    assert taken_job(queue, "downloading").id == job.id
    assert queue.job_ids(job.batch, Folder.PROCESSING) == [job.id]


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/jobs/states/pending/05-jid0000000077", "entry-without-job"),
     ("/batches/bid0000000000/states/batch-processing/jid0000000077", "reference-without-job")],
)  # fmt: skip
def test_a_reference_to_a_missing_job_is_removed(gate: Gate, raw: Any, root: str, path: str, kind: str) -> None:
    """Such a reference would prevent its batch from ever finishing; consumers skip such an entry."""
    queue = gate.queue
    job = job_in(queue, "pending")
    raw.create(root + path)
    repaired(queue, kind, "jid0000000077")
    assert taken_job(queue).id == job.id


def test_a_malformed_entry_is_removed(gate: Gate, raw: Any, root: str) -> None:
    """Three digits, as from a priority of 105: Merritt's consumers stop at it."""
    job = job_in(gate.queue, "pending")
    raw.create(f"{root}/jobs/states/pending/005-jid0000000001")
    assert taken_job(gate.queue).id == job.id
    repaired(gate.queue, "stray-node", f"{root}/jobs/states/pending/005-jid0000000001")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"lunch", b'{"status": "lunch"}', b'{"status": "pending"}'])
def test_a_status_that_cannot_be_read_hides_nothing_else(gate: Gate, raw: Any, root: str, data: bytes) -> None:
    queue = gate.queue
    batch = batch_with_jobs(queue, 2)
    bad, good = (job.id for job in queue.jobs())
    before = raw.get(f"{root}/jobs/{bad}/status")[0]
    raw.set(f"{root}/jobs/{bad}/status", data)
    assert [job.id for job in queue.jobs()] == [good]
    assert taken_job(queue).id == good
    assert queue.acquire_job("pending") is None
    with pytest.raises(ForeignStore, match=rf"{bad}.*doctor"):
        queue.job(bad)
    (fault,) = queue.faults()
    assert (fault.kind, fault.item, fault.repair) == ("unreadable", bad, "")
    assert not queue.repair(fault)
    raw.set(f"{root}/batches/{batch.id}/status", data)
    assert queue.batches() == []
    assert queue.acquire_batch("pending") is None
    assert queue.report_finished() == []
    raw.set(f"{root}/jobs/{bad}/status", before)
    assert taken_job(queue).id == bad


def test_an_id_without_a_status_is_not_a_job(gate: Gate, raw: Any, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = gate.queue
    batch_with_jobs(queue)
    raw.create(f"{root}/jobs/jid0000000090")
    raw.create(f"{root}/batches/bid0000000090/submission", b"{}", makepath=True)
    assert (len(queue.jobs()), len(queue.batches())) == (1, 1)
    with pytest.raises(UnknownName):
        queue.job("jid0000000090")
    assert queue.faults() == [], "somebody may be making it"
    monkeypatch.setattr(queue_faults, "MAKING_SECONDS", 0.0)
    monkeypatch.setattr(type(gate.store.queue._sessions.base), "lease", 0.0)  # type: ignore[attr-defined]
    faults = queue.faults()
    assert [(fault.kind, fault.item) for fault in faults] == [
        ("no-status", "bid0000000090"), ("no-status", "jid0000000090"),
    ]  # fmt: skip
    assert all(queue.repair(fault) for fault in faults)
    assert queue.faults() == []


def test_a_batch_that_lost_its_folder_can_finish_again(gate: Gate, raw: Any, root: str) -> None:
    job = job_in(gate.queue, "completed")
    raw.delete(f"{root}/batches/{job.batch}/states/batch-processing")
    repaired(gate.queue, "never-finishes", job.batch)
    assert gate.queue.report_finished() == [job.batch]


def test_a_job_whose_batch_is_gone_is_removed(gate: Gate, raw: Any, root: str) -> None:
    job = job_in(gate.queue, "pending")
    raw.delete(f"{root}/batches/{job.batch}", recursive=True)
    faults = gate.queue.faults()
    assert {(fault.kind, fault.item) for fault in faults if job.id in fault.item} == {("no-batch", job.id)}
    assert all(gate.queue.repair(fault) for fault in faults)
    assert gate.queue.faults() == []
    assert raw.get_children(f"{root}/jobs") == ["states"]
    assert raw.get_children(f"{root}/jobs/states/pending") == []


def test_an_interrupted_removal_is_continued(gate: Gate, raw: Any, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two portions: no reader sees the rest, and a repair removes it."""
    queue = gate.queue
    batch = batch_with_jobs(queue, 5)
    for _ in range(5):
        queue.fire(taken_job(queue), "fail", WHY)
    queue.report_finished()
    reporter = queue.acquire_batch("reporting", lease=LONG)
    assert reporter
    queue.fire(reporter, "finish")
    real, calls = Removing._drop, []

    def cut_off(removing: Removing, collect: Callable[[bool], list[Op]]) -> None:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        real(removing, collect)

    monkeypatch.setattr("headgate.stores.zookeeper.queue.removing.PORTION", 2)
    monkeypatch.setattr(Removing, "_drop", cut_off)
    with pytest.raises(KeyboardInterrupt):
        queue.delete(batch.id, reason=WHY)
    monkeypatch.undo()
    assert queue.batches() == []
    with pytest.raises(UnknownName):
        queue.batch(batch.id)
    assert len(raw.get_children(f"{root}/jobs")) == 2, "one job and the states"
    repaired(queue, "half-removed", batch.id)
    assert raw.get_children(f"{root}/jobs") == ["states"]
    assert raw.get_children(f"{root}/batches") == []


def test_nodes_that_another_tool_put_below_a_job_are_deleted_with_it(gate: Gate, raw: Any, root: str) -> None:
    """Merritt's nodes, and nodes below them; nodes that are already gone cause no error."""
    queue = gate.queue
    batch = batch_with_jobs(queue, 3)
    first, second, _ = (queue.fire(taken_job(queue), "hold", WHY).id for _ in range(3))
    raw.create(f"{root}/jobs/{first}/store/deeper", b"{}", makepath=True)
    raw.create(f"{root}/jobs/{second}/inventory/deeper", b"{}", makepath=True)
    queue.delete(second, reason=WHY)
    queue.report_finished()
    raw.set(
        f"{root}/batches/{batch.id}/status",
        raw.get(f"{root}/batches/{batch.id}/status")[0].replace(b"processing", b"held"),
    )
    raw.delete(f"{root}/jobs/states/held/05-{first}")
    queue.delete(batch.id, reason=WHY)
    assert raw.get_children(f"{root}/jobs") == ["states"]
    assert raw.get_children(f"{root}/jobs/states/held") == []
    assert raw.get_children(f"{root}/batches") == []


def test_a_node_that_blocks_a_removal_is_named_and_the_removal_continues_without_it(
    gate: Gate, raw: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tries, "BUSY_SECONDS", 0.2)
    queue = gate.queue
    batch = batch_with_jobs(queue, 1)
    job = queue.fire(taken_job(queue), "fail", WHY)
    queue.report_finished()
    reporter = queue.acquire_batch("reporting", lease=LONG)
    assert reporter
    queue.fire(reporter, "finish")
    entry = f"{root}/jobs/states/failed/05-{job.id}"
    raw.create(f"{entry}/note", b"of another tool")
    with pytest.raises(StoreUnavailable, match=f"cannot remove {entry}"):
        queue.delete(batch.id, reason=WHY)
    raw.delete(f"{entry}/note")
    repaired(queue, "half-removed", batch.id)
    assert raw.get_children(f"{root}/jobs") == ["states"]


def test_a_node_that_is_removed_while_it_is_read_is_left_out(gate: Gate, raw: Any, root: str) -> None:
    queue = gate.queue
    batch_with_jobs(queue, 3)
    first, second, third = (job.id for job in queue.jobs())
    raw.delete(f"{root}/jobs/{second}/configuration")
    raw.set(f"{root}/jobs/{third}/priority", json.dumps("high").encode())
    assert [job.id for job in queue.jobs()] == [first]
    assert {fault.item for fault in queue.faults()} == {second, third}
    assert taken_job(queue).id == first
    until(lambda: queue.acquire_job("pending") is None, "nothing else to be taken")


@pytest.mark.parametrize("name", ["requests", "owners", "arrivals/pending", "holds"])
def test_a_node_of_the_queue_that_is_gone_is_made_again(gate: Gate, raw: Any, root: str, name: str) -> None:
    path = f"{root}/headgate/queue/{name}"
    job_in(gate.queue, "downloading")
    raw.delete(path, recursive=True)
    (fault,) = [each for each in gate.faults() if each.kind == "missing-node"]
    assert fault.item == path
    assert gate.repair(fault, by="ann")
    assert gate.faults() == []
    assert raw.exists(path)


@pytest.mark.parametrize("name", ["clock", "mail", "refusals"])
def test_a_node_of_the_locks_that_is_gone_is_made_again(gate: Gate, raw: Any, root: str, name: str) -> None:
    path = f"{root}/headgate/{name}"
    gate.queue.batches()
    raw.delete(path, recursive=True)
    (fault,) = gate.faults()
    assert (fault.kind, fault.item) == ("missing-node", path)
    assert gate.repair(fault, by="ann")
    assert gate.faults() == []
    gate.locks.release(gate.locks.acquire("ann", "a:b", "exclusive"))


def test_waiting_without_the_folder_of_messages_is_refused(gate: Gate, raw: Any, root: str) -> None:
    raw.delete(f"{root}/headgate/mail", recursive=True)
    gate.locks.acquire("ann", "a:b", "exclusive")
    with pytest.raises(StoreMisconfigured, match="headgate/mail is missing"):
        gate.locks.acquire("ben", "a:b", "exclusive", wait=1)

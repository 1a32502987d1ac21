"""The nodes of a batch: after each step the tree matches that of the Merritt queue, or of Merritt's library."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate
from headgate import BadValue, Gate, IngestJob, ItemLost, QueueRefused
from headgate.core.queue.model import ALL, Identifiers, Report, Submission
from headgate.service.queue.checks import METADATA
from headgate.service.queue.use_cases import Queue
from headgate.stores.zookeeper.address import parse
from headgate.stores.zookeeper.queue.spellings import SPELLINGS
from tests.contract.steps import LONG
from tests.zookeeper.queue_trees import (
    DESIGN_EMPTY,
    J1,
    J2,
    JOB_UUID,
    LOCK,
    MERRITT_EMPTY,
    NOW,
    URL,
    UUID,
    B,
    Tree,
    design_batch,
    design_folders,
    design_job,
    merritt_batch,
    merritt_folders,
    merritt_job,
)

TIMES = {
    "design": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
    "mrt-zk": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .\d{4}"),
}
ROWS = [
    {"payload_url": f"https://example.org/file{number}.checkm", "identifiers": {"local": [f"loc{number}"]}}
    for number in (1, 2)
]

OpenGate = Callable[[str], Gate]


@pytest.fixture
def open_gate(url: str) -> Iterator[OpenGate]:
    opened: list[Gate] = []

    def open_one(spelling: str) -> Gate:
        opened.append(headgate.connect(f"{url}?spelling={spelling}", work_folder="/zfs/queue"))
        return opened[-1]

    yield open_one
    for gate in opened:
        gate.close()


class Looker:
    """The whole tree of a store, except Headgate's own nodes."""

    def __init__(self, raw: Any, url: str, spelling: str) -> None:
        self._raw = raw
        self._root = "/" + url.rpartition("/")[2]
        self._time = TIMES[spelling]

    def tree(self) -> Tree:
        found: Tree = {}
        self._walk(self._root, found)
        return found

    def _walk(self, path: str, found: Tree) -> None:
        for name in self._raw.get_children(path):
            child = f"{path}/{name}"
            if child == f"{self._root}/headgate":
                continue
            data, stat = self._raw.get(child)
            assert stat.ephemeralOwner == 0 or not data
            found[child.removeprefix(self._root)] = LOCK if stat.ephemeralOwner else self._shown(data)
            self._walk(child, found)

    def _shown(self, data: bytes | None) -> Any:
        text = None if data is None else data.decode()
        if not text or not text.startswith("{"):
            return text
        content = json.loads(text)
        for key in ("last_modified", "last_modification_date"):
            if key in content:
                assert self._time.fullmatch(content[key]), content
                content[key] = NOW
        if "jobID" in content:
            assert re.fullmatch("jid-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", content["jobID"]), content
            content["jobID"] = JOB_UUID
        return content


def take(queue: Queue, state: str) -> IngestJob:
    job = queue.acquire_job(state, lease=LONG)
    assert job is not None
    return job


def submitted(queue: Queue, **more: Any) -> None:
    queue.submit("demo", "ann", URL, type="batch-manifest", erc_what="title", erc_who="author", **more)


BATCH_LOCK = {f"/batches/{B}/lock": LOCK}
#: The design's tree while the batch is processing, and when its first job is done.
RUNNING = DESIGN_EMPTY | design_batch("processing", "2 jobs")
BOTH, SECOND = design_folders(processing=[J1, J2]), design_job(J2, "pending", None)
SIZED: dict[str, Any] = {"priority": 10, "space": "1000000000"}
NAMED: dict[str, Any] = {**SIZED, "retries": 1, "primary": "ark:/99999/fk4"}
DONE = design_job(J1, "completed", "notify", **NAMED)
BAD = design_job(J2, "failed", None, 3, message="corrupt")


def test_the_nodes_of_a_batch_from_submission_to_report(open_gate: OpenGate, raw: Any, url: str) -> None:
    queue, look = open_gate("design").queue, Looker(raw, url, "design")
    assert look.tree() == DESIGN_EMPTY
    make_jobs(queue, look)
    go_up_to_the_download(queue, look)
    fail_and_resume(queue, look)
    go_to_the_end(queue, look)
    hold_and_fail_the_other(queue, look)
    report_and_remove(queue, look)


def make_jobs(queue: Queue, look: Looker) -> None:
    submitted(queue)
    assert look.tree() == DESIGN_EMPTY | design_batch("pending")
    batch = queue.acquire_batch("pending", lease=LONG)
    assert batch
    assert look.tree() == DESIGN_EMPTY | design_batch("pending") | BATCH_LOCK
    queue.create_jobs(batch, ROWS)
    jobs = design_job(J1, "pending", None) | SECOND
    assert look.tree() == DESIGN_EMPTY | design_batch("pending") | BATCH_LOCK | BOTH | jobs
    queue.fire(batch, "start", "2 jobs")
    assert look.tree() == RUNNING | BOTH | jobs
    job = take(queue, "pending")
    assert look.tree() == RUNNING | BOTH | jobs | {f"/jobs/{J1}/lock": LOCK}
    queue.fire(job, "accept")
    assert look.tree() == RUNNING | BOTH | SECOND | design_job(J1, "estimating", None)


def go_up_to_the_download(queue: Queue, look: Looker) -> None:
    queue.fire(take(queue, "estimating"), "finish", "large", space_needed=10**9, priority=10)
    job = design_job(J1, "provisioning", "estimating", message="large", **SIZED)
    assert look.tree() == RUNNING | BOTH | SECOND | job
    queue.fire(take(queue, "provisioning"), "finish")
    assert look.tree() == RUNNING | BOTH | SECOND | design_job(J1, "downloading", "provisioning", **SIZED)


def fail_and_resume(queue: Queue, look: Looker) -> None:
    queue.fire(take(queue, "downloading"), "fail", "404")
    failed = design_job(J1, "failed", "provisioning", message="404", **SIZED)
    assert look.tree() == RUNNING | design_folders(processing=[J2], failed=[J1]) | SECOND | failed
    queue.resume(J1, reason="again")
    resumed = design_job(J1, "downloading", "provisioning", retries=1, message="again", **SIZED)
    assert look.tree() == RUNNING | BOTH | SECOND | resumed


def go_to_the_end(queue: Queue, look: Looker) -> None:
    queue.fire(take(queue, "downloading"), "finish")
    assert look.tree() == RUNNING | BOTH | SECOND | design_job(J1, "processing", "downloading", retries=1, **SIZED)
    job = take(queue, "processing")
    queue.change(job, identifiers=Identifiers("ark:/99999/fk4", ("loc1",)))
    named = design_job(J1, "processing", "downloading", **NAMED) | {f"/jobs/{J1}/lock": LOCK}
    assert look.tree() == RUNNING | BOTH | SECOND | named
    queue.fire(job, "finish")
    assert look.tree() == RUNNING | BOTH | SECOND | design_job(J1, "recording", "processing", **NAMED)
    queue.fire(take(queue, "recording"), "finish")
    assert look.tree() == RUNNING | BOTH | SECOND | design_job(J1, "notify", "recording", **NAMED)
    queue.fire(take(queue, "notify"), "finish")
    assert look.tree() == RUNNING | design_folders(processing=[J2], completed=[J1]) | SECOND | DONE


def hold_and_fail_the_other(queue: Queue, look: Looker) -> None:
    before = RUNNING | design_folders(processing=[J2], completed=[J1]) | DONE
    queue.fire(take(queue, "pending"), "hold", "the collection is held")
    assert look.tree() == before | design_job(J2, "held", None, message="the collection is held")
    queue.release(J2)
    assert look.tree() == before | design_job(J2, "pending", None, message="An operator released it.")
    queue.set_priority(J2, 3)
    assert look.tree() == before | design_job(J2, "pending", None, 3, message="An operator released it.")
    queue.fire(take(queue, "pending"), "fail", "corrupt")
    assert look.tree() == RUNNING | design_folders(failed=[J2], completed=[J1]) | DONE | BAD


def report_and_remove(queue: Queue, look: Looker) -> None:
    ended = design_folders(failed=[J2], completed=[J1])
    assert queue.report_finished() == [B]
    reporting = DESIGN_EMPTY | design_batch("reporting", "its last job has completed or failed")
    assert look.tree() == reporting | ended | DONE | BAD
    reporter = queue.acquire_batch("reporting", lease=LONG)
    assert reporter
    assert look.tree() == reporting | BATCH_LOCK | ended | DONE | BAD
    queue.fire(reporter, "finish", "told", report=Report((J2,), (J1,)))
    report = {f"/batches/{B}/status-report": {"last_modified": NOW, "failed_jobs": [J2], "successful_jobs": [J1]}}
    failed = DESIGN_EMPTY | design_batch("failed", "told") | report
    assert look.tree() == failed | ended | DONE | BAD
    assert queue.clean(0) == [J1]
    cleaned = {path: data for path, data in DONE.items() if not path.startswith("/jobs/states/")}
    cleaned[f"/jobs/{J1}/status"] = {**cleaned[f"/jobs/{J1}/status"], "message": "it completed"}
    assert look.tree() == failed | ended | cleaned | BAD
    queue.delete(J2, reason="given up")
    assert look.tree() == failed | design_folders(completed=[J1]) | cleaned
    assert queue.faults() == []
    queue.delete(B, reason="given up")
    assert look.tree() == DESIGN_EMPTY


#: The same for Merritt's.
M_RUNNING = MERRITT_EMPTY | merritt_batch("Processing")
M_BOTH, M_SECOND = merritt_folders(processing=[J1, J2]), merritt_job(J2, "Pending", None)
M_SIZED: dict[str, Any] = {"priority": 15, "space": "7"}
M_DONE = merritt_job(J1, "Completed", "Notify", retries=1, **M_SIZED)


def test_the_nodes_of_a_batch_in_the_spelling_of_merritts_library(open_gate: OpenGate, raw: Any, url: str) -> None:
    queue, look = open_gate("mrt-zk").queue, Looker(raw, url, "mrt-zk")
    assert look.tree() == MERRITT_EMPTY
    make_merritts_jobs(queue, look)
    store_and_end(queue, look)
    delete_report_and_clean(queue, look)


def make_merritts_jobs(queue: Queue, look: Looker) -> None:
    submitted(queue, batch_id=UUID)
    assert look.tree() == MERRITT_EMPTY | merritt_batch("Pending")
    batch = queue.acquire_batch("pending", lease=LONG)
    assert batch
    queue.create_jobs(batch, ROWS)
    jobs = merritt_job(J1, "Pending", None) | M_SECOND
    assert look.tree() == MERRITT_EMPTY | merritt_batch("Pending") | BATCH_LOCK | M_BOTH | jobs
    queue.fire(batch, "start")
    job = take(queue, "pending")
    assert look.tree() == M_RUNNING | M_BOTH | jobs | {f"/jobs/{J1}/lock": LOCK}
    queue.fire(job, "accept", "Success")
    assert look.tree() == M_RUNNING | M_BOTH | M_SECOND | merritt_job(J1, "Estimating", "Pending", message="Success")


def store_and_end(queue: Queue, look: Looker) -> None:
    before = M_RUNNING | M_BOTH | M_SECOND
    queue.fire(take(queue, "estimating"), "finish", space_needed=7, priority=15)
    assert look.tree() == before | merritt_job(J1, "Provisioning", "Estimating", **M_SIZED)
    queue.fire(take(queue, "provisioning"), "finish")
    queue.fire(take(queue, "downloading"), "finish")
    assert look.tree() == before | merritt_job(J1, "Processing", "Downloading", **M_SIZED)
    queue.fire(take(queue, "processing"), "finish")
    assert look.tree() == before | merritt_job(J1, "Storing", "Processing", **M_SIZED)
    queue.fire(take(queue, "storing"), "fail", "503")
    failed = merritt_job(J1, "Failed", "Processing", message="503", **M_SIZED)
    assert look.tree() == M_RUNNING | merritt_folders(processing=[J2], failed=[J1]) | M_SECOND | failed
    queue.resume(J1)
    resumed = merritt_job(J1, "Storing", "Processing", retries=1, message="Retry storing it.", **M_SIZED)
    assert look.tree() == before | merritt_folders("failed") | resumed
    for state in ("storing", "recording", "notify"):
        queue.fire(take(queue, state), "finish")
    assert look.tree() == M_RUNNING | merritt_folders("failed", processing=[J2], completed=[J1]) | M_SECOND | M_DONE


def delete_report_and_clean(queue: Queue, look: Looker) -> None:
    queue.fire(take(queue, "pending"), "fail", "corrupt")
    bad = merritt_job(J2, "Failed", "Pending", message="corrupt")
    assert look.tree() == M_RUNNING | merritt_folders(failed=[J2], completed=[J1]) | M_DONE | bad
    queue.delete(J2, reason="given up")
    gone = merritt_folders("failed", deleted=[J2], completed=[J1]) | merritt_job(
        J2, "Deleted", "Pending", message="given up"
    )
    assert look.tree() == M_RUNNING | gone | M_DONE
    queue.report_finished()
    reporter = queue.acquire_batch("reporting", lease=LONG)
    assert reporter
    queue.fire(reporter, "finish", report=Report((), (J1,)))
    report = {f"/batches/{B}/status-report": {"last_modified": NOW, "failed_jobs": [], "successful_jobs": [J1]}}
    assert look.tree() == MERRITT_EMPTY | merritt_batch("Completed") | report | gone | M_DONE
    assert queue.faults() == []
    # Completed jobs stay in the queue until their batch is removed, as in Merritt.
    assert queue.clean(0) == [J2, B]
    assert look.tree() == MERRITT_EMPTY


def test_a_deleted_batch_of_merritts_waits_for_its_clean_up(open_gate: OpenGate, raw: Any, url: str) -> None:
    queue, look = open_gate("mrt-zk").queue, Looker(raw, url, "mrt-zk")
    submitted(queue, batch_id=UUID)
    batch = queue.acquire_batch("pending", lease=LONG)
    assert batch
    queue.fire(batch, "hold", "not now")
    assert look.tree() == MERRITT_EMPTY | merritt_batch("Held", "not now")
    assert queue.delete(B, reason="given up").state == "deleted"
    assert look.tree() == MERRITT_EMPTY | merritt_batch("Deleted", "given up")
    assert queue.clean(0) == [B]
    assert look.tree() == MERRITT_EMPTY


def test_holds_of_merritts_tools_are_honoured(open_gate: OpenGate, raw: Any, url: str) -> None:
    """Created without data, and without notifying us."""
    queue, root = open_gate("mrt-zk").queue, "/" + url.rpartition("/")[2]
    submitted(queue)
    batch = queue.acquire_batch("pending", lease=LONG)
    assert batch
    queue.fire(batch, "hold", "not now")
    raw.create(f"{root}/locks/collections/demo", None)
    raw.create(f"{root}/locks/queue/ingest", None)
    assert [(hold.profile, hold.who) for hold in queue.holds()] == [(ALL, ""), ("demo", "")]
    with pytest.raises(QueueRefused, match="demo is on hold"):
        queue.release(B)
    raw.delete(f"{root}/locks/collections/demo")
    assert queue.release(B).state == "pending"
    assert queue.acquire_batch("pending") is None
    queue.clear_hold()
    assert queue.acquire_batch("pending")
    hold = queue.set_hold("demo", reason="moved", by="ann")
    assert raw.exists(f"{root}/locks/collections/demo")
    assert queue.hold_of("demo") == hold


def test_consumers_work_on_a_job_of_merritts_library(open_gate: OpenGate, raw: Any, url: str) -> None:
    """Created as its Ruby library does, folder by folder; its other transitions are read, and none is fired."""
    queue, root = open_gate("mrt-zk").queue, "/" + url.rpartition("/")[2]
    status = {"status": "Pending", "last_successful_status": "", "last_modified": "2026-01-02 03:04:05 -0800",
              "retry_count": 0, "message": ""}  # fmt: skip
    nodes: Tree = {
        f"/batches/{B}": None,
        f"/batches/{B}/submission": {"batchID": UUID, "profile": "demo", "submitter": "s", "filename": "f"},
        f"/batches/{B}/status": {"status": "Reporting", "last_modified": "2026-01-02 03:04:05 -0800", "message": ""},
        f"/batches/{B}/states": None, f"/batches/{B}/states/batch-processing": None,
        f"/batches/{B}/states/batch-processing/{J1}": None,
        f"/jobs/{J1}": None, f"/jobs/{J1}/bid": B, f"/jobs/{J1}/priority": "5", f"/jobs/{J1}/space_needed": "-1",
        f"/jobs/{J1}/configuration": {"batchID": UUID, "jobID": "jid-x", "profile": "demo", "type": "container"},
        f"/jobs/{J1}/status": status, f"/jobs/states/pending/05-{J1}": None,
    }  # fmt: skip
    for path, data in nodes.items():
        raw.create(root + path, json.dumps(data).encode() if isinstance(data, dict) else data and data.encode())
    job = take(queue, "pending")
    assert (job.batch, job.profile, job.last_successful, job.space_needed) == (B, "demo", None, 0)
    assert (job.configuration["payload_type"], job.configuration["jobID"]) == ("container", "jid-x")
    assert queue.acquire_batch("reporting") is None, "its last job has not ended"
    queue.fire(job, "fail", "corrupt")
    assert queue.job(J1).state == "failed"
    assert raw.get_children(f"{root}/batches/{B}/states/batch-failed") == [J1]
    assert queue.faults() == []
    assert queue.acquire_batch("reporting", lease=LONG)
    raw.set(f"{root}/jobs/{J1}/status", json.dumps({**status, "status": "Failed"}).encode())
    with pytest.raises(QueueRefused):
        queue.resume(J1)


def test_an_unknown_spelling_is_refused() -> None:
    assert parse("zookeeper://one/a?spelling=mrt-zk").queue.spelling == "mrt-zk"
    assert parse("zookeeper://one/a").queue.spelling == "design"
    with pytest.raises(BadValue, match="spelling=merritt, which is unknown; known: design, mrt-zk"):
        parse("zookeeper://one/a?spelling=merritt")


def test_all_of_our_own_data_is_below_one_node(open_gate: OpenGate, raw: Any, url: str) -> None:
    """And none of it is left when a batch is removed, except its history."""
    queue, own = open_gate("design").queue, f"/{url.rpartition('/')[2]}/headgate/queue"
    submitted(queue, request_id="one/two")
    batch = queue.acquire_batch("pending", lease=LONG, worker="me")
    assert batch
    assert json.loads(raw.get(f"{own}/batches/{B}")[0]) == {"made": 0, "request_id": "one/two"}
    assert raw.get(f"{own}/requests/-one%2Ftwo")[0] == B.encode()
    owner, stat = raw.get(f"{own}/owners/{B}")
    assert {key: json.loads(owner)[key] for key in ("worker", "lease")} == {"worker": "me", "lease": LONG}
    assert stat.ephemeralOwner
    note, stat = raw.get(f"{own}/takings/{B}")
    assert (json.loads(note), stat.ephemeralOwner) == ({"worker": "me", "token": batch.token}, 0)
    queue.create_jobs(batch, ROWS)
    assert json.loads(raw.get(f"{own}/batches/{B}")[0])["made"] == 2
    assert raw.get_children(f"{own}/arrivals/pending") == ["05"]
    queue.fire(batch, "hold", "x")
    queue.delete(B, reason="given up")
    assert [raw.get_children(f"{own}/{folder}") for folder in ("batches", "requests", "owners", "takings")] == [[]] * 4
    with pytest.raises(ItemLost):
        queue.fire(batch, "hold", "y")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_key_of_a_submission_is_read_back(spelling: str) -> None:
    tree = SPELLINGS[spelling]("/x")
    said = {name: f"the {name}" for name in METADATA if name != "batch_id"}
    given = Submission("demo", "ann", "https://example.org/a", "file", "update", said, "r")
    kept = tree.submission(given, "bid-1")
    found = tree.read_submission(kept.nodes["submission"], {"said": dict(kept.beside), "request_id": "r"})
    assert (found.payload_url, found.type, found.mode) == (given.payload_url, given.type, given.mode)
    assert {name: found.metadata.get(name) for name in said} == said
    configuration = {**said, "payload_url": given.payload_url, "payload_type": "file", "submission_mode": "add"}
    spread = tree.spread(configuration, {"configuration": {}, "metadata": {}})
    again = tree.gathered(spread, "bid0000000001", "jid0000000001")
    assert {name: again.get(name) for name in configuration} == configuration

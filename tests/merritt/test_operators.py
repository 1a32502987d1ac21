"""Views for operators of Merritt's admin tool: collections, bytes, metrics, and foreign parts of the tree."""

import json
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from headgate.core.values.wire import plain
from tests.cli.commands import Headgate
from tests.cli.terminal import typed
from tests.merritt.other_side import OtherSide
from tests.merritt.test_handlers import serving

GIGABYTES = 2_500_000_000


def job_of(other: OtherSide, batch: str, status: str = "Pending", space: int = 0, profile: str = "demo") -> str:
    job = other.create_job(batch, {"profile": profile, "type": "file", "submitter": "bob", "filename": "https://h/a"})
    other.put(f"/jobs/{job}/space_needed", str(space))
    if status != "Pending":
        other.set_job(job, status)
    return job


def batch_of(other: OtherSide, profile: str, status: str) -> str:
    batch = other.create_batch(profile=profile, submitter="bob", filename="https://h/a", type="file")
    other.set_batch(batch, status)
    return batch


@pytest.fixture
def busy(other: OtherSide) -> list[str]:
    """Two collections, and requests for objects, which do not belong to the queue."""
    first, second, old = (batch_of(other, *each) for each in (("b", "Reporting"), ("a", "Failed"), ("b", "Completed")))
    job_of(other, first, space=GIGABYTES)
    job_of(other, first, "Estimating", space=1)
    job_of(other, second, "Failed", profile="a")
    job_of(other, old, "Completed", space=7)
    other.zk.ensure_path(other.path("/access/small"))
    other.zk.ensure_path(other.path("/migration/m1"))
    for number, status in enumerate(("Processing", "Completed", "Completed")):
        other.create(f"/access/small/qid{number:010d}")
        other.put(f"/access/small/qid{number:010d}/status", {"status": status})
    return [first, second, old]


def test_jobs_and_bytes_are_listed_by_collection_and_batch(gate: Gate, busy: list[str]) -> None:
    first, second, old = busy
    found = [
        (each.profile, each.batch, each.state, each.processing, each.failed, each.completed, each.bytes)
        for each in gate.queue.summary()
    ]
    assert found == [
        ("a", second, "failed", 0, 1, 0, 0), ("b", first, "reporting", 2, 0, 0, GIGABYTES + 1),
        ("b", old, "completed", 0, 0, 1, 7),
    ]  # fmt: skip


@pytest.mark.usefixtures("busy")
def test_metrics_have_merritts_names(gate: Gate) -> None:
    assert gate.queue.metrics() == {
        "num_jobs_processing": 2, "num_jobs_completed": 1, "num_jobs_failed": 1, "gb_in_process": 2.5,
        "num_batches_processing": 1, "num_batches_completed": 1, "num_batches_failed": 1,
        "num_assemblies_processing": 1, "num_assemblies_completed": 2, "num_assemblies_failed": 0,
    }  # fmt: skip


@pytest.mark.usefixtures("busy")
def test_foreign_parts_of_the_tree_are_shown_and_left_alone(
    gate: Gate, other: OtherSide, url: str, tmp_path: Path
) -> None:
    assert gate.queue.foreign() == {"access/small": {"Processing": 1, "Completed": 2}, "migration/m1": {}}
    assert [fault for fault in gate.queue.faults() if "access" in fault.item or "migration" in fault.item] == []
    gate.queue.clean(0)
    assert len(other.names("/access/small")) == 3
    doctor = Headgate(f"{url}?spelling=mrt-zk", tmp_path)("doctor")
    shown = "access/small (1 Processing, 2 Completed); migration/m1 (empty)"
    assert f"note     other programs keep beside the queue, which is left alone: {shown}" in doctor.out


def test_an_old_batch_has_a_warning_and_a_failed_one_is_marked(
    busy: list[str], url: str, tmp_path: Path, other: OtherSide
) -> None:
    first, second, old = busy
    for batch, status in ((first, "Reporting"), (old, "Completed")):
        content = {"status": status, "last_modified": "2026-01-01 00:00:00 +0000", "message": ""}
        other.put(f"/batches/{batch}/status", content)
    rows = Headgate(f"{url}?spelling=mrt-zk", tmp_path)("ingest", "summary", "--json").json["items"]
    assert {row["batch"]: row["level"] for row in rows} == {first: "WARN", second: "FAIL", old: ""}


def test_collections_are_summed_up_with_their_worst_level(
    busy: list[str], url: str, tmp_path: Path, other: OtherSide
) -> None:
    content = {"status": "Reporting", "last_modified": "2026-01-01 00:00:00 +0000", "message": ""}
    other.put(f"/batches/{busy[0]}/status", content)
    command = Headgate(f"{url}?spelling=mrt-zk", tmp_path)
    assert command("ingest", "summary", "--by-collection", "--json").json["items"] == [
        {"profile": "a", "batches": 1, "processing": 0, "failed": 1, "completed": 0, "bytes": 0, "level": "FAIL"},
        {"profile": "b", "batches": 2, "processing": 2, "failed": 0, "completed": 1, "bytes": GIGABYTES + 8,
         "level": "WARN"},
    ]  # fmt: skip
    shown = [line.split() for line in command("ingest", "summary", "--by-collection").out.splitlines()]
    assert shown[1:] == [["a", "1", "0", "1", "0", "0", "B", "FAIL"], ["b", "2", "1", "0", "2", "2.3", "GiB", "WARN"]]


def test_the_warnings_are_seen_on_a_terminal_of_80_columns(other: OtherSide, url: str, tmp_path: Path) -> None:
    batch = batch_of(other, "merritt_demo_content", "Processing")
    job_of(other, batch, space=1000 * GIGABYTES)
    content = {"status": "Processing", "last_modified": "2026-01-01 00:00:00 +0000", "message": ""}
    other.put(f"/batches/{batch}/status", content)
    _, shown = typed(Headgate(f"{url}?spelling=mrt-zk", tmp_path), "ingest", "summary", NO_COLOR="1")
    (row,) = [line for line in shown.splitlines() if batch in line]
    assert row.split()[0].startswith("merritt_")
    assert row.rstrip().endswith("WARN")
    assert "2.3 TiB" in row
    assert max(map(len, shown.splitlines())) <= 80


def test_a_job_that_waits_says_for_what(gate: Gate, other: OtherSide, url: str, tmp_path: Path) -> None:
    """An operator who looks at a stuck job sees the lock that one of Merritt's storage services has left."""
    configuration = {"profile": "demo", "type": "file", "submitter": "bob", "filename": "https://h/a"}
    names = {"primary_id": "ark:/99999/fk4x", "local_id": []}
    job = other.create_job(batch_of(other, "demo", "Processing"), configuration, identifiers=names)
    for status in ("Estimating", "Provisioning", "Downloading", "Processing", "Storing"):
        other.set_job(job, status)
    command = Headgate(f"{url}?spelling=mrt-zk", tmp_path)
    assert "waits for" not in command("ingest", "job", job).out
    assert command("ingest", "job", job, "--json").json["waits_for"] == []
    other.lock_object("storage", "ark:/99999/fk4x", ephemeral=False)
    other.create("/locks/queue/ingest")
    lock = other.path("/locks/storage/ark_99999_fk4x")
    reasons = ["the queue is paused by another program", f"{lock} is held by another program, without a session"]
    assert gate.queue.explain(job) == reasons
    assert f"waits for:        {'; '.join(reasons)}\n" in command("ingest", "job", job).out
    assert command("ingest", "job", job, "--json").json["waits_for"] == reasons
    other.set_job(job, "Failed")
    assert gate.queue.explain(job)[0] == "it is failed"


@pytest.mark.parametrize("profile", ["", "../outside", "a/b"])
def test_a_batch_whose_profile_has_no_possible_name_is_explained_without_reading_a_file(
    other: OtherSide, url: str, tmp_path: Path, profile: str
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "outside.toml").write_text('secret = "hidden')
    batch = batch_of(other, profile, "Pending")
    doctor = Headgate(f"{url}?spelling=mrt-zk", tmp_path)("doctor", HEADGATE_PROFILES_FOLDER=str(tmp_path / "profiles"))
    (line,) = [line for line in doctor.out.splitlines() if batch in line]
    assert line.startswith(f"STUCK    {batch} waits for a profile that cannot be used: profile {profile!r} ")
    assert "outside.toml" not in doctor.out
    assert "hidden" not in doctor.out


@pytest.mark.usefixtures("busy")
def test_a_service_answers_the_same(url: str, tmp_path: Path) -> None:
    """Counts are whole numbers there too."""
    settings = {"coordination_url": f"{url}?spelling=mrt-zk", "work_folder": str(tmp_path / "work")}
    with headgate.connect(f"sqlite:///{tmp_path / 'headgate.db'}", **settings) as gate, serving(gate) as server:
        token = gate.tokens.new("operator", ["read"]).token
        with headgate.connect(server.url, token=token) as outside:
            asked = [
                (queue.metrics(), queue.foreign(), queue.summary(), queue.explain("jid0000000001"))
                for queue in (gate.queue, outside.queue)
            ]
    here, there = (json.dumps(plain(each), sort_keys=True) for each in asked)
    assert here == there
    assert '"num_jobs_processing": 2}' in here

"""Headgate's own steps on batches and jobs that Merritt's programs created and prepared."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from headgate.core.queue.model import Batch
from headgate.daemon_wiring import ingest_handlers
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.service.leases.clock import steady
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import NotNow
from tests.ingest.site import Site, running, site
from tests.merritt.other_side import OtherSide
from tests.merritt.walk import orphans
from tests.waiting import until

ARK = "ark:/99999/fk4abc"


@pytest.fixture
def here(url: str, tmp_path: Path) -> Iterator[Site]:
    """A repository whose queue is in a tree that both sides share."""
    with site(tmp_path, f"sqlite:///{tmp_path / 'headgate.db'}", f"{url}?spelling=mrt-zk") as found:
        found.profile()
        yield found


@contextmanager
def serving(gate: Gate) -> Iterator[Server]:
    server = Server(Service(gate), "127.0.0.1:0")
    server.start()
    yield server
    server.stop()


def batch_of_theirs(here: Site, other: OtherSide) -> tuple[str, str]:
    """A batch and its job, as Merritt's own batch consumer leaves them."""
    url = here.origin.add("/a.txt", b"hello")
    batch = other.create_batch(profile="demo", submitter="bob", filename=url, type="file")
    assert other.take_pending_batch() == batch
    configuration = {
        "batchID": "bid-1", "jobID": "jid-1", "profile": "demo", "type": "file", "submitter": "bob", "filename": url,
        "title": "Hello", "creator": "Bob", "update": False,
    }  # fmt: skip
    job = other.create_job(batch, configuration, identifiers={"primary_id": "", "local_id": ["l1"]})
    other.set_batch(batch, "Reporting")
    other.unlock(f"/batches/{batch}")
    return batch, job


def ended(gate: Gate, batch: str) -> Batch:
    until(lambda: gate.queue.batch(batch).state in ("completed", "failed"), f"{batch} ends", 60)
    return gate.queue.batch(batch)


def test_a_batch_of_the_other_side_is_ingested_completely(here: Site, other: OtherSide) -> None:
    batch, job = batch_of_theirs(here, other)
    with here.gate() as gate, running(gate):
        found = ended(gate, batch)
        assert [each.message for each in gate.queue.jobs("failed")] == []
        assert found.state == "completed"
        (stored,) = gate.inventory.objects()
        assert (stored.what, stored.who, stored.local) == ("Hello", "Bob", ("l1",))
        until(lambda: len(here.box.mails) == 1, "the report is mailed")
    assert [each["data"]["submitter"] for each in here.callbacks()] == ["bob"]
    assert other.job_status(job) == "Completed"
    assert other.content(f"/jobs/{job}/configuration")["batchID"] == "bid-1"
    assert "batch-processing" in other.names(f"/batches/{batch}/states")
    with here.gate() as gate:
        assert orphans(other) == []
        assert gate.queue.clean(0) == [batch]
    assert orphans(other) == []
    assert (other.names("/batches"), other.names("/jobs"), other.names("/batch-uuids")) == ([], ["states"], [])


@pytest.mark.parametrize(
    ("word", "kind"),
    [("file", "file"), ("manifest", "manifest"), ("object-manifest", "manifest"), ("batchManifest", "file"),
     ("batch-manifest", "file")],
)  # fmt: skip
def test_a_batch_with_every_key_of_merritts_submissions_gets_its_jobs(
    here: Site, other: OtherSide, word: str, kind: str
) -> None:
    """Each key of Merritt's own submissions, and an unknown one."""
    url = here.origin.add("/a.txt", b"hello")
    if word in ("batchManifest", "batch-manifest"):
        url = here.batch_manifest("/batch", {"l1": url}, "mrt-single-file-batch-manifest")
    said = {
        "profile": "demo", "type": word, "size": "5", "filename": url, "update": False, "submitter": "bob/Bob",
        "responseForm": "xml", "creator": "Bob", "title": "Hello", "date": "2026", "objectID": "", "localID": "l1",
        "notification": "bob@example.org", "digestType": "", "digestValue": "", "note": "", "notificationFormat": "xml",
        "DataCiteResourceType": "Text", "DCsubject": "greetings", "submissionDate": "2026-11-15 02:33:22 +0000",
        "theirs": {"a": [1]},
    }  # fmt: skip
    batch = other.create_batch(**said)
    with here.gate() as gate, running(gate, only=["batch-pending"]):
        until(lambda: other.batch_status(batch) != "Pending", "it has its jobs", 60)
        assert (gate.queue.batch(batch).message, gate.queue.batch(batch).made) == ("1 job", 1)
        found = gate.queue.job("jid0000000001")
        assert found.configuration["theirs"] == {"a": [1]}
        assert found.identifiers.local == ("l1",)
    configuration = other.content("/jobs/jid0000000001/configuration")
    wanted = {
        "batchID": other.content(f"/batches/{batch}/submission")["batchID"], "profile": "demo", "type": kind,
        "submitter": "bob/Bob", "responseForm": "xml", "DCsubject": "greetings", "DataCiteResourceType": "Text",
        "notification": "bob@example.org", "notificationFormat": "xml",
    }  # fmt: skip
    assert {name: configuration.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("said", [{"type": "unheard-of"}, {"type": ""}, {}])
def test_a_batch_of_an_unknown_type_ends_with_a_report_of_it(
    here: Site, other: OtherSide, said: dict[str, str]
) -> None:
    batch = other.create_batch(profile="demo", submitter="bob", filename="http://h/a", **said)
    with here.gate() as gate, running(gate, only=["batch-pending", "batch-reporting"]):
        found = ended(gate, batch)
        assert found.state == "failed"
        assert f"type {said.get('type', '')!r} is not one of file, container," in found.message


@pytest.mark.parametrize("profile", ["", "../secret", "no such"])
def test_a_batch_of_an_impossible_profile_ends_with_a_report_of_it(here: Site, other: OtherSide, profile: str) -> None:
    batch = other.create_batch(profile=profile, submitter="bob", filename="http://h/a", type="file")
    with here.gate() as gate, running(gate, only=["batch-pending", "batch-reporting"]):
        found = ended(gate, batch)
        assert (found.state, "profile" in found.message) == ("failed", True)


def test_a_job_of_an_unknown_type_fails(here: Site, other: OtherSide) -> None:
    _batch, job = batch_of_theirs(here, other)
    configuration = other.content(f"/jobs/{job}/configuration")
    other.put(f"/jobs/{job}/configuration", {**configuration, "type": "unheard-of"})
    with here.gate() as gate, running(gate, only=["job-pending"]):
        until(lambda: other.job_status(job) == "Failed", "it fails")
        assert "payload_type 'unheard-of' is not one of" in gate.queue.job(job).message


def test_a_job_that_is_resumed_while_its_batch_is_reported_is_waited_for(here: Site, other: OtherSide) -> None:
    """Merritt's admin tool resumes jobs of any batch: a report that is created then would be the last one."""
    batch, job = batch_of_theirs(here, other)
    for status in ("Estimating", "Provisioning", "Downloading", "Failed"):
        other.set_job(job, status)
    with here.gate() as gate:
        report = ingest_handlers(gate)["batch-reporting"]
        taken = gate.queue.acquire_batch("reporting")
        assert taken is not None
        other.set_job(job, "Downloading", retry=True)
        outcome = report(taken, ItemHold(lambda _: 60.0, taken, steady()))
        assert outcome == NotNow(f"reported when its jobs have ended: {job} is in the queue")
        gate.queue.give_back(taken)
        with running(gate):
            assert ended(gate, batch).state == "completed"
            until(lambda: len(here.mails()) == 1, "it is reported once")


def test_daemons_behind_a_service_ingest_a_batch_of_the_other_side(here: Site, other: OtherSide) -> None:
    """They have no profiles: the service stores the profile when they take a job."""
    batch, _job = batch_of_theirs(here, other)
    unknown = other.create_batch(profile="nobody", submitter="bob", filename="http://h/a", type="file")
    lost = other.create_job(unknown, {"profile": "nobody", "type": "file", "filename": "http://h/a"})
    other.set_batch(unknown, "Reporting")
    settings = here.settings | {"coordination_url": "", "profiles_folder": str(here.folder / "none")}
    with here.gate() as gate, serving(gate) as server:
        token = gate.tokens.new("outside", ["queue:work", "lock:acquire", "read"]).token
        with headgate.connect(server.url, token=token, **settings) as outside, running(outside):
            assert ended(gate, batch).state == "completed", [each.message for each in gate.queue.jobs("failed")]
            until(lambda: other.job_status(lost) == "Failed", "its profile does not exist")
            assert "there is no profile nobody" in gate.queue.job(lost).message


def test_a_missing_profile_fails_the_job_and_is_named(here: Site, other: OtherSide) -> None:
    _batch, job = batch_of_theirs(here, other)
    (here.folder / "profiles" / "demo.toml").unlink()
    with here.gate() as gate, running(gate, only=["job-pending"]):
        until(lambda: other.job_status(job) == "Failed", "it fails")
        assert "there is no profile demo" in gate.queue.job(job).message


def test_another_storage_service_can_store_a_job_that_we_processed(here: Site, other: OtherSide) -> None:
    """Both nodes exist before the job is Storing, and the files that they name can be read."""
    _, job = batch_of_theirs(here, other)
    steps = ["job-pending", "job-estimating", "job-provisioning", "job-downloading", "job-processing"]
    with here.gate() as gate, running(gate, only=steps):
        until(lambda: other.job_status(job) in ("Storing", "Failed"), "it can be stored", 60)
        assert gate.inventory.objects() == []
        ark = gate.queue.job(job).identifiers.primary
        assert here.storage(gate).list_versions(ark) == ()
    store = other.content(f"/jobs/{job}/store")
    place = ark.replace(":", "%3A").replace("/", "%2F")
    assert (store["mode"], store["delete"]) == (f"add/0/{place}", "")
    listing = Path(store["manifest_url"].removeprefix("file://")).read_text()
    assert "producer/a.txt" in listing
    assert "system/mrt-erc.txt" in listing
    inventory = other.content(f"/jobs/{job}/inventory")
    assert inventory["mode"] == ""
    assert inventory["manifest_url"].endswith(f"/manifest/0/{place}")


def test_an_object_that_another_program_prepared_is_stored_and_recorded(here: Site, other: OtherSide) -> None:
    """By its manifest, fetched under the rules of the profile."""
    batch, job = batch_of_theirs(here, other)
    files = {
        "producer/a.txt": b"hello", "system/mrt-erc.txt": b"erc: \nwho: Bob\nwhat: Hello\nwhen: (:unas)\nwhere: x\n",
    }  # fmt: skip
    here.origin.add("/manifest", storage_manifest(here, files))
    for step in ("Estimating", "Provisioning", "Downloading", "Processing"):
        other.set_job(job, step)
    other.put(f"/jobs/{job}/identifiers", {"primary_id": ARK, "local_id": ["l1"]})
    other.put(f"/jobs/{job}/store", {"manifest_url": here.origin.url("/manifest"), "mode": "add/1/x", "delete": ""})
    other.set_job(job, "Storing", "Success")
    with here.gate() as gate, running(gate):
        assert ended(gate, batch).state == "completed", [each.message for each in gate.queue.jobs("failed")]
        (stored,) = gate.inventory.objects()
        assert (stored.ark, stored.what) == (ARK, "Hello")
        assert {each.name for each in gate.inventory.files(ARK, 1)} == set(files)


def storage_manifest(here: Site, files: dict[str, bytes]) -> bytes:
    rows = [
        f"{here.origin.add(f'/files/{name}', data)} | sha-256 | {hashlib.sha256(data).hexdigest()} | {len(data)} | "
        f"2026-01-01T00:00:00Z | {name} | text/plain"
        for name, data in files.items()
    ]
    head = ["#%checkm_0.7", "#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-add-manifest"]
    return "\n".join([*head, *rows, "#%eof"]).encode()


def test_notify_after_another_service_recorded_the_object(here: Site, other: OtherSide) -> None:
    batch, job = batch_of_theirs(here, other)
    ours = [
        "job-pending", "job-estimating", "job-provisioning", "job-downloading", "job-processing", "job-storing",
        "job-notify", "batch-reporting",
    ]  # fmt: skip
    with here.gate() as gate, running(gate, only=ours):
        until(lambda: other.take_job("Recording") == job, "it is to be recorded", 60)
        other.set_job(job, "Notify", "Success")
        other.unlock(f"/jobs/{job}")
        assert ended(gate, batch).state == "completed"
        (told,) = here.callbacks()
        assert (told["type"], told["data"]["version"], told["data"]["title"]) == ("ingest.completed", 1, "Hello")
        assert told["data"]["files"] > 1
        assert json.dumps(told["data"]["primary_id"]).startswith('"ark:')

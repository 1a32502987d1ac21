"""From a manifest to a preserved, recorded, reported object: all real parts, on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headgate
from headgate import QueueRefused
from headgate.core.queue.model import Batch
from headgate.gate import Gate
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.ingest.formats.ark import mint_for
from headgate.ingest.formats.descriptions import read_dublin_core
from headgate.ingest.objects.deposits import resume_refreshed
from headgate.ingest.storage.ocfl import OcflStorage
from tests.conftest import fresh_store
from tests.ingest.ezid_server import PASSWORD, USER
from tests.ingest.site import SECRET, Site, checkm, ended, only_job, running, site
from tests.ingest.validator import validate
from tests.shared_servers import Servers
from tests.waiting import until

FILES = {"page-1.txt": b"one\n", "pages/page-2.txt": b"two\n" * 1000}


STORES = ["sqlite", "mariadb", "postgresql+zookeeper", "sqlite+zookeeper?spelling=mrt-zk"]


@pytest.fixture
def here(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Site]:
    """A site on each combination of stores."""
    ledger, _, coordination = str(request.param).partition("+")
    kind, mark, options = coordination.partition("?")
    url = fresh_store(ledger, servers, tmp_path)
    other = fresh_store(kind, servers, tmp_path) if kind else iter([""])
    with site(tmp_path, next(url), next(other) + mark + options) as found:
        yield found
    for each in (url, other):
        next(each, None)


@pytest.mark.parametrize("here", STORES, indirect=True)
def test_a_batch_becomes_stored_recorded_reported_objects(here: Site) -> None:
    here.profile(confirmation_mail=True)
    urls = {f"book-{number}": here.object_manifest(f"/{number}.checkm", FILES) for number in range(3)}
    with here.gate() as gate, running(gate):
        url = here.batch_manifest("/all.checkm", urls)
        batch = ended(gate, gate.queue.submit("demo", "ann", url, type="batch-manifest"))
        assert [each.message for each in gate.queue.jobs("failed", batch=batch.id)] == []
        assert (batch.state, batch.message) == ("completed", "3 completed, 0 failed")
        until(lambda: len(here.box.mails) == 2, "the mails arrive")
        objects = gate.inventory.objects()
        assert sorted(each.local for each in objects) == [("book-0",), ("book-1",), ("book-2",)]
        assert {each.what for each in objects} == {f"Title of book-{number}" for number in range(3)}
        assert_whole(here, gate)
        ready = {row.dataid for row in gate.ledger.status(dataset="demo") if row.status == "READY"}
        assert ready == {each.ark.replace(":/", "_").replace("/", "_") + ".v1" for each in objects}
    assert sorted(str(each["Subject"]) for each in here.mails()) == [
        f"Ingest: OK -- Submission processed: {batch.id}", f"Ingest: OK -- Submission queued: {batch.id}",
    ]  # fmt: skip
    assert_told(here, {each.ark for each in objects})


def assert_whole(here: Site, gate: Gate) -> None:
    """Every stored byte is right, and inventory and storage have the same objects, versions and files."""
    storage = here.storage(gate)
    known = {each.ark: each.version for each in gate.inventory.objects()}
    assert {ark: len(storage.list_versions(ark)) for ark in storage.objects()} == known
    for ark in known:
        assert storage.verify(ark) == []
        for version in storage.list_versions(ark):
            stored = [(each.name, each.size, each.digest, each.since) for each in version.files]
            listed = gate.inventory.files(ark, version.number)
            assert [(each.name, each.size, each.digest, each.since) for each in listed] == stored
            names = {each.name: each.digest for each in listed}
            for name, content in FILES.items():
                assert names[f"producer/{name}"] == hashlib.sha256(content).hexdigest()
    validate(here.folder / "storage")


def assert_told(here: Site, arks: set[str]) -> None:
    told = {each["id"]: each for each in here.callbacks()}
    assert {each["data"]["primary_id"] for each in told.values()} == arks
    assert len(told) == len(arks)
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    for seen in here.origin.asked("/hook"):
        signed = f"{seen.headers['webhook-id']}.{seen.headers['webhook-timestamp']}.".encode() + seen.body
        value = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert seen.headers["webhook-signature"] == f"v1,{value}"


@pytest.mark.parametrize("here", ["sqlite", "mariadb", "postgresql"], indirect=True)
def test_one_local_id_in_many_jobs_at_once_is_one_object_with_as_many_versions(here: Site) -> None:
    here.profile()
    with here.gate() as gate, running(gate, workers=4):
        batches = []
        for number in range(4):
            url = here.object_manifest(f"/{number}.checkm", {**FILES, "number.txt": str(number).encode()})
            batches.append(gate.queue.submit("demo", "ann", url, local_id="the-book"))
        jobs = [only_job(gate, ended(gate, each)) for each in batches]
        assert [(each.state, each.message) for each in jobs if each.state != "completed"] == []
        (found,) = gate.inventory.objects()
        assert (found.version, found.local) == (4, ("the-book",))
        assert_whole(here, gate)


# ---------------------------------------------------------------- payloads


def test_a_single_file_with_its_digest(there: Site) -> None:
    there.profile()
    content = b"a map"
    url = there.origin.add("/maps/map%20one.tif", content)
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit(
            "demo", "ann", url, type="file", digest_type="MD5",
            digest_value=hashlib.md5(content).hexdigest().upper(), erc_what="A map",  # noqa: S324
        )  # fmt: skip
        assert ended(gate, batch).state == "completed"
        (found,) = gate.inventory.objects()
        assert "producer/map one.tif" in [each.name for each in gate.inventory.files(found.ark, 1)]


def test_a_container_is_unpacked_and_its_own_list_must_match(there: Site) -> None:
    there.profile()
    with there.gate() as gate, running(gate):
        right = submit_zip(there, gate, "/right.zip", hashlib.sha256(b"a").hexdigest())
        wrong = submit_zip(there, gate, "/wrong.zip", hashlib.sha256(b"b").hexdigest())
        assert (ended(gate, right).state, ended(gate, wrong).state) == ("completed", "failed")
        assert "'a.txt': checksum mismatch: its sha256 differs from the manifest" in only_job(gate, wrong).message
        (found,) = gate.inventory.objects()
        names = [each.name for each in gate.inventory.files(found.ark, 1) if each.name.startswith("producer/")]
        assert names == ["producer/a.txt"]


def submit_zip(there: Site, gate: Gate, path: str, digest: str) -> Batch:
    packed = io.BytesIO()
    rows = [f"a.txt | sha-256 | {digest} | 1"]
    listing = checkm("mrt-object-manifest", rows).replace(b"/ingest/manifest/", b"/store/manifest/")
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", b"a")
        archive.writestr("mrt-manifest.txt", listing)
    return gate.queue.submit("demo", "ann", there.origin.add(path, packed.getvalue()), type="container")


def test_an_update_keeps_unnamed_files_and_removes_listed_ones(there: Site) -> None:
    there.profile()
    with there.gate() as gate, running(gate):
        first = there.object_manifest("/1.checkm", {"a.txt": b"a", "b.txt": b"b", "c.txt": b"c"})
        said = {"erc_who": "Ann", "erc_what": "A book", "erc_when": "2026", "dc_subject": "tides", "dc_rights": "CC0"}
        assert ended(gate, gate.queue.submit("demo", "ann", first, local_id="x", **said)).state == "completed"
        second = there.object_manifest("/2.checkm", {"b.txt": b"new", "mrt-delete.txt": b"c.txt\n"})
        more = {"erc_when": "2027", "dc_subject": "storms"}
        updated = gate.queue.submit("demo", "ann", second, local_id="x", mode="update", **more)
        assert ended(gate, updated).state == "completed"
        (found,) = gate.inventory.objects()
        assert (found.who, found.what, found.when) == ("Ann", "A book", "2027"), "what it does not say stays"
        with there.storage(gate).read(found.ark, "system/mrt-dc.xml", 2) as source:
            core = read_dublin_core(source.read()).dublin_core
        assert (core["subject"], core["rights"]) == (("storms",), ("CC0",))
        files = {each.name: each.digest for each in gate.inventory.files(found.ark, 2)}
        producer = {name: digest for name, digest in files.items() if name.startswith("producer/")}
        assert producer == {
            "producer/a.txt": hashlib.sha256(b"a").hexdigest(),
            "producer/b.txt": hashlib.sha256(b"new").hexdigest(),
        }


def test_a_resume_keeps_profile_and_manifest_unless_it_is_refreshed(there: Site) -> None:
    there.profile()
    url = there.object_manifest("/1.checkm", {"a.txt": b"a"})
    there.origin.add("/1.checkm.files/a.txt", b"another")
    with there.gate() as gate:
        with running(gate):
            batch = ended(gate, gate.queue.submit("demo", "ann", url))
            job = only_job(gate, batch)
            assert (job.state, job.last_successful) == ("failed", "provisioning")
            there.profile(notification=["bob@example.org"])
            there.object_manifest("/1.checkm", {"b.txt": b"b"})
            found = gate.deposits.frozen_of(job)
            assert found
            assert found.profile_since and found.manifest_since  # noqa: PT018 - both are times
            assert (found.profile_changes, found.manifest_refreshable) == (("notification",), True)
            assert "notification changed since" in found.sentences[0]
            gate.queue.resume(job.id)
            until(lambda: only_job(gate, batch).state == "failed", "it fails again, with what it kept")
        with served(gate) as far:
            assert far.deposits.frozen_of(far.queue.job(job.id)) == found
            assert resume_refreshed(far.queue, far.deposits, job.id).state == "downloading"
            with pytest.raises(QueueRefused, match="only failed jobs"):
                far.deposits.refresh(far.queue.job(job.id))
        kept = gate.deposits.frozen_of(gate.queue.job(job.id))
        assert kept
        assert (kept.profile_changes, kept.manifest_since) == ((), None)
        with running(gate):
            until(lambda: only_job(gate, batch).state in ("completed", "cleaned"), "it is stored")
        (stored,) = gate.inventory.objects()
        names = [each.name for each in gate.inventory.files(stored.ark, 1) if each.name.startswith("producer/")]
        assert names == ["producer/b.txt"]


@contextmanager
def served(gate: Gate) -> Iterator[Gate]:
    """A gate on a service whose daemons this process runs."""
    server = Server(Service(gate), "127.0.0.1:0")
    server.start()
    try:
        with headgate.connect(server.url, token=gate.tokens.new("t", ["admin"]).token) as far:
            yield far
    finally:
        server.stop()


def test_the_depositors_own_files_describe_and_name_the_object(there: Site) -> None:
    there.profile()
    erc = b"erc:\nwho: Bea\nwhat: From the file\nwhen: 1999\nwhere: loc-7\n"
    url = there.object_manifest("/1.checkm", {"a.txt": b"a", "mrt-erc.txt": erc})
    with there.gate() as gate, running(gate):
        assert ended(gate, gate.queue.submit("demo", "ann", url, erc_what="From the form")).state == "completed"
        (found,) = gate.inventory.objects()
        assert (found.who, found.what, found.when, found.local) == ("Bea", "From the file", "1999", ("loc-7",))


def test_dublin_core_names_the_object_if_the_profile_says_so(there: Site) -> None:
    there.profile("plain")
    there.profile("named", dublin_core_ids=True)
    core = b"""<x xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier>isbn 7; ark:/99999/fk4x</dc:identifier>
        <dc:identifier>shelf 9</dc:identifier></x>"""
    url = there.object_manifest("/1.checkm", {"mrt-dc.xml": core})
    with there.gate() as gate, running(gate):
        for profile in ("plain", "named", "named"):
            assert ended(gate, gate.queue.submit(profile, "ann", url)).state == "completed"
        found = sorted((each.version, each.local) for each in gate.inventory.objects())
        assert found == [(1, ()), (2, ("isbn 7", "shelf 9"))]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("kind", ["register", "ezid"])
def test_ezid_knows_the_name_before_the_object_is_stored(there: Site, kind: str) -> None:
    (there.folder / "password").write_text(PASSWORD)
    there.profile(
        minter__kind=kind, minter__shoulder="ark:/99999/fk4", minter__ezid_url=there.ezid.url, minter__ezid_user=USER,
        minter__ezid_password=f"file:{there.folder / 'password'}", minter__target_url="https://repository.example.org",
    )  # fmt: skip
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        assert ended(gate, gate.queue.submit("demo", "ann", url, erc_what="A book")).state == "completed"
        (found,) = gate.inventory.objects()
    assert set(there.ezid.known) == {found.ark}
    assert "what: A book" in there.ezid.known[found.ark]["erc"]
    assert there.ezid.known[found.ark]["_target"].startswith("https://repository.example.org/m/ark")


def test_a_name_and_a_local_id_of_different_objects_fail_and_store_nothing(there: Site) -> None:
    there.profile()
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        ended(gate, gate.queue.submit("demo", "ann", url, local_id="x"))
        (found,) = gate.inventory.objects()
        batch = ended(gate, gate.queue.submit("demo", "ann", url, local_id="x", primary_id="ark:/99999/fk4other"))
        job = only_job(gate, batch)
        assert (batch.state, job.last_successful) == ("failed", "downloading")
        assert job.message == f"ark:/99999/fk4other: its local id x belongs to {found.ark}"
        assert len(gate.inventory.objects()) == 1


def test_an_ark_chosen_by_a_depositor_is_not_assigned_to_another_object(there: Site) -> None:
    there.profile()
    url = there.object_manifest("/1.checkm", FILES)
    taken = str(mint_for("jid0000000002", "ark:/99999/fk4"))
    with there.gate() as gate, running(gate):
        ended(gate, gate.queue.submit("demo", "ann", url, primary_id=taken))
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        assert only_job(gate, batch).id == "jid0000000002"
        assert only_job(gate, batch).message.startswith(
            f"{taken}: a depositor has already given this name to another object"
        )
        assert [(each.ark, each.version) for each in gate.inventory.objects()] == [(taken, 1)]
        ended(gate, gate.queue.submit("demo", "ann", url))
        assert len(gate.inventory.objects()) == 2


def test_another_owners_object_is_not_changed(there: Site) -> None:
    there.profile()
    there.profile("other", owner="museum")
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        ended(gate, gate.queue.submit("demo", "ann", url))
        (found,) = gate.inventory.objects()
        batch = ended(gate, gate.queue.submit("other", "bob", url, primary_id=found.ark))
        assert only_job(gate, batch).message == f"{found.ark}: its owner is not museum"
        assert [each.version for each in gate.inventory.objects()] == [1]


# ---------------------------------------------------------------- resuming, holding, busy objects


def test_a_failed_download_fails_the_job_and_resume_continues_it(there: Site) -> None:
    there.profile()
    url = there.object_manifest("/1.checkm", FILES)
    missing = there.origin.files.pop("/1.checkm.files/page-1.txt")
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        job = only_job(gate, batch)
        assert job.message.startswith("a file could not be downloaded: page-1.txt: ")
        assert [each["name"] for each in job.configuration["failed_files"]] == ["page-1.txt"]
        assert gate.inventory.objects() == []
        asked = len(there.origin.asked("/1.checkm.files/pages/page-2.txt"))
        there.origin.files["/1.checkm.files/page-1.txt"] = missing
        gate.queue.resume(job.id)
        until(lambda: only_job(gate, batch).state == "completed", "the job completes")
        assert len(there.origin.asked("/1.checkm.files/pages/page-2.txt")) == asked
        until(lambda: len(there.box.mails) == 1, "the report arrives")
        gate.queue.update_report(batch.id)
        until(lambda: gate.queue.batch(batch.id).state == "completed", "the batch completes")
        until(lambda: len(there.box.mails) == 2, "the second report arrives")
    first, second = there.mails()
    assert "FAIL -- Submission processed" in str(first["Subject"])
    assert "OK -- Submission updated" in str(second["Subject"])
    assert first["Message-ID"] != second["Message-ID"]


def test_many_failed_downloads_are_listed_up_to_a_limit(there: Site) -> None:
    there.profile(limits__tries=1)
    long = "/".join(["x" * 200] * 4)
    rows = [f"{there.origin.url('/' + 'y' * 1500)} |  |  |  |  | {number}/{long}" for number in range(250)]
    url = there.origin.add("/1.checkm", checkm("mrt-ingest-manifest", rows))
    with there.gate() as gate, running(gate):
        job = only_job(gate, ended(gate, gate.queue.submit("demo", "ann", url)))
    assert job.message.startswith("250 files could not be downloaded: 0/xxx")
    assert 50 < len(job.configuration["failed_files"]) < 250


def test_a_working_folder_that_lost_bytes_is_filled_again_by_a_resume(there: Site) -> None:
    """Unpacked files may not survive a power failure."""
    there.profile()
    steps = ("batch-pending", "job-pending", "job-estimating", "job-provisioning", "job-downloading")
    with there.gate() as gate:
        with running(gate, only=steps):
            batch = submit_zip(there, gate, "/right.zip", hashlib.sha256(b"a").hexdigest())
            until(lambda: gate.queue.counts()["ingest job"].get("processing") == 1, "it is unpacked")
        (unpacked,) = (there.folder / "work").rglob("producer/a.txt")
        unpacked.write_bytes(b"")
        with running(gate):
            job = only_job(gate, ended(gate, batch))
            assert "it changed since it was checked" in job.message
            gate.queue.resume(job.id)
            until(lambda: only_job(gate, batch).state == "completed", "the job completes")


def test_a_batch_keeps_the_profile_that_it_started_with(there: Site) -> None:
    there.profile(collection="before")
    url = there.object_manifest("/1.checkm", FILES)
    content = there.origin.files.pop("/1.checkm.files/page-1.txt")
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        there.profile(collection="after")
        there.origin.files["/1.checkm.files/page-1.txt"] = content
        gate.queue.resume(only_job(gate, batch).id)
        until(lambda: only_job(gate, batch).state == "completed", "the job completes")
        assert [each.collections for each in gate.inventory.objects()] == [("before",)]


def test_a_held_collection_waits_until_its_profile_lets_it(there: Site) -> None:
    there.profile(hold="we move")
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", url)
        until(lambda: gate.queue.batch(batch.id).state == "held", "the batch is held")
        assert gate.queue.batch(batch.id).message == "collection demo is on hold, set by its profile: we move"
        there.profile()
        gate.queue.release(batch.id)
        assert ended(gate, batch).state == "completed"


def test_a_busy_object_makes_its_job_wait(there: Site) -> None:
    there.profile()
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        ended(gate, gate.queue.submit("demo", "ann", url, local_id="x"))
        (found,) = gate.inventory.objects()
        with gate.locks.held("reader", f"object:{found.ark}", "shared"):
            batch = gate.queue.submit("demo", "ann", url, local_id="x")
            until(lambda: "reader" in message_of(gate, batch), "the job is deferred")
            assert len(there.storage(gate).list_versions(found.ark)) == 1
        assert ended(gate, batch).state == "completed"
        assert len(there.storage(gate).list_versions(found.ark)) == 2


def message_of(gate: Gate, batch: Batch) -> str:
    return "".join(job.message for job in gate.queue.jobs(batch=batch.id) if job.state == "processing")


# ---------------------------------------------------------------- notices


def test_a_callback_to_a_forbidden_address_does_not_stop_a_job_with_callback_failure_warn(there: Site) -> None:
    there.profile(callback_failure="warn", callback_url="http://169.254.169.254/latest")
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", there.object_manifest("/1.checkm", FILES)))
        assert "not a public address" in only_job(gate, batch).message
    assert batch.state == "completed"


@pytest.mark.parametrize(("policy", "state"), [("fail", "failed"), ("warn", "completed")])
def test_a_callback_that_fails_does_what_the_profile_says(there: Site, policy: str, state: str) -> None:
    there.profile(callback_failure=policy, callback_url=there.origin.url("/nobody"))
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        job = only_job(gate, batch)
        assert (batch.state, job.state) == (state, state)
        assert "the callback failed" in job.message
        assert len(gate.inventory.objects()) == 1
        if policy == "fail":
            there.origin.add("/nobody", b"")
            gate.queue.resume(job.id)
            until(lambda: only_job(gate, batch).state == "completed", "the job completes")
    assert len({each.headers["webhook-id"] for each in there.origin.asked("/nobody")}) == 1


def test_failed_jobs_are_reported_when_the_profile_wants_it(there: Site) -> None:
    there.profile(callback_for_failed=True)
    url = there.object_manifest("/1.checkm", FILES)
    there.origin.files.pop("/1.checkm.files/page-1.txt")
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url, local_id="x"))
        until(lambda: len(there.callbacks()) == 1, "the callback arrives")
    (told,) = there.callbacks()
    assert (told["type"], told["data"]["batch"], told["data"]["local_ids"]) == ("ingest.failed", batch.id, ["x"])


def test_a_report_waits_for_an_unavailable_mail_server(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.service.inventory.FIRST_PAUSE_SECONDS", 0.1)
    there.profile()
    there.box.data = "451 come back later"
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        until(lambda: len(there.box.mails) >= 2, "it is retried")
        there.box.data = "250 OK"
        until(lambda: gate.inventory.messages(batch.id)[0].state == "delivered", "it is delivered")
    assert len({str(each["Message-ID"]) for each in there.mails()}) == 1
    attached = json.loads(next(iter(there.mails()[0].iter_attachments())).get_content())
    assert [each["primary_id"] for each in attached["completed_jobs"]] == arks_of(there)


def arks_of(there: Site) -> list[str]:
    with there.gate() as gate:
        return [each.ark for each in gate.inventory.objects()]


def test_storage_of_another_kind_in_the_same_place_is_refused_and_the_job_can_be_resumed(there: Site) -> None:
    there.profile()
    (there.folder / "storage").mkdir()
    (there.folder / "storage" / "strange.txt").write_text("not ours")
    url = there.object_manifest("/1.checkm", FILES)
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", url))
        job = only_job(gate, batch)
        assert "is not an OCFL 1.1 storage root" in job.message
        ark = job.identifiers.primary
        (there.folder / "storage" / "strange.txt").unlink()
        gate.queue.resume(job.id)
        until(lambda: only_job(gate, batch).state == "completed", "the job completes")
        assert [each.ark for each in gate.inventory.objects()] == [ark]
    assert OcflStorage(there.folder / "storage").verify(ark) == []


def test_another_store_on_the_same_root_is_not_mistaken_for_the_first(tmp_path: Path) -> None:
    """Its jobs have the same numbers, so its minter creates the same names."""
    with site(tmp_path, f"sqlite:///{tmp_path / 'lost.db'}") as there:
        there.profile()
        with there.gate() as gate, running(gate):
            ended(gate, gate.queue.submit("demo", "ann", there.object_manifest("/old.checkm", {"old.txt": b"old"})))
            (old,) = gate.inventory.objects()
        shutil.rmtree(tmp_path / "work")
        there.url = f"sqlite:///{tmp_path / 'new.db'}"
        with there.gate() as gate, running(gate):
            url = there.object_manifest("/new.checkm", {"new.txt": b"new"})
            job = only_job(gate, ended(gate, gate.queue.submit("demo", "ann", url)))
            assert job.state == "completed", job.message
            (new,) = gate.inventory.objects()
            names = [each.name for each in gate.inventory.files(new.ark, new.version)]
    assert (new.ark, new.version) == (old.ark, 2)
    assert [name for name in names if name.startswith("producer/")] == ["producer/new.txt"]

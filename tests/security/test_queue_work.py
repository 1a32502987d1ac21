"""Data written with a `queue:work` token never becomes a path, an address or a recipient on the service's machine.

Every attempt goes over HTTP, with the queue in a database and in ZooKeeper. External owners continue to work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx2
import pytest

import headgate
from headgate.core.inventory import Intake, InventoryFile, Message, MessageKind, Recording
from headgate.core.queue.model import Batch, IngestJob
from headgate.core.values.wire import plain
from headgate.gate import Gate
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.ingest.formats.ark import dataid, parse_object
from headgate.ingest.notices.messages import send_due
from headgate.ingest.profiles.profile import Profile, ProfileStorage, Sources
from headgate.ingest.steps.handlers import STEPS
from headgate.stores.zookeeper.queue.spellings import SPELLINGS
from tests.ingest.site import Site, ended, only_job, running, site
from tests.shared_servers import Servers
from tests.waiting import until

EVE = "eve@example.net"
LOOT, INTERNAL = "/loot", "/internal/admin"
CANARY = "ENVIRONMENT_CANARY"


@dataclass
class Target:
    """A repository behind a service, and a caller with only a `queue:work` token."""

    site: Site
    gate: Gate
    server: Server
    worker: httpx2.Client

    @property
    def loot(self) -> Path:
        """A folder that no profile names."""
        return self.site.folder / "loot"

    @property
    def planted(self) -> dict[str, Any]:
        """A snapshot that reads, writes and sends as the attacker wants."""
        evil = Profile(
            "demo", "demo", "library", notification=(EVE,), callback_url=self.site.origin.url(LOOT),
            callback_secret=f"env:{CANARY}", storage=ProfileStorage("ocfl", self.loot.as_uri()),
            sources=Sources(("file", "http"), ports=(self.site.origin.port,), roots=("/",), private_addresses=True),
        )  # fmt: skip
        return plain(evil.snapshot())  # type: ignore[no-any-return]

    def outside(self, **settings: str) -> Gate:
        """A worker on another machine: the address of the service and a token, and no profile."""
        token = self.gate.tokens.new("outside", ["queue:work", "lock:acquire", "read"]).token
        return headgate.connect(self.server.url, token=token, **settings)

    def submit(self, url: str = "", kind: str = "file") -> Batch:
        return self.gate.queue.submit("demo", "ann", url or self.site.origin.add("/page.txt", b"a page"), type=kind)

    def untouched(self) -> None:
        """Nothing was written, sent or mailed where the attacker wanted it."""
        assert not self.loot.exists()
        assert not [*self.site.origin.asked(LOOT), *self.site.origin.asked(INTERNAL)]
        assert not [each for each in self.site.box.mails if EVE in each.rcpt_tos]


@pytest.fixture(params=["sqlite", "zookeeper"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Target]:
    monkeypatch.setenv(CANARY, "whsec_" + "QUFB" * 8)
    with ExitStack() as stack:
        elsewhere = ""
        if request.param == "zookeeper":
            elsewhere = servers.fresh("zookeeper")
            stack.callback(servers.leave, "zookeeper", elsewhere)
        place = stack.enter_context(site(tmp_path, f"sqlite:///{tmp_path}/headgate.db", elsewhere))
        place.origin.add(LOOT, b"")
        place.origin.add(INTERNAL, b"")
        place.profile()
        gate = stack.enter_context(place.gate())
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        stack.callback(server.stop)
        token = gate.tokens.new("eve", ["queue:work"]).token
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as worker:
            yield Target(place, gate, server, worker)


def taken(target: Target, noun: str, state: str) -> dict[str, Any]:
    found = target.worker.post(f"/v1/{noun}/next", params={"state": state}, json={"lease": 600})
    assert found.status_code == 200, found.text
    return dict(found.json())


def proof(item: dict[str, Any]) -> dict[str, Any]:
    return {"token": item["token"], "state": item["state"], "worker": item["worker"]}


def test_a_batch_does_not_start_with_a_planted_snapshot(target: Target) -> None:
    secret = target.site.folder / "secret"
    for number in range(4):
        plant = {"batch": f"bid{number:010}", "profile": target.planted, "problem": ""}
        assert target.worker.put("/v1/inventory/intakes", json=plant).status_code in (404, 405)
        # A snapshot from before this rule, or from a restored file, does not count either.
        target.gate.inventory.keep_intake(Intake(f"bid{number:010}", target.planted))
    told = target.worker.put("/v1/inventory/intakes/bid0000000099/problem", json={"problem": "planted"})
    assert told.status_code == 404, "there is no such batch yet"
    stolen, stored = target.submit(secret.as_uri()), target.submit()
    with running(target.gate):
        assert ended(target.gate, stolen).state == "failed"
        assert ended(target.gate, stored).state == "completed"
    assert target.gate.inventory.objects()[0].owner == "library"
    target.untouched()


def test_targets_of_mails_and_callbacks_come_from_profiles_and_texts_from_the_service(target: Target) -> None:
    batch = target.submit()
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Message-ID"] = "ingest@example.org", EVE, "Pay", "<a@b>"
    mail.set_content("Pay here\n")
    raw = {"id": "m1", "kind": "mail", "item": batch.id, "body": mail.as_string()}
    post = {
        "id": "m2",
        "kind": "failure",
        "item": "jid0000000001",
        "body": "{}",
        "to": target.site.origin.url(INTERNAL),
    }
    for document in (raw, post, raw | {"notice": "report"}, {"item": batch.id, "notice": "else"}):
        assert target.worker.post("/v1/messages", json=document).status_code == 422
    assert target.worker.post("/v1/messages", json={"item": batch.id, "notice": "report"}).status_code == 409
    told = target.worker.post("/v1/inventory/recordings", json={"recording": plain(recording()), "messages": [post]})
    assert told.status_code == 422
    # Messages that were already in the outbox go nowhere else either.
    start = taken(target, "batches", "pending")
    made = {**proof(start), "position": 0, "jobs": [{"payload_url": "https://example.org/x"}]}
    assert target.worker.post(f"/v1/batches/{batch.id}/jobs", json=made).status_code == 200
    job = only_job(target.gate, batch)
    target.gate.inventory.post(Message("m1", MessageKind.MAIL, batch.id, mail.as_string(), batch=batch.id))
    target.gate.inventory.post(Message("m2", MessageKind.FAILURE, job.id, "{}", target.site.origin.url(INTERNAL)))
    send_due(target.gate.ingest)
    target.untouched()
    assert [each["id"] for each in target.site.callbacks()] == ["m2"], "it goes to the profile's own address"
    problem = target.gate.inventory.message("m1")
    assert problem is not None
    assert "no recipient in its profile" in problem.problem


def recording(**changes: Any) -> Recording:
    whole = Recording(
        "ark:/99999/fk4x", "library", "demo", 1, "ark_99999_fk4x.v1", datetime(2026, 11, 16, tzinfo=UTC),
        (InventoryFile("producer/a", 1, "a" * 64, 1),), job="jid0000000001", batch="bid0000000001", profile="demo",
        submitter="ann",
    )  # fmt: skip
    return replace(whole, **changes)


def test_the_folder_batch_and_payload_of_a_job_are_fixed(target: Target) -> None:
    upload = target.site.folder / "work" / "uploads" / "ab" / "private.txt"
    upload.parent.mkdir(parents=True)
    upload.write_text("somebody else's")
    batch = target.submit()
    start = taken(target, "batches", "pending")
    whole = {**proof(start), "position": 0}
    fixed: dict[str, Any] = {
        "working_dir": str(target.loot), "batch_id": "bid0000000009", "payload_url": "file:///etc/passwd",
        "profile_name": "../../evil", "submitter": "root", "payload_type": "file", "submission_mode": "update",
    }  # fmt: skip
    for name, value in fixed.items():
        row = {"payload_url": "https://example.org/x", "settings": {name: value}}
        told = target.worker.post(f"/v1/batches/{batch.id}/jobs", json={**whole, "jobs": [row]})
        assert (told.status_code, name in told.text) == (422, True)
    rows = [
        {"payload_url": upload.as_uri(), "payload_type": "file", "settings": {"uploaded": "yes"}},
        {"payload_url": "file:///etc/passwd", "payload_type": "file", "settings": {"uploaded": "yes"}},
        {"payload_url": target.site.origin.add("/x", b"x"), "payload_type": "file", "settings": {"filename": "../x"}},
    ]
    assert target.worker.post(f"/v1/batches/{batch.id}/jobs", json={**whole, "jobs": rows}).status_code == 200
    assert target.worker.post(f"/v1/batches/{batch.id}/start", json=proof(start)).status_code == 200
    job = taken(target, "ingest-jobs", "pending")
    for name, value in fixed.items():
        for send, path in ((target.worker.patch, ""), (target.worker.post, "/accept")):
            told = send(f"/v1/ingest-jobs/{job['id']}{path}", json={**proof(job), "configuration": {name: value}})
            assert (told.status_code, name in told.text) == (422, True)
    # In Merritt's spelling these words replace ours.
    more = {"configuration": {"profile": "evil", "filename": "x", "mine": 1}}
    changed = target.worker.patch(f"/v1/ingest-jobs/{job['id']}", json={**proof(job), **more}).json()
    assert (changed["configuration"]["profile_name"], changed["configuration"]["mine"]) == ("demo", 1)
    assert target.worker.delete(f"/v1/inventory/items/{batch.id}").status_code == 409
    target.worker.post(f"/v1/ingest-jobs/{job['id']}/give-back", json=proof(job))
    with running(target.gate):
        assert ended(target.gate, batch).state == "failed"
    messages = [each.message for each in target.gate.queue.jobs(batch=batch.id)]
    assert len([each for each in messages if "file" in each]) == 3
    assert target.gate.inventory.objects() == []
    target.untouched()


def test_an_external_owner_creates_jobs_and_records_and_the_service_does_the_rest(target: Target) -> None:
    """The inventory of another system records; the rest of the object is Headgate's."""
    with target.outside() as outside:
        url = target.site.origin.add("/page.txt", b"a page")
        batch = target.submit(url)
        mine = outside.queue.acquire_batch("pending")
        assert mine is not None
        outside.queue.create_jobs(mine, [{"payload_url": url, "payload_type": "file", "settings": {"erc_what": "P"}}])
        outside.queue.fire(mine, "start")
        rest = [name for name in STEPS if name != "job-recording"]
        with running(target.gate, only=rest):
            until(lambda: only_job(target.gate, batch).state == "recording", "it is stored")
            job = outside.queue.acquire_job("recording")
            assert job is not None
            good = recorded(target, job)
            for wrong in (
                {"owner": "museum"}, {"collection": "other"}, {"profile": "../../evil"}, {"dataid": "tidy.1"},
                {"ark": "ark:/99999/fk4other"}, {"membership": ("ark:/99999/fk4c",)}, {"batch": "bid0000000077"},
                {"submitter": "root"}, {"local": ("another",)}, {"version": 0},
            ):  # fmt: skip
                with pytest.raises(headgate.ObjectRefused):
                    outside.inventory.record(replace(good, **wrong))
            with pytest.raises(headgate.UnknownName):
                outside.inventory.record(replace(good, job="jid0000000099"))
            assert outside.inventory.record(good)
            assert not outside.inventory.record(good), "a repeat changes nothing"
            outside.queue.fire(job, "finish")
            assert ended(target.gate, batch).state == "completed"
            until(lambda: len(target.site.mails()) == 1, "it is reported")
    (told,) = target.site.callbacks()
    assert (told["type"], told["data"]["primary_id"]) == ("ingest.completed", good.ark)


def test_reading_a_batch_before_it_starts_does_not_hide_its_profile_later(target: Target) -> None:
    """A requested notice must not make it look as if it had no profile; only its owner may report a problem."""
    batch = target.submit()
    refused = target.worker.put(f"/v1/inventory/intakes/{batch.id}/problem", json={"problem": "none"})
    asked = target.worker.post("/v1/messages", json={"item": batch.id, "notice": "queued"})
    assert (refused.status_code, asked.status_code) == (409, 200)
    start = taken(target, "batches", "pending")
    found = target.gate.ingest.profile_of(batch.id)
    assert found is not None
    assert target.worker.post(f"/v1/batches/{batch.id}/give-back", json=proof(start)).status_code == 204
    target.site.profile(notification=["ben@example.org"])
    taken(target, "batches", "pending")
    found = target.gate.ingest.profile_of(batch.id)
    assert found is not None
    assert found.notification == ("ben@example.org",), "it starts with the profile of this moment"


def recorded(target: Target, job: IngestJob) -> Recording:
    """The record that the external system writes of a stored object."""
    ark = job.identifiers.primary
    (version,) = target.site.storage(target.gate).list_versions(ark)
    files = tuple(InventoryFile(each.name, each.size, each.digest, each.since) for each in version.files)
    return recording(
        ark=ark, dataid=dataid(parse_object(ark), 1), files=files, job=job.id, batch=job.batch,
        local=job.identifiers.local,
    )  # fmt: skip


def test_headgates_own_daemons_work_through_the_service_without_a_profile_of_their_own(target: Target) -> None:
    target.site.profile(confirmation_mail=True, callback_for_failed=True)
    settings = target.site.settings | {"coordination_url": "", "profiles_folder": str(target.site.folder / "none")}
    with target.outside(**settings) as outside, running(outside):
        good, bad = target.submit(), target.submit(target.site.origin.url("/missing"))
        unknown = target.gate.queue.submit("nobody", "ann", target.site.origin.url("/page.txt"), type="file")
        assert ended(target.gate, good).state == "completed"
        assert ended(target.gate, bad).state == "failed"
        assert "there is no profile nobody" in ended(target.gate, unknown).message
        until(lambda: len(target.site.mails()) == 4, "both are taken in and reported")
        until(lambda: len(target.site.callbacks()) == 2, "both callbacks")
    assert {each["type"] for each in target.site.callbacks()} == {"ingest.completed", "ingest.failed"}
    assert {str(each["To"]) for each in target.site.mails()} == {"ann@example.org"}


def test_in_merritts_spelling_an_owner_cannot_replace_our_keys() -> None:
    tree = SPELLINGS["mrt-zk"]("")
    fixed = {"profile_name": "demo", "payload_url": "https://example.org/x", "payload_type": "file", "batch_id": "bid1"}
    added = {"profile": "evil", "filename": "a.txt", "type": "container", "batchID": "bid2", "mine": 1}
    for given in ({**fixed, **added}, {**added, **fixed}):
        found = tree.gathered(tree.spread(given, {"configuration": {}}), "bid1", "jid1")
        assert {name: found[name] for name in fixed} == fixed
        assert (found["mine"], found["submission_mode"]) == (1, "add")

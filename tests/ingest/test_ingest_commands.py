"""The commands for profiles and stored objects, and the daemons as a user starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.ingest.storage.ocfl_layout import home_of
from tests.cli.commands import PROGRAM, Headgate, Result
from tests.ingest.site import Site, ended, running
from tests.waiting import until


class Commands(Headgate):
    """The command with the site's settings."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.url, site.folder)
        self.site = site

    def environment(self, **more: str) -> dict[str, str]:
        told = {f"HEADGATE_{name.upper()}": value for name, value in self.site.settings.items() if value}
        return super().environment(**told, **more)


@pytest.fixture
def command(there: Site) -> Iterator[Commands]:
    found = Commands(there)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
        process.wait()


def good(done: Result) -> Result:
    assert done.code == 0, done.err
    return done


def test_profiles_are_listed_and_every_mistake_is_reported(command: Commands, there: Site) -> None:
    there.profile("maps")
    there.profile("books", hold="we move")
    assert [each["name"] for each in good(command("ingest", "profiles", "--json")).json["items"]] == [
        "books",
        "maps",
    ]
    assert "we move" in good(command("ingest", "profiles")).out
    there.profile("maps", callback_failur="warn")
    there.profile("books", priority=100)
    told = command("ingest", "profiles")
    assert told.code != 0
    assert "did you mean 'callback_failure'" in told.err
    assert "priority = 100" in told.err


def test_a_file_is_submitted_stored_exported_and_verified(command: Commands, there: Site) -> None:
    there.profile()
    (there.folder / "my map.tif").write_bytes(b"a map" * 1000)
    words = (
        "ingest",
        "submit",
        "my map.tif",
        "--profile",
        "demo",
        "--submitter",
        "me",
        "--type",
        "file",
        "local_id=m1",
    )
    batch = good(command(*words, "--json")).json["id"]
    with there.gate() as gate, running(gate):
        assert ended(gate, gate.queue.batch(batch)).state == "completed"
    (found,) = good(command("ingest", "objects", "--local-id", "m1", "--json")).json["items"]
    ark = found["ark"]
    assert good(command("ingest", "object", ark, "--json")).json["versions"][0]["number"] == 1
    assert "v1" in good(command("ingest", "object", ark)).out
    good(command("ingest", "export", ark, "out"))
    assert (there.folder / "out/producer/my map.tif").read_bytes() == b"a map" * 1000
    assert "already exists" in command("ingest", "export", ark, "out").err
    assert "no problems found" in good(command("ingest", "verify")).out
    damage(there.folder / "storage")
    told = command("ingest", "verify", ark, "--json")
    assert (told.code, len(told.json["problems"])) == (1, 1)
    assert "my map.tif" in told.json["problems"][0]["path"]
    assert told.json["problems"][0]["code"] == "E092"
    assert told.json["warnings"] == []
    told = command("ingest", "verify", ark, "--warnings")
    assert f"{ark} inventory.json: W004 its digestAlgorithm is sha256" in told.out
    assert "my map.tif: E092 checksum mismatch: expected sha256 " in told.out
    assert told.out.endswith("1 problem in 1 object, " + told.out.rpartition(", ")[2])


def damage(root: Path) -> None:
    (path,) = root.rglob("my map.tif")
    path.write_bytes(b"a mop" + path.read_bytes()[5:])


def test_an_unreadable_object_does_not_prevent_verifying_the_rest(command: Commands, there: Site) -> None:
    there.profile()
    there.profile("maps")
    with there.gate() as gate, running(gate):
        for name, profile in (("a", "demo"), ("b", "maps"), ("c", "demo")):
            ended(gate, gate.queue.submit(profile, "ann", there.object_manifest(f"/{name}.checkm", {name: b"12345"})))
        (lost,) = gate.inventory.objects(collection="maps")
        home = there.folder / "storage" / home_of(lost.ark)
    for path in home.rglob("inventory.json"):
        path.write_bytes(b"{")
    told = command("ingest", "verify", "--json")
    assert (told.code, told.json["objects"]) == (1, 3), told.err
    assert [(each["object_id"], each["code"], each["path"]) for each in told.json["problems"]] == [
        (lost.ark, "E033", "inventory.json")
    ]
    there.profile("broken", priority=100)
    (_, problem) = command("ingest", "verify", "--json").json["problems"]
    assert "priority = 100" in problem["why"]


def test_stored_objects_missing_from_the_inventory_are_found(command: Commands, there: Site) -> None:
    there.profile()
    steps = ("batch-pending", "job-pending", "job-estimating", "job-provisioning", "job-downloading", "job-processing")
    with there.gate() as gate, running(gate, only=steps):
        gate.queue.submit("demo", "ann", there.object_manifest("/1.checkm", {"a.txt": b"a"}))
        until(lambda: gate.queue.counts()["ingest job"].get("recording") == 1, "it is stored")
    told = command("ingest", "verify", "--json")
    assert (told.code, [each["why"] for each in told.json["problems"]]) == (
        1,
        ["it is stored, but not in the inventory"],
    )


def test_the_daemon_runs_ingests_own_steps_and_cleans_up(command: Commands, there: Site) -> None:
    there.profile()
    url = there.object_manifest("/1.checkm", {"a.txt": b"a"})
    words = ("ingest", "submit", url, "--profile", "demo", "--submitter", "me")
    process = subprocess.Popen(
        [str(PROGRAM), "daemon", "--interval", "0.2"], cwd=there.folder, stderr=subprocess.PIPE,
        env={**os.environ, **command.environment(HEADGATE_RETENTION="1")},
    )  # fmt: skip
    command.started.append(process)
    batch = good(command(*words, "--json")).json["id"]
    with there.gate() as gate:
        until(lambda: len(there.callbacks()) == 1, "the callback arrives")
        folder = there.folder / "work" / batch
        until(lambda: not folder.exists(), "the working folder is removed")
        assert len(gate.inventory.objects()) == 1
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    events = [json.loads(line) for line in said.decode().splitlines()]
    assert [each for each in events if each["event"].endswith((".error", ".crash", ".failed"))] == []


def test_a_consumer_without_profiles_says_what_is_missing(command: Commands) -> None:
    told = command("daemon", "job-downloading")
    assert told.code == 2
    assert "profiles_folder" in told.err


def test_a_batch_shows_how_far_its_jobs_are(command: Commands, there: Site) -> None:
    there.profile()
    steps = ("batch-pending", "job-pending", "job-estimating", "job-provisioning", "job-downloading")
    with there.gate() as gate, running(gate, only=steps):
        batch = gate.queue.submit("demo", "ann", there.object_manifest("/1.checkm", {"a.txt": b"12", "b.json": b"34"}))
        until(lambda: gate.queue.counts()["ingest job"].get("processing") == 1, "it is downloaded")
    (job,) = good(command("ingest", "batch", batch.id, "--json")).json["under_way"]
    assert (job["state"], job["bytes"], job["of"]) == ("processing", 4, 4)
    assert f"{'█' * 24}  processing    4 of 4 bytes" in good(command("ingest", "batch", batch.id)).out

"""Services that ingest needs fail. Each job reports the reason, nothing is partly stored, and a resume continues."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headgate.core.queue.model import Batch, IngestJob
from headgate.gate import Gate
from headgate.ingest.objects.reading import verify_object
from tests.ingest import origin as acts
from tests.ingest.ezid_server import PASSWORD, USER
from tests.ingest.origin import Act, Handler
from tests.ingest.site import Site, ended, only_job, running
from tests.waiting import until

LARGE = os.urandom(3_000_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("only root may mount a small disk")
        pytest.skip("only root may mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)


def without_length() -> Act:
    """Its size is unknown until it has arrived."""

    def act(handler: Handler) -> None:
        handler.head(200, None)
        if handler.command == "GET":
            handler.wfile.write(LARGE)
        handler.close_connection = True

    return act


@contextmanager
def failed(gate: Gate, batch: Batch, after: str) -> Iterator[IngestJob]:
    """A batch fails at that step; the block repairs the cause, and a resume completes it."""
    job = only_job(gate, ended(gate, batch))
    assert (job.state, job.last_successful) == ("failed", after), job.message
    assert gate.inventory.objects() == []
    yield job
    gate.queue.resume(job.id)
    until(lambda: gate.queue.job(job.id).state in ("completed", "failed"), "the resumed job ends")
    assert gate.queue.job(job.id).state == "completed", gate.queue.job(job.id).message
    (found,) = gate.inventory.objects()
    assert verify_object(gate.ingest, "me", found.ark) == []


def test_a_full_work_folder_fails_the_job_until_a_resume(there: Site, small_disk: Path) -> None:
    there.profile()
    (there.folder / "work").symlink_to(small_disk)
    there.origin.always["/large.bin"] = without_length()
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", there.origin.url("/large.bin"), type="file")
        with failed(gate, batch, "provisioning") as job:
            assert "No space left on device" in job.message
            assert job.configuration["failed_files"][0]["name"] == "large.bin"
            enlarge(small_disk)


def test_a_work_folder_that_is_full_from_the_start_makes_the_job_wait(there: Site, small_disk: Path) -> None:
    """A job that fails while pending cannot be resumed: it waits."""
    there.profile()
    (there.folder / "work").symlink_to(small_disk)
    with (small_disk / "filler").open("wb") as filler, suppress(OSError):
        filler.write(bytes(2_000_000))
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", there.object_manifest("/1.checkm", {"a.txt": b"a"}))
        until(lambda: any("No space" in each.message for each in gate.queue.jobs("pending")), "it says why it waits")
        (small_disk / "filler").unlink()
        assert ended(gate, batch).state == "completed"


def test_a_full_storage_fails_the_job_until_a_resume(there: Site, small_disk: Path) -> None:
    there.profile(storage__url=(small_disk / "storage").as_uri())
    url = there.origin.add("/large.bin", LARGE)
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", url, type="file")
        with failed(gate, batch, "downloading") as job:
            assert "No space left on device" in job.message
            assert list(there.storage(gate).objects()) == []
            enlarge(small_disk)


def test_an_unavailable_bucket_fails_the_job_until_a_resume(
    there: Site, s3_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.profile(storage__kind="s3", storage__url=f"s3://shelf/{there.folder.name}")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    url = there.origin.add("/page.txt", b"a page")
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", url, type="file")
        with failed(gate, batch, "downloading") as job:
            assert "storage bucket" in job.message
            monkeypatch.setenv("AWS_ENDPOINT", s3_environment)


def test_a_refusal_by_ezid_fails_the_job_until_a_resume(there: Site) -> None:
    secret = there.folder / "password"
    secret.write_text("wrong")
    there.profile(
        minter__kind="register", minter__ezid_url=there.ezid.url, minter__ezid_user=USER,
        minter__ezid_password=f"file:{secret}",
    )  # fmt: skip
    url = there.origin.add("/page.txt", b"a page")
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", url, type="file")
        with failed(gate, batch, "downloading") as job:
            assert "unauthorized" in job.message
            assert there.ezid.known == {}
            secret.write_text(PASSWORD)
        assert list(there.ezid.known) == [job.identifiers.primary], "the name that it had is kept"


def test_a_file_that_changes_between_two_attempts_is_downloaded_whole(there: Site) -> None:
    there.profile(limits__tries=3)
    old, new = b"old " * 50_000, b"new " * 50_000

    def change(handler: Handler) -> None:
        acts.cut_at(90_000)(handler)
        there.origin.add("/page.txt", new)

    url = there.origin.add("/page.txt", old, acts.status(200), change)
    with there.gate() as gate, running(gate):
        assert ended(gate, gate.queue.submit("demo", "ann", url, type="file")).state == "completed"
        (found,) = gate.inventory.objects()
        with there.storage(gate).read(found.ark, "producer/page.txt") as source:
            assert source.read() == new

"""Ingest processes that die: at random, and between any two writes of storing and recording.

Whatever happened: no wrong byte, no object without inventory or the reverse, no ARK twice; by their ids, one report
and one callback each.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.queue.model import Batch
from headgate.gate import Gate
from tests.cli.commands import PROGRAM
from tests.conftest import fresh_store
from tests.faults.processes import Zygote
from tests.ingest.dying import die
from tests.ingest.ezid_server import PASSWORD, USER
from tests.ingest.site import Site, ended, running, site
from tests.ingest.validator import validate
from tests.shared_servers import Servers
from tests.waiting import until

FULL = os.environ.get("HEADGATE_TORTURE") == "full"
JOBS, FILES, KILLS = (200, 5, 40) if FULL else (8, 2, 6)
POINTS = 20 if FULL else 6
STEPS_BEFORE = ("batch-pending", "job-pending", "job-estimating", "job-provisioning", "job-downloading")
STORES = ["sqlite", "postgresql+zookeeper"]


@pytest.fixture(params=STORES)
def here(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Site]:
    ledger, _, coordination = str(request.param).partition("+")
    url = fresh_store(ledger, servers, tmp_path)
    other = fresh_store(coordination, servers, tmp_path) if coordination else iter([""])
    with site(tmp_path, next(url), next(other)) as found:
        (tmp_path / "password").write_text(PASSWORD)
        found.usual = {
            "minter__kind": "register", "minter__ezid_url": found.ezid.url, "minter__ezid_user": USER,
            "minter__ezid_password": f"file:{tmp_path / 'password'}", "limits__tries": 4,
        }  # fmt: skip
        found.max_crashes = "0"  # Any number of kills may hit the same job.
        yield found
    for each in (url, other):
        next(each, None)


def test_processes_killed_at_random_leave_no_damage(here: Site) -> None:
    chance = random.Random()
    with here.gate() as gate:
        batch = submit(here, gate, JOBS)
        processes = [start_daemon(here) for _ in range(2)]
        try:
            for _ in range(KILLS):
                # Some job must have moved since the last kill, so that every process got to its work.
                await_progress(gate, batch, chance.uniform(0.0, 1.0))
                victim = chance.randrange(len(processes))
                kill(processes[victim])
                processes[victim] = start_daemon(here)
            assert [each.poll() for each in processes] == [None, None], "a daemon ended by itself"
        finally:
            for process in processes:
                process.kill()
                process.wait()
        with running(gate, lease=5.0):
            assert_right(here, gate, ended(gate, batch, 600), JOBS)


def test_a_death_between_any_two_writes_of_storing_and_recording_leaves_no_damage(
    here: Site, processes: Zygote
) -> None:
    with here.gate() as gate:
        with running(gate, only=STEPS_BEFORE):
            batch = submit(here, gate, POINTS + 2)
            until(lambda: gate.queue.counts()["ingest job"].get("processing") == POINTS + 2, "all are downloaded", 120)
        first, second, *others = sorted(job.id for job in gate.queue.jobs(batch=batch.id))
        die(processes, here, first, 0)  # The first one makes the storage root too.
        writes = int(die(processes, here, second, 0))
        assert writes > 20
        # Lease renewals count as writes too: the last few writes may not be reached.
        points = [1 + number * (writes - 5) // (POINTS - 1) for number in range(POINTS)]
        assert [die(processes, here, job, point) for job, point in zip(others, points, strict=True)] == [
            "killed"
        ] * POINTS
        with running(gate, lease=5.0):
            assert_right(here, gate, ended(gate, batch, 120), POINTS + 2)


def submit(here: Site, gate: Gate, jobs: int) -> Batch:
    here.profile()
    urls = {f"obj-{number}": here.object_manifest(f"/{number}.checkm", content(number)) for number in range(jobs)}
    url = here.batch_manifest("/all.checkm", urls)
    return gate.queue.submit("demo", "ann", url, type="batch-manifest")


def content(number: int) -> dict[str, bytes]:
    return {f"file-{each}.bin": hashlib.sha256(f"{number} {each}".encode()).digest() * 500 for each in range(FILES)}


def start_daemon(here: Site) -> subprocess.Popen[bytes]:
    told = {f"HEADGATE_{name.upper()}": value for name, value in {**here.settings, "round_pause": "0.2"}.items()}
    environment = {**os.environ, **told, "HEADGATE_URL": here.url}
    words = [str(PROGRAM), "daemon", "-q", "--lease", "4", "--workers", "2", "--interval", "0.5"]
    return subprocess.Popen(words, env=environment, cwd=here.folder, stderr=subprocess.DEVNULL)


def kill(process: subprocess.Popen[bytes]) -> None:
    assert process.poll() is None, f"the daemon ended by itself: {process.returncode}"
    process.send_signal(signal.SIGKILL)
    process.wait()


def await_progress(gate: Gate, batch: Batch, more: float) -> None:
    """Until some job has moved, and a moment longer at random; at the end no job is left to move."""

    def picture() -> object:
        found = gate.queue.batch(batch.id)
        return found.state, gate.queue.counts()

    before, deadline = picture(), time.monotonic() + 20
    while picture() == before and gate.queue.batch(batch.id).state in ("pending", "processing"):
        assert time.monotonic() < deadline, f"nothing moves: {before}"
        time.sleep(0.02)
    time.sleep(more)


def assert_right(here: Site, gate: Gate, batch: Batch, jobs: int) -> None:
    failed = [(job.id, job.message) for job in gate.queue.jobs("failed", batch=batch.id)]
    assert (batch.state, failed) == ("completed", [])
    objects = gate.inventory.objects()
    assert sorted(each.local for each in objects) == sorted((f"obj-{number}",) for number in range(jobs))
    assert {each.version for each in objects} == {1}
    storage = here.storage(gate)
    assert sorted(storage.objects()) == sorted(each.ark for each in objects)
    for each in objects:
        number = int(each.local[0].partition("-")[2])
        assert [len(storage.list_versions(each.ark)), storage.verify(each.ark)] == [1, []]
        listed = {file.name: file.digest for file in gate.inventory.files(each.ark, 1)}
        for name, data in content(number).items():
            assert listed[f"producer/{name}"] == hashlib.sha256(data).hexdigest()
    validate(here.folder / "storage")
    assert set(here.ezid.known) == {each.ark for each in objects}
    assert {each["data"]["primary_id"] for each in here.callbacks()} == {each.ark for each in objects}
    assert len({each["id"] for each in here.callbacks()}) == jobs
    until(here.mails, "the report arrives")
    assert len({str(each["Message-ID"]) for each in here.mails()}) == 1

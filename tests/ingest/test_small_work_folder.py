"""A work folder smaller than a batch: completed jobs make room for waiting ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.core.queue.model import Item
from headgate.daemon_wiring import daemon_rounds
from headgate.gate import Gate
from headgate.ingest.steps.handlers import BoundStep
from tests.ingest.site import Site, ended, only_job, running, site
from tests.shared_servers import Servers

JOBS = 6
FILE_SIZE = 100_000
#: Bytes of the small disk: two jobs fit, three do not.
DISK = 250_000


class SmallDisk:
    """A disk of that size, of which the files below a folder use their part."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.peak = 0

    def usage(self, _path: object) -> SimpleNamespace:
        used = sum(map(_size, self._folder.rglob("producer/*")))
        self.peak = max(self.peak, used)
        return SimpleNamespace(total=DISK, used=used, free=DISK - used)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    """An unprivileged user cannot mount a small disk, so the one question about its free space is answered here."""
    found = SmallDisk(tmp_path / "work")
    monkeypatch.setattr(shutil, "disk_usage", found.usage)
    return found


@pytest.fixture(params=["sqlite", "zookeeper"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    url, elsewhere = f"sqlite:///{tmp_path / 'headgate.db'}", ""
    servers: Servers | None = None
    if request.param == "zookeeper":
        servers = request.getfixturevalue("servers")
        elsewhere = servers.fresh("zookeeper")
    with site(tmp_path, url, elsewhere) as found:
        yield found
    if servers:
        servers.leave("zookeeper", elsewhere)


def clean(gate: Gate) -> None:
    """A round of the cleaner; batches are kept for the usual retention."""
    (rounds,) = daemon_rounds(gate, ["cleaner"], 1.0)
    rounds.act()


def test_a_batch_larger_than_the_work_folder_completes(there: Site, disk: SmallDisk) -> None:
    there.profile(callback_url="")
    urls = {f"n{i}": there.origin.add(f"/{i}.bin", bytes(FILE_SIZE)) for i in range(JOBS)}
    payload = there.batch_manifest("/all.checkm", urls, "mrt-single-file-batch-manifest")
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", payload, type="single-file-batch-manifest"))
        assert (batch.state, batch.jobs.completed) == ("completed", JOBS)
        assert disk.peak <= DISK
        clean(gate)
        assert {job.state for job in gate.queue.jobs(batch=batch.id)} == {"cleaned"}
        assert gate.queue.batch(batch.id).jobs.completed == JOBS
        assert gate.faults() == []


def test_the_cleaner_removes_what_a_consumer_left(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the consumer died after its job completed and before its folder was removed."""

    def never_reached(_step: BoundStep, _item: Item) -> None:
        """Nothing is removed."""

    there.profile(callback_url="")
    monkeypatch.setattr(BoundStep, "finished", never_reached)
    url = there.origin.add("/page.txt", b"a page")
    with there.gate() as gate:
        with running(gate):
            batch = gate.queue.submit("demo", "ann", url, type="file")
            job = only_job(gate, ended(gate, batch))
        folder = there.folder / "work" / batch.id / job.id
        assert (job.state, folder.is_dir()) == ("completed", True)
        clean(gate)
        assert (gate.queue.job(job.id).state, folder.exists()) == ("cleaned", False)
        assert gate.queue.batch(batch.id).state == "completed"
        assert gate.faults() == []

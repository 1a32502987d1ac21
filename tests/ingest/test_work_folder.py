"""Files of jobs in the work folder are removed when they are no longer needed, and not before."""

from __future__ import annotations

import pytest

import headgate
from headgate.core.errors import BadValue, ServiceUnavailable
from headgate.daemon_wiring import daemon_rounds
from headgate.gate import Gate
from headgate.service.queue.work_folder import stage_upload
from tests.ingest.site import Site, ended, only_job, running


def sweep(gate: Gate) -> int:
    """A round of the cleaner."""
    (rounds,) = daemon_rounds(gate, ["cleaner"], 1.0)
    return rounds.act()


def patient(there: Site, seconds: int) -> Gate:
    return headgate.connect(there.url, **there.settings, retention=str(seconds))


def test_folders_of_finished_jobs_are_removed_and_others_kept(there: Site) -> None:
    there.profile()
    work = there.folder / "work"
    with there.gate() as gate, running(gate):
        done = ended(gate, gate.queue.submit("demo", "ann", there.object_manifest("/1.checkm", {"a": b"a"})))
        there.origin.add("/2.checkm", b"#%eof")
        failed = ended(gate, gate.queue.submit("demo", "ann", there.origin.url("/2.checkm")))
        (work / failed.id / only_job(gate, failed).id).mkdir(parents=True)
        assert list((work / done.id).iterdir()) == [], "a job's folder goes when the job completes"
        there.origin.add("/3.checkm", b"no manifest")
        wrong = ended(gate, gate.queue.submit("demo", "ann", there.origin.url("/3.checkm"), type="batch-manifest"))
        gate.queue.delete(wrong.id, reason="it is no manifest")
    with patient(there, 3600) as gate:
        sweep(gate)
        assert (work / done.id).is_dir()
        assert only_job(gate, done).state == "cleaned"
        assert gate.faults() == []
        assert gate.inventory.intake(wrong.id) is None
    with patient(there, 0) as gate:
        sweep(gate)
        assert gate.inventory.intake(done.id) is None
        assert gate.inventory.intake(failed.id) is not None
    assert [each.name for each in work.iterdir() if each.is_dir()] == [failed.id]


@pytest.mark.parametrize(("mark", "swept"), [("another", False), ("", True)], ids=["another's", "half written"])
def test_a_folder_of_another_store_is_left_alone(there: Site, mark: str, *, swept: bool) -> None:
    left = there.folder / "work/bid0000000009"
    left.mkdir(parents=True)
    (there.folder / "work/.store").write_text(mark)
    with patient(there, 0) as gate:
        sweep(gate)
    assert left.exists() is not swept


def test_an_unreadable_disk_ends_a_round_and_not_the_daemon(there: Site) -> None:
    (there.folder / "work/.store").mkdir(parents=True)
    with patient(there, 0) as gate, pytest.raises(ServiceUnavailable, match="work folder"):
        sweep(gate)


def test_a_file_that_cannot_be_submitted_completely_leaves_nothing(there: Site) -> None:
    (there.folder / "endless").symlink_to("/dev/full")
    with there.gate() as gate, pytest.raises(BadValue, match="is neither an existing file"):
        gate.hand_in(there.folder / "endless")
    with pytest.raises(OSError, match="Is a directory"):
        stage_upload(there.folder / "work", there.folder)
    assert list((there.folder / "work/uploads").iterdir()) == []

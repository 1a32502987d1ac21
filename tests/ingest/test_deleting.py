"""A stored object is deleted: with a reason, and again after a kill."""

from __future__ import annotations

import pytest

from headgate.core.errors import LockRefused, UnknownName
from headgate.gate import Gate
from headgate.ingest.objects.deleting import delete_object
from headgate.ingest.objects.reading import unrecorded, verify_object
from headgate.ingest.steps.storing import object_resource
from tests.faults.processes import Zygote
from tests.ingest.dying import die
from tests.ingest.site import Site, ended, only_job, running
from tests.ingest.test_ingest_commands import Commands
from tests.waiting import until

POINTS = 5


def store(there: Site, gate: Gate, count: int) -> list[str]:
    """Create objects of two versions each. Returns their ARKs."""
    with running(gate):
        for _ in range(2):
            urls = {f"obj-{n}": there.object_manifest(f"/{n}.checkm", {"a.txt": b"a" * n}) for n in range(count)}
            url = there.batch_manifest("/all.checkm", urls)
            assert ended(gate, gate.queue.submit("demo", "ann", url, type="batch-manifest")).state == "completed"
    return [each.ark for each in gate.inventory.objects()]


def test_an_object_is_deleted_only_when_nobody_uses_it(there: Site) -> None:
    there.profile()
    with there.gate() as gate:
        ark, other = store(there, gate, 2)
        with pytest.raises(Exception, match="reason"):
            delete_object(gate.ingest, "me", ark, reason="")
        with gate.locks.held("reader", object_resource(ark), "shared"), pytest.raises(LockRefused, match="reader"):
            delete_object(gate.ingest, "me", ark, reason="withdrawn")
        gate.ledger.define_dataset("counted")
        gate.ledger.define_job("count", inputs=["demo"], outputs=["counted"])
        claim = gate.ledger.find_next("count")
        assert claim is not None
        busy = ark if ark.rpartition("/")[2] in claim.dataid else other
        with pytest.raises(LockRefused, match="count"):
            delete_object(gate.ingest, "me", busy, reason="withdrawn")
        gate.ledger.success(claim)
        delete_object(gate.ingest, "me", busy, reason="withdrawn")
        assert [each.ark for each in gate.inventory.objects()] == [({ark, other} - {busy}).pop()]
        assert [row.status for row in gate.ledger.status(dataset="counted")] == ["READY"]
        assert list(gate.locks.list()) == []
        with pytest.raises(UnknownName):
            delete_object(gate.ingest, "me", busy, reason="withdrawn")
        assert list(there.storage(gate).objects()) == [each.ark for each in gate.inventory.objects()]


def test_a_job_whose_version_was_deleted_before_it_was_recorded_fails(there: Site) -> None:
    there.profile()
    with there.gate() as gate:
        (ark,) = store(there, gate, 1)
        steps = ("batch-pending", "job-pending", "job-estimating", "job-provisioning", "job-downloading")
        url = there.object_manifest("/again.checkm", {"a.txt": b"again"})
        with running(gate, only=(*steps, "job-processing")):
            batch = gate.queue.submit("demo", "ann", url, local_id="obj-0")
            until(lambda: gate.queue.counts()["ingest job"].get("recording"), "it is stored")
        delete_object(gate.ingest, "me", ark, reason="withdrawn")
        with running(gate):
            assert ended(gate, batch).state == "failed"
        assert "no stored version of it" in only_job(gate, batch).message
        assert (gate.inventory.objects(), list(there.storage(gate).objects())) == ([], [])


def test_a_death_while_deleting_leaves_an_object_that_can_be_deleted_again(there: Site, processes: Zygote) -> None:
    there.profile()
    with there.gate() as gate:
        first, *others = store(there, gate, POINTS + 1)
        writes = int(die(processes, there, first, 0))
        points = [2 + number * (writes - 4) // (POINTS - 1) for number in range(POINTS)]
        for ark, point in zip(others, points, strict=True):
            assert die(processes, there, ark, point) == "killed"
            for lock in gate.locks.list():
                gate.locks.break_lock(lock.id, reason="its holder is dead")
            problems = verify_object(gate.ingest, "me", ark) if gate.inventory.objects(ark=ark) else []
            assert len(problems) <= 1, "it is whole, or gone"
            if gate.inventory.objects(ark=ark):
                delete_object(gate.ingest, "me", ark, reason="withdrawn")
        assert (gate.inventory.objects(), list(there.storage(gate).objects())) == ([], [])
        assert unrecorded(gate.ingest) == []
        assert gate.ledger.status(dataset="demo") == []


def test_the_command_deletes_with_a_reason(there: Site) -> None:
    there.profile()
    with there.gate() as gate:
        (ark,) = store(there, gate, 1)
    command = Commands(there)
    assert command("ingest", "delete", ark).code == 2
    assert command("ingest", "delete", ark, "jid1", "--reason", "x").code == 2
    shown = command("ingest", "delete", ark, "--reason", "withdrawn", "--dry-run", "--json").json
    assert [each["ark"] for each in shown["objects"]] == [ark]
    done = command("ingest", "delete", ark, "--reason", "withdrawn")
    assert (done.code, done.out) == (0, f"{ark}  deleted\n"), done.err
    assert command("ingest", "objects", "--json").json["items"] == []
    assert "withdrawn" in command("history", "--dataid", f"{ark.replace(':/', '_').replace('/', '_')}.v2").out

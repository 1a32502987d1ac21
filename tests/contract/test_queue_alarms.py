"""Daemons that register as running, and what is stuck: on every store."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from headgate import Gate, Refused, UnknownName
from headgate.core.alarms import Alarm
from headgate.core.daemons import Daemon
from headgate.core.errors import Invalid, QueueRefused
from headgate.core.queue.model import is_batch
from headgate.service.leases.clock import wall
from headgate.service.overview import alarms as gathering
from tests.contract.queue_steps import PROFILE, WHY, batch_in, batch_with_jobs, job_in, new_batch, rows_for, taken_batch
from tests.waiting import until

EVERY = ("batch-pending", "batch-reporting", "job-pending", "job-estimating", "batch-watcher", "messenger", "cleaner")


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """The folder of profiles, with the one that the steps use."""
    folder = tmp_path / "headgate-profiles"
    folder.mkdir()
    _profile(folder, PROFILE)
    return folder


def _profile(folder: Path, name: str, *lines: str) -> None:
    text = "\n".join((f'collection = "{name}"', 'owner = "ark:/99999/owner"', *lines))
    (folder / f"{name}.toml").write_text(text)


def _kinds(alarms: Sequence[Alarm]) -> list[tuple[str, str]]:
    return [(alarm.kind, alarm.item) for alarm in alarms]


def test_a_daemon_signs_on_renews_and_signs_off(gate: Gate) -> None:
    presence = gate.queue.presence
    presence.sign_on(Daemon("a b..", "host pid 7", ("job-pending", "reaper"), 60))
    presence.sign_on(Daemon("dead", "host pid 8", ("job-notify",), 0.05))
    presence.sign_on(Daemon("a b..", "host pid 7", ("job-pending",), 90))
    until(lambda: len(presence.living()) == 1, "the other one's lease has run out")
    (found,) = presence.living()
    assert found.id.endswith("a b..")
    assert (found.worker, found.steps, found.lease) == ("host pid 7", ("job-pending",), 90)
    assert found.since
    assert found.left
    assert 0 < found.left <= 90
    presence.sign_off("a b..")
    presence.sign_off("a b..")
    assert presence.living() == []
    with pytest.raises(Invalid, match="lease"):
        presence.sign_on(Daemon("x", "y", ("z",), 0))


def test_an_item_that_no_consumer_can_take_raises_an_alarm(gate: Gate, profiles: Path) -> None:
    queue = gate.queue
    assert gate.alarms() == []
    batch = new_batch(queue)
    (alarm,) = gate.alarms()
    assert (alarm.kind, alarm.item, alarm.fix) == ("no-consumer", "batch-pending", ("up",))
    assert batch.id in alarm.what
    assert alarm.command == "headgate up"
    assert _kinds(gate.alarms_of(batch)) == [("no-consumer", "batch-pending")]
    queue.presence.sign_on(Daemon("d", "d", ("job-pending",), 60))
    assert [alarm.fix for alarm in gate.alarms()] == [("daemon", "batch-pending")]
    queue.presence.sign_on(Daemon("d", "d", ("batch-pending",), 60))
    assert gate.alarms() == gate.alarms_of(batch) == []
    queue.presence.sign_off("d")
    taken = taken_batch(queue)
    assert gate.alarms() == [], "somebody works on it"
    assert queue.create_jobs(taken, rows_for(2)) == 2
    new_batch(queue)
    assert _kinds(gate.alarms()) == [("no-consumer", "job-pending")], "somebody works on batches in that state"
    assert gate.alarms()[0].what.startswith("2 ingest jobs wait (jid"), "for how long is said after a minute"
    waiting = queue.first_free("batch", "pending")
    assert waiting
    assert waiting.id > taken.id
    queue.presence.sign_on(Daemon("w", "w", ("batch-watcher",), 60))
    assert [alarm.fix for alarm in gate.alarms()] == [("daemon",)], "nobody runs consumers: one command runs all"
    first = queue.first_free("ingest job", "pending")
    assert first
    assert not is_batch(first.id)


def test_one_cause_is_one_alarm(gate: Gate, profiles: Path) -> None:
    batch_with_jobs(gate.queue, 2)
    new_batch(gate.queue)
    (alarm,) = gate.alarms()
    assert (alarm.kind, alarm.item, alarm.fix) == ("no-consumer", "consumers", ("up",))
    assert alarm.what == "3 items wait (1 batch pending, 2 ingest jobs pending), and no running daemon takes them"
    gate.queue.presence.sign_on(Daemon("d", "d", ("job-notify",), 60))
    assert [alarm.item for alarm in gate.alarms()] == ["batch-pending", "job-pending"]


def test_a_batch_that_nobody_has_to_take_is_not_stuck(gate: Gate) -> None:
    """Neither one with unfinished jobs, nor one that has ended; its profile no longer matters either."""
    failed, processing = batch_in(gate.queue, "failed"), batch_in(gate.queue, "processing")
    assert gate.alarms_of(failed) == gate.alarms_of(processing) == []


def test_a_worker_that_asks_for_work_counts_as_a_consumer(gate: Gate, profiles: Path) -> None:
    assert gate.queue.acquire_job("recording", worker="inventory service") is None
    assert gate.queue.acquire_batch("pending", worker="splitter") is None
    new_batch(gate.queue)
    assert gate.alarms() == []
    found = {daemon.worker: daemon.steps for daemon in gate.queue.presence.living()}
    assert found == {"inventory service": ("job-recording",), "splitter": ("batch-pending",)}


def test_a_batch_with_an_unknown_profile_is_stuck(gate: Gate, profiles: Path) -> None:
    gate.queue.presence.sign_on(Daemon("d", "d", EVERY, 60))
    batch = gate.queue.submit("demo_contnet", "ann", "file:///x")
    (alarm,) = gate.alarms()
    assert (alarm.kind, alarm.item, alarm.fix) == ("unknown-profile", batch.id, ("ingest", "profiles"))
    assert f"there is no profile demo_contnet; did you mean '{PROFILE}'?" in alarm.what
    assert gate.alarms_of(batch) == [alarm]
    (profiles / "demo_contnet.toml").write_text("nonsense = 1")
    assert "nonsense" in gate.alarms()[0].what
    _profile(profiles, "demo_contnet")
    assert gate.alarms() == []


def test_work_for_a_daemon_that_does_not_run_raises_an_alarm(gate: Gate, profiles: Path) -> None:
    job = job_in(gate.queue, "failed")
    consumers = tuple(step for step in EVERY if step != "batch-watcher")
    gate.queue.presence.sign_on(Daemon("d", "d", consumers, 60))
    (alarm,) = gate.alarms()
    assert (alarm.kind, alarm.item, alarm.fix) == ("no-daemon", "batch-watcher", ("daemon", "batch-watcher"))
    assert alarm.what == "1 batch whose jobs have ended waits to be reported, and no batch-watcher is running"
    assert gate.queue.batch(job.batch).state == "processing"
    gate.queue.presence.sign_on(Daemon("w", "w", ("batch-watcher",), 60))
    assert gate.alarms() == []


def test_an_item_that_waits_far_longer_than_usual_raises_an_alarm(
    gate: Gate, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = gate.queue
    job_in(queue, "estimating")
    batch_with_jobs(queue, 1)
    queue.presence.sign_on(Daemon("d", "d", EVERY, 60))
    assert gate.alarms() == []
    monkeypatch.setattr(gathering, "wall", lambda: wall() + timedelta(minutes=16))
    (alarm,) = gate.alarms()
    assert alarm.kind == "long-wait", "jobs usually stay pending for less than a second"
    assert "far longer than usual" in alarm.what
    assert alarm.fix == ("ingest", "job", alarm.item)
    monkeypatch.setattr(gathering, "wall", lambda: wall() + timedelta(minutes=61))
    assert len(gate.alarms()) == 2, "nobody knows how long jobs usually stay estimating"
    queue.set_hold(reason="maintenance")
    assert gate.alarms() == [], "a pause has its own reason"


def test_holds_in_profiles_are_holds(gate: Gate, profiles: Path) -> None:
    _profile(profiles, "attic", 'hold = "being listed"')
    queue = gate.queue
    (hold,) = queue.holds()
    assert (hold.profile, hold.reason, hold.who) == ("attic", "being listed", "its profile")
    assert hold.file.endswith("attic.toml")
    assert hold.since
    with pytest.raises(Refused, match=r"on hold, set by its profile: being listed. Remove `hold` from .*attic.toml"):
        queue.clear_hold("attic")
    held = queue.submit("attic", "ann", "file:///x")
    queue.fire(taken_batch(queue), "hold", "held")
    with pytest.raises(QueueRefused, match=r"attic\.toml"):
        queue.release(held.id, reason=WHY)
    queue.set_hold("attic", reason="mine too", by="ann")
    assert [(each.profile, each.who) for each in queue.holds()] == [("attic", "ann"), ("attic", "its profile")]
    assert queue.clear_hold("attic")
    _profile(profiles, "attic")
    assert queue.holds() == []
    assert queue.release(held.id, reason=WHY).state == "pending"


def test_a_hold_of_an_unknown_profile_is_refused(gate: Gate, profiles: Path) -> None:
    with pytest.raises(UnknownName, match=f"Did you mean '{PROFILE}'"):
        gate.queue.set_hold(PROFILE + "z", reason=WHY, by="ann")
    assert gate.queue.holds() == []
    assert gate.queue.set_hold(PROFILE, reason=WHY, by="ann").profile == PROFILE
    new_batch(gate.queue, "elsewhere")
    assert gate.queue.set_hold("elsewhere", reason=WHY, by="ann").profile == "elsewhere"

"""Chunks that no worker claims: when that is an alarm, and when it is not."""

from datetime import timedelta
from pathlib import Path

import pytest

from headgate import connect
from headgate.core.alarms import AlarmFacts, Unclaimed, find_alarms
from headgate.service.leases.clock import wall
from headgate.service.overview import alarms as gathering


def test_chunks_that_nobody_claims_for_a_day_are_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "LEDGER_SECONDS", 0.0)
    with connect(f"sqlite:///{tmp_path}/store.db") as gate:
        gate.ledger.define_dataset("raw", uri="file:///raw")
        gate.ledger.define_job("clean", inputs=["raw"], outputs=[])
        gate.ledger.publish("raw", ["1", "2"])
        assert gate.alarms() == []
        monkeypatch.setattr(gathering, "wall", lambda: wall() + timedelta(hours=24))
        assert gate.alarms() == [], "a pipeline that runs once a day is on time"
        monkeypatch.setattr(gathering, "wall", lambda: wall() + timedelta(hours=26))
        (alarm,) = gate.alarms()
        assert (alarm.kind, alarm.item) == ("unclaimed", "clean")
        assert alarm.what.startswith(
            "2 chunks wait for job clean, which has never run; the next one, 1, has waited for 1 d"
        )
        assert alarm.command == "headgate job run clean --loop -- COMMAND"
        claim = gate.ledger.find_next("clean", worker="w")
        assert claim is not None
        assert gate.alarms() == [], "somebody runs it"
        gate.ledger.success(claim)
        gate.ledger.pause("clean", reason="maintenance")
        assert gate.alarms() == [], "a pause has its own reason"


def test_a_job_that_runs_once_a_day_or_week_is_not_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One chunk a day out of many is a slow job, not one without workers."""
    monkeypatch.setattr(gathering, "LEDGER_SECONDS", 0.0)
    with connect(f"sqlite:///{tmp_path}/store.db") as gate:
        gate.ledger.define_dataset("raw", uri="file:///raw")
        gate.ledger.define_job("clean", inputs=["raw"], outputs=[])
        gate.ledger.publish("raw", ["1", "2", "3"])
        for _ in range(2):
            claim = gate.ledger.find_next("clean", worker="w")
            assert claim is not None
            gate.ledger.success(claim)
        monkeypatch.setattr(gathering, "wall", lambda: wall() + timedelta(hours=26))
        (alarm,) = gate.alarms()
        assert alarm.what.startswith("1 chunk waits for job clean, which last ran 1 d 2 h ago; the next one, 3,")
    at = wall()
    for ran, pause, stuck in ((1, 1, False), (2, 1, True), (6, 7, False), (11, 7, True)):
        slow = Unclaimed("clean", "3", 5, at - timedelta(days=30), at - timedelta(days=ran), timedelta(days=pause))
        assert bool(find_alarms(AlarmFacts(at, unclaimed=[slow]))) is stuck, (ran, pause)

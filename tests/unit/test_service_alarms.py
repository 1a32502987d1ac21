"""Chunks that wait for a job that nobody runs: when that is an alarm, and when it is not."""

from datetime import timedelta
from pathlib import Path

import pytest

from headgate import connect
from headgate.service import alarms as gathering
from headgate.service.clock import wall


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
            "2 chunks wait for job clean, which nobody runs; the next one, 1, has waited for 1 d"
        )
        assert alarm.command == "headgate job run clean --loop -- COMMAND"
        claim = gate.ledger.find_next("clean", worker="w")
        assert claim is not None
        assert gate.alarms() == [], "somebody runs it"
        gate.ledger.success(claim)
        gate.ledger.pause("clean", reason="maintenance")
        assert gate.alarms() == [], "a pause has its own reason"

"""An example without progress reports that within seconds, with the reason, and does not retry at full speed."""

import threading
from pathlib import Path

import pytest

from headgate import connect
from headgate.cli.example import loading
from headgate.cli.example.folder import ExampleFolder
from headgate.cli.example.loading import Example
from headgate.cli.ledger.definitions import define_all, read_pipeline
from headgate.gate import Gate


def test_a_stalled_job_is_reported_once_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "STILL_SECONDS", 0.2)
    monkeypatch.setattr(loading, "PATIENCE_SECONDS", 0.6)
    folder, said = ExampleFolder(tmp_path / "example"), list[str]()
    with folder.ready() as server, connect(**folder.settings) as gate:
        example = Example(gate, folder, f"http://127.0.0.1:{server.server_port}", threading.Event(), said.append)
        example.load()
        example.finish()  # No daemon works on it.
    (line,) = said
    assert line.startswith("no progress for 0.2 s: ")
    assert "bid0000000001 (harbour.checkm) is pending" in line
    assert "bid0000000004 (attic.checkm) is pending" in line


def test_a_job_that_cannot_run_is_retried_after_growing_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, said, runs = ExampleFolder(tmp_path / "example"), list[str](), 0
    now = 1000.0
    monkeypatch.setattr(loading, "steady", lambda: now)
    with folder.ready(), connect(**folder.settings) as gate:
        publish(gate, folder)
        example = Example(gate, folder, "http://nowhere", threading.Event(), said.append)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", str(tmp_path / "nowhere"))
            for _ in range(10):  # Twenty seconds of rounds.
                example.run_pipeline()
                now += loading.PIPELINE_SECONDS
            runs = (folder.path / loading.LOG).read_text().count("command not found")
        assert runs == 3, "after 0, 4 and 12 s"
        (line,) = said
        assert line.startswith("job count makes no progress: headgate: ")
        assert "sh" in line
        assert "command not found" in line
        assert len(example.stalled) == 1
        now += loading.LONGEST_PAUSE_SECONDS
        example.run_pipeline()
        assert example.stalled == []


def publish(gate: Gate, folder: ExampleFolder) -> None:
    define_all(gate.ledger, read_pipeline(folder.path / "pipeline.toml"))
    gate.ledger.publish("harbour", ["ark_99999_x.v1"])

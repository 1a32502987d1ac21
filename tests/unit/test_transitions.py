"""The rows that the contract suite executes are recorded by machine and store; an old record fails a full run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.core.tables.states import CHUNK, MACHINES
from tests.conftest import SQL_STORES, STORES, TRANSITIONS
from tests.transitions import differences

ROOT = Path(__file__).parents[2]
#: A project of two tests, whose contract suite executes a row on one store.
PROJECT = {
    "conftest.py": """
from pathlib import Path
from tests.transitions import TransitionBook


def pytest_configure(config):
    config.pluginmanager.register(TransitionBook(Path("noted.json"), ["sqlite"], writes=False))
""",
    "pytest.ini": "[pytest]\ntestpaths = .\n",
    "test_rows.py": """
import pytest


@pytest.mark.parametrize("store", ["sqlite"])
def test_a_row(store, record_property):
    record_property("transition", "lock: new grant shared")


def test_of_anything_else():
    pass
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, content in PROJECT.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def run(project: Path, noted: object, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the project's tests, with that in its record."""
    (project / "noted.json").write_text(json.dumps(noted), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=project,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_every_row_of_every_machine_is_recorded_for_every_store_that_it_runs_on() -> None:
    noted = json.loads(TRANSITIONS.read_text(encoding="utf-8"))
    expected = {
        machine.name: {row.name: sorted(SQL_STORES if machine is CHUNK else STORES) for row in machine.rows}
        for machine in MACHINES
    }
    assert noted == expected, "run `make transitions`"


def test_a_full_run_that_matches_the_record_passes(project: Path) -> None:
    done = run(project, {"lock": {"new grant shared": ["sqlite"]}})
    assert done.returncode == 0, done.stdout


def test_a_full_run_that_differs_from_the_record_fails_and_names_it(project: Path) -> None:
    done = run(project, {"lock": {"new wait waiting": ["sqlite"]}})
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "noted.json is stale" in done.stdout
    assert "lock: new grant shared: was taken, but is not noted on sqlite" in done.stdout
    assert "lock: new wait waiting: is noted, but was not taken on sqlite" in done.stdout


def test_a_partial_run_is_not_compared(project: Path) -> None:
    assert run(project, {}, "-k", "anything").returncode == 0
    assert run(project, {}, "--collect-only").returncode == 0


def test_stores_that_could_not_be_tested_are_left_out() -> None:
    noted = {"lock": {"new grant shared": ["sqlite", "zookeeper"]}}
    taken = {"lock": {"new grant shared": ["sqlite"]}}
    assert differences(taken, noted, ["sqlite"]) == []
    assert len(differences(taken, noted, STORES)) == 1

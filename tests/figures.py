"""The counts and measurements of the fault tests, kept in a file with one record for each test.

With HEADGATE_FIGURES the records are written to that file. A record of the same test from an earlier run is replaced,
others stay: so a full run can be made in pieces, and be interrupted. With HEADGATE_RESUME, tests that have passed at
the present commit are left out.
"""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).parent.parent
#: Full numbers, for `make torture`.
FULL = os.environ.get("HEADGATE_TORTURE") == "full"
Report = Callable[..., None]
Record = dict[str, Any]


def told(report: pytest.TestReport) -> dict[str, Any]:
    """The figures that a test reported."""
    found: dict[str, Any] = {}
    for name, figures in report.user_properties:
        if name == "figures":
            found |= cast("dict[str, Any]", figures)
    return found


class FigureBook:
    """A plugin that keeps the figures of a run."""

    def __init__(self, path: Path, *, keeps: bool) -> None:
        """`keeps`: False in a process that only runs tests for another one, which keeps their figures."""
        self._path = path
        self._keeps = keeps
        self._commit = commit()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not os.environ.get("HEADGATE_RESUME"):
            return
        passed = {each["test"] for each in read(self._path) if each["passed"] and each["commit"] == self._commit}
        done = [item for item in items if item.nodeid in passed]
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item.nodeid not in passed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        figures = told(report) if report.when == "call" else {}
        if not self._keeps or report.skipped or not (figures or report.failed):
            return
        record = {
            "test": report.nodeid,
            "passed": report.passed,
            "date": datetime.now(UTC).date().isoformat(),
            "commit": self._commit,
            "seconds": round(report.duration),
            "figures": figures,
        }
        write(self._path, record)


def commit() -> str:
    """The commit that is tested; with a plus if files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def read(path: Path) -> list[Record]:
    found: list[Record] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return found


def write(path: Path, record: Record) -> None:
    """Insert a record, in the order of the tests' names."""
    kept = [each for each in read(path) if each["test"] != record["test"]]
    records = sorted([*kept, record], key=lambda each: each["test"])
    lines = ",\n".join(json.dumps(each) for each in records)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")

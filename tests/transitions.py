"""The rows of the state tables that the contract suite executes, by store: written by one run, compared by every other.

`make transitions` runs the tests that execute each row and writes the executed rows to
`docs/reference/transitions.json`, from which the page of states is generated. A run of the whole suite fails when it
executed other rows.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

#: By machine and row: the stores.
Taken = dict[str, dict[str, list[str]]]


def taken_in(reports: Iterable[pytest.TestReport], stores: Sequence[str]) -> Taken:
    """The rows that passed tests took. A test's name begins with its store; a service is not one."""
    found: dict[str, dict[str, set[str]]] = {}
    for report in reports:
        here = {store for store in stores if f"[{store}" in report.nodeid}
        for name, row in report.user_properties:
            if name == "transition":
                machine, _, words = str(row).partition(": ")
                found.setdefault(machine, {}).setdefault(words, set()).update(here)
    return {machine: {row: sorted(where) for row, where in rows.items()} for machine, rows in found.items()}


def differences(taken: Taken, noted: Taken, stores: Iterable[str]) -> list[str]:
    """Each row that one of them has on one of these stores, and the other has not."""
    pairs = [
        {(machine, row, store) for machine, rows in each.items() for row, found in rows.items() for store in found}
        for each in (taken, noted)
    ]
    words = ("was taken, but is not noted", "is noted, but was not taken")
    return sorted(
        f"{machine}: {row}: {word} on {store}"
        for ours, theirs, word in ((pairs[0], pairs[1], words[0]), (pairs[1], pairs[0], words[1]))
        for machine, row, store in ours - theirs
        if store in stores
    )


class TransitionBook:
    """A plugin that writes what a run took, or compares it with what was written."""

    def __init__(self, path: Path, stores: Sequence[str], *, writes: bool) -> None:
        """`writes`: replace the file (else a run of the whole suite is compared with it)."""
        self._path = path
        self._stores = stores
        self._writes = writes
        self._differences: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        taken = taken_in(reporter.stats.get("passed", []), self._stores)
        if self._writes:
            self._path.write_text(json.dumps(taken, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        elif is_whole(session.config) and session.exitstatus == pytest.ExitCode.OK:
            untested = "skipped" in reporter.stats
            reached = {store for rows in taken.values() for found in rows.values() for store in found}
            noted = json.loads(self._path.read_text(encoding="utf-8"))
            self._differences = differences(taken, noted, reached if untested else self._stores)
            if self._differences:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._differences:
            terminalreporter.section(f"{self._path.name} is stale; run `make transitions`, then `make docs`", red=True)
            for line in self._differences:
                terminalreporter.line(line, red=True)


def is_whole(config: pytest.Config) -> bool:
    """Whether every test is run: none was named or chosen."""
    chosen = [config.getoption(name, default=None) for name in ("collectonly", "keyword", "markexpr", "lf", "deselect")]
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(chosen)

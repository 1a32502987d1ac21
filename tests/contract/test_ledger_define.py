"""A pipeline is defined completely or not at all."""

from pathlib import Path
from typing import Any

import pytest

from headgate import BadValue, Gate, HeadgateError, Refused, UnknownName
from headgate.cli.ledger.definitions import define_all
from tests.contract.steps import Gates

GOOD: dict[str, Any] = {
    "dataset": {"raw": {"uri": "file:///raw"}, "tidy": {}},
    "job": {"clean": {"inputs": ["raw"], "outputs": ["tidy"]}},
}


def defined(gate: Gate) -> tuple[Any, Any]:
    return gate.ledger.datasets(), gate.ledger.jobs()


def test_a_refused_pipeline_changes_nothing(gates: Gates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gates.open()
    if not gate.keeps_ledger:
        return
    done = define_all(gate.ledger, GOOD)
    assert done.changes == ("dataset raw: new", "dataset tidy: new", "job clean: new")
    gate.ledger.publish("raw", ["1"])
    assert define_all(gate.ledger, GOOD).changes == ()
    before = defined(gate)
    monkeypatch.setenv("PASSWORD", "hush")
    more = {"raw": {"uri": "file:///other"}, "late": {}}
    sealed = {"late": {"secrets": {"password": "env:PASSWORD"}}}
    refused: list[tuple[type[HeadgateError], dict[str, Any]]] = [
        (UnknownName, {"dataset": more, "job": {"late": {"inputs": ["nowhere"]}}}),
        (BadValue, {"dataset": more, "job": {"late": {"inputs": ["raw"], "outputs": ["tidy"]}}}),
        (BadValue, {"dataset": more, "job": {"late": {"inputs": ["late"], "max_attempts": -1}}}),
        (Refused, {"dataset": {**more, "raw": {"order": "text"}}, "job": {"late": {"inputs": ["late"]}}}),
        # There is no key to seal it with.
        (Refused, {"dataset": more | sealed, "job": {"late": {"inputs": ["late"]}}}),
        (BadValue, {"dataset": more | {"late": {"secrets": {"password": "env:NOT_SET"}}}}),
    ]
    for kind, pipeline in refused:
        with pytest.raises(kind):
            define_all(gate.ledger, pipeline)
        assert defined(gate) == before, pipeline
    monkeypatch.setenv("HEADGATE_MASTER_KEY_FILE", str(tmp_path / "missing"))
    with pytest.raises(BadValue, match="missing"):
        define_all(gates.open().ledger, {"dataset": more | sealed, "job": {"late": {"inputs": ["late"]}}})
    assert defined(gate) == before


def test_warnings_are_those_of_the_whole_pipeline(gate: Gate) -> None:
    if not gate.keeps_ledger:
        return
    jobs = {"report": {"inputs": ["tidy"]}, "clean": {"inputs": ["raw"], "outputs": ["tidy"]}}
    found = define_all(gate.ledger, {"dataset": {"raw": {}, "tidy": {}}, "job": jobs})
    assert [line for line in found.warnings if "tidy" in line] == []
    assert len(found.warnings) == 1


def test_a_new_dataset_is_sealed_with_the_key_of_the_job_that_gains_it(
    gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gates.open()
    if not gate.keeps_ledger:
        return
    define_all(gate.ledger, GOOD)
    key = gate.secrets.new_key("clean").key
    monkeypatch.setenv("HEADGATE_JOB_KEY", key)
    monkeypatch.setenv("PASSWORD", "hush")
    gained = {"job": {"clean": {"inputs": ["raw", "late"], "outputs": ["tidy"]}}}
    sealed = {"dataset": {"late": {"secrets": {"password": "env:PASSWORD"}}}}
    done = define_all(gates.open().ledger, gained | sealed, ["late/clean"])
    assert "dataset late: secret password new" in done.changes

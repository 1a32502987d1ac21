"""The reference of pipeline files and manifests is complete, has the code's defaults, and its examples are accepted."""

import inspect
import re
import tomllib
from pathlib import Path

import pytest

import headgate
from headgate.cli.ledger.definitions import read_pipeline
from headgate.core.ledger import pipeline_keys
from headgate.core.ledger.expectations.parsing import KEYS as EXPECT_KEYS
from headgate.core.ledger.expectations.parsing import parse_expectation
from headgate.core.ledger.mappings.parsing import KEYS, parse_maps
from headgate.core.ledger.pipeline_keys import Key
from headgate.core.ledger.watches.parsing import KEYS as WATCH_KEYS
from headgate.core.ledger.watches.parsing import parse_watch
from headgate.ingest.formats import manifest
from headgate.ingest.formats.manifest import LAYOUTS, ManifestLayout
from headgate.ingest.steps import new_jobs as payload_types
from headgate.service.ledger.use_cases import Ledger
from headgate.service.queue.checks import METADATA, TYPES
from tests.docs.pages import ROOT
from tools.format_pages import EXPECTATIONS, MAPPINGS, PIPELINE, WATCHES, example

#: Parameters that are not part of a definition.
OURS = {"self", "name", "holders", "share"}


@pytest.mark.parametrize(
    ("keys", "define"), [(pipeline_keys.DATASET, Ledger.define_dataset), (pipeline_keys.JOB, Ledger.define_job)]
)
def test_every_key_of_a_pipeline_file_is_listed_with_its_default(keys: tuple[Key, ...], define: object) -> None:
    assert callable(define)
    taken = {name: each.default for name, each in inspect.signature(define).parameters.items() if name not in OURS}
    assert [key.name for key in keys] == [*taken]
    for key in keys:
        written = tomllib.loads(f"value = {key.default}")["value"] if key.default else None
        assert (written or None) == (taken[key.name] or None), key.name


def test_the_example_of_a_pipeline_file_has_every_key_and_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE, encoding="utf-8")
    content = read_pipeline(file)
    for noun, keys in (("dataset", pipeline_keys.DATASET), ("job", pipeline_keys.JOB)):
        assert {key for body in content[noun].values() for key in body} == {key.name for key in keys}
    mapped = [each for body in content["job"].values() for each in body.get("maps", {}).values()]
    assert {key for each in mapped for key in each} <= {key.name for key in pipeline_keys.MAP}
    with headgate.connect(f"sqlite:///{tmp_path}/headgate.db") as gate:
        for name, body in content["dataset"].items():
            gate.ledger.define_dataset(name, **{key: value for key, value in body.items() if key != "secrets"})
        for name, body in content["job"].items():
            assert gate.ledger.define_job(name, **body).changes


def test_every_key_of_a_mapping_is_listed() -> None:
    assert [key.name for key in pipeline_keys.MAP] == list(KEYS)


def test_every_key_of_a_watch_is_listed_with_its_default() -> None:
    assert [key.name for key in pipeline_keys.WATCH] == list(WATCH_KEYS)
    found = parse_watch("x", {"folder": "in", "pattern": "{x}"})
    for key in pipeline_keys.WATCH:
        written = tomllib.loads(f"value = {key.default}")["value"] if key.default else None
        if key.name not in ("marker", "files", "suffixes"):
            assert (written or None) == (getattr(found, key.name, None) or None) or not written, key.name


@pytest.mark.parametrize("text", WATCHES.values(), ids=WATCHES)
def test_the_examples_of_watches_are_accepted(text: str) -> None:
    ((name, body),) = tomllib.loads(text)["dataset"].items()
    assert parse_watch(name, body["watch"]).pattern == body["watch"]["pattern"]


def test_every_key_of_an_expectation_is_listed_with_its_default() -> None:
    assert [key.name for key in pipeline_keys.EXPECT] == list(EXPECT_KEYS)
    document = parse_expectation({"every": "day", "from": "2026-01-01"}).to_document()
    for key in pipeline_keys.EXPECT:
        if key.default:
            assert tomllib.loads(f"value = {key.default}")["value"] == document[key.name], key.name


@pytest.mark.parametrize("text", EXPECTATIONS.values(), ids=EXPECTATIONS)
def test_the_examples_of_expectations_are_accepted(text: str) -> None:
    ((_, body),) = tomllib.loads(text)["dataset"].items()
    assert next(parse_expectation(body["expect"]).expected()).due.year in (2026, 2027)


@pytest.mark.parametrize("text", MAPPINGS.values(), ids=MAPPINGS)
def test_the_examples_of_mappings_are_accepted(text: str) -> None:
    ((job, body),) = tomllib.loads(text)["job"].items()
    assert job.isidentifier()
    assert set(parse_maps(body["maps"], list(body["maps"]))) == set(body["maps"])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_example_of_each_kind_of_manifest_is_read_as_that_kind(layout: ManifestLayout) -> None:
    assert manifest.parse(example(layout), LAYOUTS).layout is layout


def test_every_kind_column_and_type_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/manifests.md").read_text(encoding="utf-8")
    cells = set(re.findall(r"^\| `([^`]+)`", page, re.MULTILINE))
    columns = {column for layout in LAYOUTS for column in layout.columns}
    assert columns == set(manifest.COLUMNS)
    assert cells >= columns | {layout.name for layout in LAYOUTS} | set(TYPES) | set(METADATA)
    assert set(TYPES) == {*payload_types.BATCHES, *payload_types.SINGLE}

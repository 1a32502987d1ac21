"""Every setting, command, error, route, metric, state and table of the code is in the reference."""

import inspect
import re

import click
import pytest

import headgate
from headgate.cli.tree import root
from headgate.core import errors, known_settings
from headgate.core.tables.states import MACHINES
from headgate.http import metrics
from headgate.http.api.description import openapi
from headgate.http.app import API
from headgate.stores.sql import schema
from tests.docs.pages import ROOT
from tools.generate_docs import main


def headings(page: str) -> set[str]:
    """The subjects that a page of the reference covers."""
    text = (ROOT / f"docs/reference/{page}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^## (.+)$", text, re.MULTILINE))


def commands_of(group: click.Group, name: str) -> set[str]:
    """The names of all commands, including groups."""
    context = click.Context(group)
    found = {name}
    for child in group.list_commands(context):
        command = group.get_command(context, child)
        found |= commands_of(command, f"{name} {child}") if isinstance(command, click.Group) else {f"{name} {child}"}
    return found


def test_the_generated_pages_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_every_command_is_in_the_reference() -> None:
    assert headings("commands") == commands_of(root, "headgate")


def test_every_setting_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE))
    assert rows == {(known.name, known.variable) for known in known_settings.KNOWN}


def test_every_error_is_in_the_reference() -> None:
    tree = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}
    assert headings("errors") == {*tree, "Exit codes"}
    assert tree <= set(headgate.__all__)


def test_every_table_is_in_the_reference() -> None:
    assert headings("schema") == set(schema.metadata.tables)
    assert {machine.name.capitalize() for machine in MACHINES} <= headings("states")


def first_cells(page: str) -> set[str]:
    """The beginnings of a page's table rows."""
    text = (ROOT / f"docs/reference/{page}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def test_every_route_is_in_the_reference() -> None:
    routes = {f"{verb.upper()} {path}" for path, verbs in openapi(API)["paths"].items() for verb in verbs}
    assert len(routes) > 50
    assert routes <= first_cells("api")


def test_the_openapi_describes_fields_with_their_comments() -> None:
    change = openapi(API)["components"]["schemas"]["Change"]["properties"]
    assert change["before"]["description"] == 'The status before; "absent" for no row.'  # Above the field.
    assert change["job"]["description"] == "Name of the job."  # Beside it.


def test_every_metric_is_in_the_reference() -> None:
    told = {name.removesuffix("_total") for name in first_cells("metrics")}  # so Prometheus has its counters
    assert told == {known.name for known in metrics.KNOWN}

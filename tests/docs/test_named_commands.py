"""Commands that pages mention, or show without running them, exist, with the named options."""

import re
from pathlib import Path

import click
import pytest

from headgate.cli.tree import root
from tests.docs.pages import ROOT, all_pages, blocks_of

PAGES = [page for page in all_pages() if page.parent.name != "reference" and page.name != "CHANGELOG.md"]


def named(page: Path) -> list[str]:
    """Every command line that begins with `headgate`, within a line or in a block."""
    text = page.read_text(encoding="utf-8")
    within = [" ".join(found.split()) for found in re.findall(r"(?<!`)`(headgate [^`]+)`(?!`)", text)]
    shown = [line for block in blocks_of(text) if block.kind == "shown" for line in block.content.splitlines()]
    return [*within, *(line.removeprefix("$ ") for line in shown if re.match(r"(\$ )?headgate ", line))]


def problem(line: str) -> str:
    """The error in a command line; empty: none."""
    context = click.Context(root)
    command: click.Command = root
    own = [word for word in line.partition(" -- ")[0].split()[1:] if word not in ("-q", "--quiet")]
    while own and isinstance(command, click.Group) and not own[0].startswith("-") and own[0] != "…":
        found = command.get_command(context, own[0])
        if found is None:
            return f"{line}: there is no {own[0]}"
        command, own = found, own[1:]
    known = {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    unknown = {word.partition("=")[0] for word in own if word.startswith("--")} - known
    return f"{line}: unknown {', '.join(sorted(unknown))}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page: Path) -> None:
    assert [wrong for line in named(page) if (wrong := problem(line))] == []


def test_a_wrong_command_is_detected() -> None:
    assert problem("headgate lock aquire x")
    assert problem("headgate lock list --resourc x")
    assert not problem("headgate lock run file:/x --wait 5 -- cmd --anything")

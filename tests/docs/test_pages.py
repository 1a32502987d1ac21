"""The blocks of the pages are run, and their links lead somewhere."""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_pages, blocks_of, has_something_to_run
from tests.docs.sessions import RENEWS, Visit, plain
from tests.servers import free_port
from tests.shared_servers import Servers

PAGES = all_pages()
#: The servers of the pages, and their kinds here.
SERVERS = {
    "postgresql://headgate@db1/headgate": "postgresql",
    "mysql://headgate@db1/headgate": "mariadb",
    "zookeeper://zk1:2181,zk2:2181,zk3:2181/headgate": "zookeeper",
}
#: The ports of the pages; here each is any free one.
PORTS = ("8750", "8000")


def name_of(page: Path) -> str:
    """A page in the form of a test's name."""
    return str(page.relative_to(ROOT))


@pytest.fixture
def visit(request: pytest.FixtureRequest, page: Path, empty_store: Path, tmp_path: Path) -> Iterator[Visit]:
    """A run of the page, with the servers that it names, and (unless it creates one) an empty SQLite store."""
    text = page.read_text(encoding="utf-8")
    here = {f":{port}": f":{free_port()}" for port in PORTS}
    with ExitStack() as ends:
        for address, kind in SERVERS.items():
            if address in text:
                servers: Servers = request.getfixturevalue("servers")
                here[address] = servers.fresh(kind)
                ends.callback(servers.drop, kind, here[address])
        visiting = Visit(tmp_path, here)
        ends.callback(visiting.end)
        if not re.search(
            r"^(\$ )?headgate init$", text, re.MULTILINE
        ):  # A page that creates its own store begins without one.
            shutil.copy(empty_store, visiting.folder / "headgate.db")
        yield visiting


@pytest.mark.parametrize("page", [page for page in PAGES if has_something_to_run(page)], ids=name_of)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, visit: Visit) -> None:
    visit.run(blocks_of(page.read_text(encoding="utf-8")))
    if RENEWS:
        renew(page, visit)
    else:
        for line, (shown, printed) in visit.differences.items():
            assert plain(shown) == plain(printed), f"line {line} of {name_of(page)}; run `make pages` if that is right"


def renew(page: Path, visit: Visit) -> None:
    """Record the actual output, if the page shows something else."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for line, (shown, printed) in sorted(visit.differences.items(), reverse=True):
        lines[line : line + shown.count("\n")] = [f"{each}\n" for each in printed.splitlines()]
    page.write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_commands_is_run_or_says_why_not(page: Path) -> None:
    """A block that is not run says why; commands are in blocks that are run."""
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"^[ \t]+```", text, re.MULTILINE), "a block that stands further in would not be found"
    for block in blocks_of(text):
        if block.kind == "shown" and not block.name:
            assert not re.search(r"^(\$ |headgate )", block.content, re.MULTILINE), f"line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_every_make_target_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {word for page in PAGES for word in re.findall(r"\bmake ([a-z-]+)\b(?=[`\s]|$)", code_of(page))}
    assert {"run", "test"} <= named <= targets


def code_of(page: Path) -> str:
    """The code on a page, within lines and in blocks."""
    text = page.read_text(encoding="utf-8")
    within = re.findall(r"`(make [^`\n]+)`", text)
    beginning = (re.findall(r"^make [a-z-]+", block.content, re.MULTILINE) for block in blocks_of(text))
    return "\n".join([*within, *chain.from_iterable(beginning)])


def test_the_unit_on_a_page_is_the_shipped_one() -> None:
    page = blocks_of((ROOT / "docs/how-to/systemd.md").read_text(encoding="utf-8"))
    (shown,) = (block.content for block in page if block.name.endswith("headgate.service"))
    unit = (ROOT / "packaging/headgate.service").read_text(encoding="utf-8")
    assert shown.splitlines() == [line for line in unit.splitlines()[8:] if not line.startswith("#")]

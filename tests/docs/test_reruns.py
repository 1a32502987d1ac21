"""The commands of the examples are safe to repeat: a chunk that is made twice leaves the same files."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from tests.docs.pages import ROOT, all_pages, blocks_of
from tests.docs.sessions import Visit

#: Pages with a pipeline, with their first and last headings; and the data ids that are made again.
PIPELINES = [
    ("README.md", "A pipeline", "An ingest", "clean", "2026-11-01 2026-11-02"),
    ("docs/tutorials/ledger.md", "Some data", "Several workers", "clean", "2026-11-01 2026-11-02 2026-11-03"),
]
LOOP = re.compile(r"^(?:\$ )?(headgate (?:-q )?(?:job run \w+ --loop -- .*|work))$", re.MULTILINE)


@pytest.fixture
def visit(empty_store: Path, tmp_path: Path) -> Iterator[Visit]:
    visiting = Visit(tmp_path, {})
    shutil.copy(empty_store, visiting.folder / "headgate.db")
    yield visiting
    visiting.end()


def part(page: str, first: str, last: str) -> str:
    """A page from one heading to another."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text[text.index(f"## {first}") : text.index(f"## {last}")]


def files(folder: Path) -> dict[str, str]:
    """Every file except those of the store."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("headgate.db"))
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in found}


def attempts(folder: Path) -> int:
    """The number of claims of all chunks."""
    with headgate.connect(f"sqlite:///{folder}/headgate.db") as gate:
        return sum(row.attempt for row in gate.ledger.status())


@pytest.mark.parametrize(("page", "first", "last", "job", "dataids"), PIPELINES, ids=[each[0] for each in PIPELINES])
def test_a_pipeline_of_the_docs_makes_the_same_files_when_it_runs_again(
    page: str, first: str, last: str, job: str, dataids: str, visit: Visit
) -> None:
    text = part(page, first, last)
    commands = list(dict.fromkeys(LOOP.findall(text)))
    visit.run(blocks_of(text))
    for command in commands:  # The page may end with a resubmit.
        visit.type(command)
    before, claimed = files(visit.folder), attempts(visit.folder)
    visit.type(f"headgate job resubmit {job} {dataids} --reason again --downstream")
    for command in commands:
        visit.type(command)
    assert attempts(visit.folder) > claimed
    assert files(visit.folder) == before


def test_no_example_appends_to_what_it_makes() -> None:
    """Appending counts a chunk twice when it runs again; a log may grow."""
    texts = {
        page: blocks_of(page.read_text(encoding="utf-8")) for page in all_pages() if page.parent.name != "reference"
    }
    lines = [(page, line) for page, blocks in texts.items() for block in blocks for line in block.content.splitlines()]
    lines += [(path, line) for path in (ROOT / "examples").rglob("*.sh") for line in path.read_text().splitlines()]
    assert [(str(path), line) for path, line in lines if re.search(r">>(?! ?\S+\.log\b)", line)] == []

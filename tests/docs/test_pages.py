"""What the pages show is run, and what they point to is there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.core.states import BATCH, INGEST_JOB
from tests.conftest import SQL_STORES

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
HEADGATE = Path(sys.executable).parent / "headgate"


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command there, to its end."""
    line = [str(word) for word in words]
    return subprocess.run(line, check=False, cwd=folder, capture_output=True, text=True, timeout=60)


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of one language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def snippets(language: str) -> list[object]:
    """Every block of one language, named by its page."""
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, block in enumerate(blocks(page, language))
    ]


def test_every_row_of_the_queue_was_taken_by_the_contract_suite() -> None:
    """As `make transitions` noted it: a row that is new, or that no test takes, is missing there."""
    noted = json.loads((ROOT / "docs/reference/transitions.json").read_text(encoding="utf-8"))
    for machine in (BATCH, INGEST_JOB):
        taken = {row for row, stores in noted[machine.name].items() if set(stores) >= set(SQL_STORES)}
        assert taken == {row.name for row in machine.rows}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("code", snippets("python"))
def test_every_python_example_runs(code: str, tmp_path: Path) -> None:
    done = run(tmp_path, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


def readme_commands() -> list[str]:
    """Every `headgate` command line in the README, its script replaced by one that does nothing."""
    lines = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    return [re.sub(r"-- \./\w+\.sh", "-- true", line) for line in lines if line.startswith("headgate ")]


def test_every_command_of_the_readme_runs_in_its_order(tmp_path: Path) -> None:
    (pipeline,) = blocks(ROOT / "README.md", "toml")
    (tmp_path / "pipeline.toml").write_text(pipeline, encoding="utf-8")
    for line in readme_commands():
        done = run(tmp_path, HEADGATE, *shlex.split(line)[1:])
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_the_readme_shows_both_commands_of_the_house() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in text
    assert "make test" in text
    assert len(readme_commands()) >= 2


def test_the_refusal_in_the_readme_has_the_form_that_the_command_prints(tmp_path: Path) -> None:
    """Names, ids and times differ; every other word is the same."""
    acquire = (HEADGATE, "lock", "acquire", "mysql://db1/core")
    run(tmp_path, *acquire, "--client", "report", "--mode", "read", "--lease", "41")
    refused = run(tmp_path, *acquire, "--client", "nightly", "--mode", "write")
    shown = next(block for block in blocks(ROOT / "README.md", "text") if "may not have" in block)
    assert _shape(shown.partition("\n")[2]) == _shape(refused.stderr)


def _shape(text: str) -> str:
    text = re.sub(r"\(\S+ pid \d+ #\w+\)", "(OWNER)", text)
    text = re.sub(r"\w{4}-\w{16}-\w{12}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"ends in \d+ s", "ends in N s", text).strip()

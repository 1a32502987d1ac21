"""The table of the fault tests' figures: stored by test, rendered by store, with failed tests marked."""

import re
from pathlib import Path

import pytest

from tests import figures
from tools.evidence import ROWS, render, with_evidence

ROOT = Path(__file__).parents[2]


def record(test: str, commit: str = "abc", passed: bool = True, **told: object) -> figures.Record:
    return {"test": f"tests/faults/test_x.py::{test}", "passed": passed, "date": "2026-11-16", "commit": commit,
            "seconds": 3, "figures": told}  # fmt: skip


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "torture.json"


def test_a_later_run_of_a_test_replaces_its_record_and_no_other(book: Path) -> None:
    figures.write(book, record("test_b", "one"))
    figures.write(book, record("test_a", "one"))
    figures.write(book, record("test_b", "two"))
    assert [(each["test"][-6:], each["commit"]) for each in figures.read(book)] == [
        ("test_a", "one"),
        ("test_b", "two"),
    ]


def test_records_of_one_store_are_one_row(book: Path) -> None:
    figures.write(book, record("test_cut_at_a_message[postgresql-back at once]", store="postgresql", cuts=900))
    figures.write(book, record("test_cut_at_a_message[postgresql-away]", store="postgresql", cuts=200))
    (row,) = render(book).splitlines()[2:]
    assert "| PostgreSQL | 1,100 cuts |" in row
    assert "| 0 |" in row
    assert "2026-11-16, `abc`" in row


def test_violations_of_every_kind_are_added_up_and_the_worst_time_is_the_largest(book: Path) -> None:
    test = "test_partitions_between_client_and_store"
    figures.write(book, record(f"{test}[zookeeper]", store="zookeeper", violations=2, overlaps=1, worst_call=2.5))
    (row,) = render(book).splitlines()[2:]
    assert "| 3 | 2.5 s for a call |" in row


def test_a_test_that_failed_is_shown_as_such(book: Path) -> None:
    figures.write(book, record("test_nobody_knows", passed=False))
    assert "**failed**" in render(book)


def test_the_table_replaces_the_one_before(book: Path) -> None:
    figures.write(book, record("test_a", calls=5))
    page = with_evidence("before\n<!-- evidence: made by `make docs` from torture.json -->\nold\n"
                         "<!-- end of evidence -->\nafter\n", book)  # fmt: skip
    assert with_evidence(page, book) == page
    assert "old" not in page
    assert page.startswith("before")
    assert page.endswith("after\n")


def test_every_row_names_a_test_that_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    known = {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert set(ROWS) <= known


def test_values_that_are_not_numbers_are_left_out(book: Path) -> None:
    figures.write(book, record("test_two_movers[sqlite]", store="sqlite", moved_by_each=[70, 44], faults=2))
    (row,) = render(book).splitlines()[2:]
    assert "| SQLite | 2 |" in row

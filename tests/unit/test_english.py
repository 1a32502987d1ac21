"""The check of the words in `make check`: what it reads, and what it leaves alone."""

import re
from pathlib import Path

import pytest

from tools.english import SAYS, VOCABULARY, files, findings

ROOT = Path(__file__).parents[2]
BAD = "a file could not be had"


def found_in(name: str, text: str) -> list[str]:
    return [re.sub(r"^.*?:(\d+): '(.*?)';.*$", r"\1 \2", line) for line in findings(name, text)]


def test_everything_that_people_read_is_checked() -> None:
    names = files()
    assert {"README.md", "Makefile", "src/headgate/gate.py", "tests/conftest.py", "docs/glossary.md"} <= set(names)
    assert len(names) > 800


@pytest.mark.parametrize(
    "text",
    ["nobody is told", "it tells why", "whoever asks", "it was mended", "it is put off", "begins anew", "it shall be",
     "what became of it", "was handed in", "is in the way", "the quick way", "for ever", "its lease has run out",
     "if need be", "is none of a, b", "is no number", "Gives how many", "was given back", "see RULES.md", "seed 002",
     "after so many seconds", BAD],
)  # fmt: skip
def test_words_to_avoid_are_found(text: str) -> None:
    assert len(found_in("docs/page.md", f"It is so: {text}.\n")) == 1


@pytest.mark.parametrize(
    "text",
    ["can tell them apart", "cannot be told from the other", "there is no list of them", "typed by hand in a file"],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert found_in("docs/page.md", f"It {text}.\n") == []


def test_code_on_a_page_is_not_prose_and_lines_are_counted() -> None:
    page = f"# Page\n\n```text\n{BAD}\n```\n\nAnd `whoever` <!-- whoever -->\nshall.\n"
    assert found_in("docs/page.md", page) == ["8 shall"]


def test_comments_docstrings_and_texts_are_read_and_identifiers_are_not() -> None:
    code = '"""A whoever."""\ntold = 1  # it is told\nraise ValueError("it was mended")\nword = "mended"\n'
    assert found_in("src/headgate/cli/x.py", code) == ["1 whoever", "2 told", "3 mended"]


def test_statements_are_not_read() -> None:
    assert found_in("src/headgate/stores/sql/locks/statements.py", 'TAKE = "select told from a"\n') == []


def test_names_of_tests_are_read() -> None:
    code = (
        "def test_the_holder_is_told() -> None:\n    pass\n\ndef test_who_asks_what_is_answered() -> None:\n    pass\n"
    )
    assert found_in("tests/unit/test_x.py", code) == ["1 told", "4 who"]


def test_texts_of_templates_are_read() -> None:
    assert found_in("src/headgate/http/dashboard/templates/x.html", "{# told #}<p class='told'>\nmended</p>") == [
        "2 mended"
    ]


def test_every_pattern_has_a_replacement() -> None:
    assert len(SAYS) == len(VOCABULARY)
    assert all(better for _, better in SAYS)


def test_each_term_of_the_glossary_is_explained_once() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    terms = [term for row in rows if row not in ("word", "---") for term in row.split(", ")]
    assert len(terms) > 60
    assert sorted(terms) == sorted(set(terms))

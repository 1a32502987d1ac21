"""Numbers with their nouns: one helper, used everywhere."""

import re
from pathlib import Path

import pytest

from headgate.core.values.plurals import plural

SOURCES = Path(__file__).parents[2] / "src/headgate"


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "failure", "0 failures"), (1, "failure", "1 failure"), (2, "batch", "2 batches"), (3, "entry", "3 entries"),
     (2, "day", "2 days"), (12345, "ingest job", "12,345 ingest jobs")],
)  # fmt: skip
def test_the_noun_agrees_with_the_number(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text


def test_no_text_says_chunk_s_or_makes_its_own_plural() -> None:
    own = re.compile(r"\w\((?:s|es)\)[ ;,.\"']|else \w+ \+ 's'|'' if [^}]+ == 1 else 's'")
    files = [path for path in SOURCES.rglob("*.py") if path.name != "plurals.py"]
    assert [path.name for path in files if own.search(path.read_text(encoding="utf-8"))] == []

"""ARCHITECTURE.md: every place that "I want to change…" leads to is there, and has what it is said to have."""

import re

from tests.docs.pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## I want to change")[2]
ROWS = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| ")][2:]
#: `NAME` in `file.py`, `NAME` and `NAME` of `file.py`.
NAMED = re.compile(r"((?:`\w+`(?:s?, | and )?)+)s? (?:in|of) `([\w/]+\.py)`")


def places(cells: list[str]) -> list[str]:
    """The files and folders that a row leads to."""
    return [word for word in re.findall(r"`([^`\s*]+)`", " ".join(cells)) if "/" in word or word.endswith(".py")]


def is_there(place: str) -> bool:
    folder = ROOT if place.startswith("tests/") else ROOT / "src/headgate"
    return (folder / place).exists()


def test_every_place_is_there() -> None:
    assert len(ROWS) > 20
    assert [place for row in ROWS for place in places(row) if not is_there(place)] == []


def test_every_name_is_in_its_file() -> None:
    found = [
        (name, file) for row in ROWS for names, file in NAMED.findall(row[1]) for name in re.findall(r"`(\w+)`", names)
    ]
    assert len(found) > 15
    missing = [
        (name, file)
        for name, file in found
        if not re.search(rf"^( *def |class |){name}\b", (ROOT / "src/headgate" / file).read_text("utf-8"), re.MULTILINE)
    ]
    assert missing == []

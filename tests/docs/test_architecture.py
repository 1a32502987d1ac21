"""ARCHITECTURE.md fits on two screens, and every path and name in it exists."""

import re

import pytest

import headgate
from tests.docs.pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)
#: `NAME` in `file.py`, `NAME` of `file.py`.
NAMED = re.compile(r"`([\w.]+)`\s+(?:in|of)\s+`([\w/]+\.py)`")
PATHS = sorted({word for word in re.findall(r"`([^`\s]+)`", PROSE) if "/" in word or word.endswith(".py")})
#: Names without a file: classes and functions somewhere in the package.
ALONE = sorted(set(re.findall(r"`([A-Z]\w+|[a-z]+_\w+)`", PROSE)))


def source(path: str) -> str:
    return (ROOT / "src/headgate" / path).read_text(encoding="utf-8")


def test_the_architecture_fits_on_two_screens() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 100
    assert [line for line in lines if len(line) > 110] == []


@pytest.mark.parametrize("path", PATHS)
def test_every_path_exists(path: str) -> None:
    top = path.split("/", maxsplit=1)[0]
    folder = ROOT if top in ("src", "tests", "tools", "docs") else ROOT / "src/headgate"
    assert (folder / path).exists()


def test_every_name_is_in_its_file() -> None:
    found = NAMED.findall(PROSE)
    assert len(found) > 12
    missing = [
        (name, path)
        for name, path in found
        for part in name.split(".")
        if not re.search(rf"^ *(def |class |){part}\b", source(path), re.MULTILINE)
    ]
    assert missing == []


def test_every_name_without_a_file_is_defined_in_the_package() -> None:
    package = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/headgate").rglob("*.py"))
    defined = set(re.findall(r"^(?: *def |class |)(\w+)\b", package, re.MULTILINE))
    known = defined | set(headgate.__all__)
    assert {"LockSnapshot", "ChunkSnapshot", "may_claim"} <= set(ALONE)
    assert [name for name in ALONE if name not in known] == []


def test_every_layer_of_the_picture_is_in_the_import_contract() -> None:
    picture = TEXT.partition("```text\n")[2].partition("```")[0]
    drawn = {word for line in picture.splitlines() for word in re.findall(r"\w+", line[:38])}
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition('id = "layers"')[2].partition("[[")[0]
    declared = set(re.findall(r"\w+", " ".join(re.findall(r'^    "(.+)",$', contract, re.MULTILINE))))
    assert len(drawn) > 15
    assert drawn <= declared

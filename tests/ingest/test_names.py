"""File names: no accepted name can leave its folder, or collide with another file."""

import os
import random
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.ingest.formats.file_names import check_file_name, collisions, same_letters, same_place
from headgate.ingest.safe_files import keeps_case, probe_case

TRICKS = [
    "", " ", "   ", ".", "..", "...", "../x", "a/..", "a/../b", "a/../../b", "./a", "a/./b", "a//b", "/", "//",
    "/etc/passwd",
    "//host/share", "a/", "a/b/", "~/../x", "..\\x", "a\\b", "\\", "\\\\host\\share", "C:", "C:\\x", "c:x", "Z:/x",
    "a\0b", "\0", "a\nb", "a\rb", "a\tb", "\x1b[2J", "a\x7fb", "a\x85b", "a.", "a ", "a./b", "a /b", "a\u00a0",
    "a\u3000",
    "CON", "con", "Con.txt", "nul", "NUL.tar.gz", "aux/x", "x/PRN", "COM1", "lpt9.txt", "com\u00b9", "CONIN$",
    "con .txt", "nul:x",
    "\uff0e\uff0e/x", "\u2025/x", "\u2024\u2024/x", "a\uff0fb", "a\u2215b", "a\u2044b", "a\u29f8b", "a\uff3cb",
    "a\ufe68b", "a\u2216b",
    "\uff23\uff2f\uff2e", "a\u202eb", "a\u200bb", "a\ufeffb", "a\u2028b", "a\u2066b", "a\ud800b", "a\ue000b",
    "a\ufdd0b", "\U000e0041",
    "x" * 256, "\u00e9" * 128, "e\u0301" * 128, "/".join(["abcdefghi"] * 100), "\u2026", "\u2025", ". .",
]  # fmt: skip

FINE = [
    "a", "a/b/c.txt", ".hidden", "..a", "a..b", "a b.txt", " a", "-rf", "~", "xy:z", "10:30.log", "Caf\u00e9",
    "\u65e5\u672c\u8a9e.txt",
    "Screenshot at 1.00\u202fPM.png", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\U0001f469\u200d\U0001f52c.png", "con1", "common", "nulls/x", "com10",
    "$RECYCLE.BIN", "a%20b", "%2e%2e", "a|b", "a*b?", "m\u00b2.txt", "mrt-erc.txt", "x" * 255,
]  # fmt: skip


@pytest.mark.parametrize("name", TRICKS)
def test_a_malicious_name_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(BadValue, match=r"^file name ") as error:
        check_file_name(name)
    assert len(error.value.why) > 5


@pytest.mark.parametrize("value", [None, 7, b"a", ["a"]])
def test_a_name_that_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(BadValue, match="not text"):
        check_file_name(value)


@pytest.mark.parametrize("name", FINE)
def test_an_unusual_name_is_still_a_name(name: str) -> None:
    assert check_file_name(name) == name


def test_a_name_is_kept_composed() -> None:
    assert check_file_name("Cafe\u0301") == "Caf\u00e9"


def accepted(name: str) -> str | None:
    try:
        return check_file_name(name)
    except BadValue:
        return None


def stays_below(name: str) -> None:
    root = "/root/of/object"
    target = os.path.normpath(os.path.join(root, name))  # noqa: PTH118  pathlib would not resolve '..'
    assert target == f"{root}/{name}"
    assert Path(name).parts == tuple(name.split("/"))
    assert name == unicodedata.normalize("NFC", name) == check_file_name(name)
    assert all(len(part.encode()) <= 255 for part in name.split("/"))
    assert "\\" not in name
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name)


def test_of_fifty_thousand_random_names_none_leaves_its_folder() -> None:
    dice = random.Random(20261115)
    pieces = [
        "..",
        ".",
        "/",
        "//",
        "\\",
        "\0",
        "a",
        "B",
        "con",
        "C:",
        " ",
        "\n",
        "\uff0e",
        "\u2025",
        "\u2215",
        "e\u0301",
        "\u200d",
        "x" * 90,
    ]
    taken = 0
    for _ in range(50_000):
        name = accepted("".join(dice.choices(pieces, k=dice.randint(1, 6))))
        if name is not None:
            taken += 1
            stays_below(name)
    assert 1000 < taken < 25_000


@given(st.text(max_size=40))
def test_any_text_stays_below_its_folder_or_is_refused(text: str) -> None:
    name = accepted(text)
    if name is not None:
        stays_below(name)


# ---------------------------------------------------------------- two names, one place


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "a"), ("Caf\u00e9", "Cafe\u0301"), ("a\u200db", "ab"), ("\u212b", "\u00c5"),
        ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("\u00c5/b", "A\u030a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["", "the disk"])
def test_names_of_one_place_collide(one: str, other: str, place: str) -> None:
    (found,) = collisions([one, "between", other], place)
    assert (found.earlier, found.index) == (0, 2)
    assert repr(other) in found.why
    assert "case" not in found.why


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "A"), ("Caf\u00e9", "cafe\u0301"), ("stra\u00dfe", "STRASSE"), ("x/A", "X/a"), ("\u212b", "\u00e5"),
        ("A/b/c", "a/B"), ("a/b", "A"),
    ],
)  # fmt: skip
def test_names_that_differ_in_case_collide_only_where_a_place_cannot_keep_them_apart(one: str, other: str) -> None:
    assert list(collisions([one, "between", other])) == []
    (found,) = collisions([one, "between", other], "the disk")
    assert (found.earlier, found.index) == (0, 2)
    if "/" not in one + other or one.count("/") == other.count("/"):
        assert "only in case, and the disk does not keep such names apart; rename one of them, or move" in found.why


def test_each_later_name_is_reported_with_the_first() -> None:
    names = ["a", "b", "A", "a", "b"]
    assert [(found.earlier, found.index) for found in collisions(names)] == [(0, 3), (1, 4)]
    assert [(found.earlier, found.index) for found in collisions(names, "it")] == [(0, 2), (0, 3), (1, 4)]


def test_a_folder_is_tested_for_case_sensitivity(tmp_path: Path) -> None:
    """A second name for a file simulates a file system that finds a file by any spelling."""
    (tmp_path / ".Mark 1").touch()
    assert keeps_case(tmp_path, ".Mark 1")
    assert keeps_case(tmp_path, "missing")
    (tmp_path / ".mARK 1").touch()
    assert keeps_case(tmp_path, ".Mark 1"), "another file of that spelling"
    (tmp_path / ".mARK 1").unlink()
    (tmp_path / ".mARK 1").hardlink_to(tmp_path / ".Mark 1")
    assert not keeps_case(tmp_path, ".Mark 1")
    assert probe_case(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {".Mark 1", ".mARK 1"}


def test_files_of_one_folder_do_not_collide() -> None:
    assert list(collisions(["a/b", "a/c", "a/d/e", "A/f", "ab", "a.txt"])) == []


@given(st.lists(st.text("aAbB/\u00e9\u00c9", min_size=1, max_size=4).filter(accepted), max_size=12))
def test_without_a_collision_every_place_is_used_once(names: list[str]) -> None:
    for place, key in (("", same_letters), ("the disk", same_place)):
        keys = [key(name) for name in names]
        inside = any(one != other and other.startswith(one + "/") for one in keys for other in keys)
        assert any(collisions(names, place)) is (inside or len(set(keys)) < len(keys))


@given(st.text(max_size=20))
def test_the_key_of_a_place_is_its_own(name: str) -> None:
    key = same_place(name)
    assert same_place(key) == key
    assert same_place(name.upper().lower()) == same_place(unicodedata.normalize("NFD", name.upper().lower()))

"""Every rule of OCFL that an object can break, by code; and the same verdicts as the independent validator."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from headgate.ingest.storage.verifying import KeyTree
from headgate.ingest.validation.codes import CODES
from headgate.ingest.validation.findings import MOST_FINDINGS, RuleFinding
from headgate.ingest.validation.objects import Validation, validate_object
from headgate.ingest.validation.trees import FolderTree
from tests.ingest.ocfl_broken import BROKEN
from tests.ingest.ocfl_mutants import FORMS, make_damaged, make_grown, make_mutants
from tests.ingest.ocfl_objects import (
    MD5_OF_ONE,
    Broken,
    Document,
    Maker,
    copy_inventory,
    of_each_version,
    put,
    remove,
    write,
    write_inventory,
)
from tests.ingest.validator import verdicts

#: Valid variants of objects of other tools.
WHOLE: dict[str, Maker] = {
    "usual": Maker(),
    "padded": Maker(width=5),
    "another content directory": Maker(directory="data"),
    "one version": Maker(versions=({"a.txt": b"one"},)),
    "no files": Maker(versions=({}, {"a.txt": b"one"}, {})),
    "many versions": Maker(versions=[{"a.txt": b"%d" % number} for number in range(12)]),
    "every fixity": Maker(fixity=("md5", "sha1", "sha256", "sha512")),
    "no fixity": Maker(fixity=()),
    "names of all kinds": Maker(
        versions=({"ünï cödé \u202e.txt": b"1", " ": b"2", "a\\b": b"3", "A": b"4", "a": b"5"},)
    ),
}


def findings(root: Path, **how: Any) -> list[RuleFinding]:
    return list(validate_object(FolderTree(root), **how).findings)


def codes(found: list[RuleFinding]) -> set[str]:
    return {each.code for each in found}


@contextmanager
def opened(root: Path, path: str) -> Iterator[BinaryIO]:
    with BytesIO((root / path).read_bytes()) as source:
        yield source


def as_keys(root: Path) -> Validation:
    """The same object in a bucket: files, without folders."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    sizes = {str(path.relative_to(root)): path.stat().st_size for path in files}
    return validate_object(KeyTree(sizes, lambda path: opened(root, path)))


# ---------------------------------------------------------------- valid objects


@pytest.mark.parametrize(("specification", "algorithm"), FORMS)
@pytest.mark.parametrize("what", WHOLE)
def test_a_valid_object_has_no_errors(tmp_path: Path, what: str, specification: str, algorithm: str) -> None:
    maker = WHOLE[what]
    maker.specification, maker.algorithm = specification, algorithm
    root = maker.make(tmp_path / "object")
    warnings = {"W004"} if algorithm == "sha256" else set()
    assert codes(findings(root)) == warnings | ({"W001"} if what == "padded" else set())
    assert codes(list(as_keys(root).findings)) == codes(findings(root))
    found = validate_object(FolderTree(root))
    assert found.declared == specification
    assert found.inventory is not None
    assert found.inventory.id == maker.object_id


def test_an_object_that_moved_to_another_version_and_algorithm_is_valid(tmp_path: Path) -> None:
    """The first version is of OCFL 1.0 with sha256, the second of 1.1 with sha512."""
    root = Maker("1.1", "sha512").make(tmp_path / "object")
    first = Maker("1.0", "sha256", versions=Maker().versions[:1]).make(tmp_path / "first")
    for path in (root / "v1").glob("inventory.json*"):
        path.unlink()
    for path in (first / "v1").glob("inventory.json*"):
        path.rename(root / "v1" / path.name)
    assert codes(findings(root)) == {"W004"}
    (root / "v1/content/a.txt").write_bytes(b"0n3")
    assert {each.code for each in findings(root)} == {"W004", "E092", "E093"}


def test_digests_in_capitals_are_the_same_digests(tmp_path: Path) -> None:
    def upper(document: Document, _number: int) -> None:
        document["manifest"] = {digest.upper(): paths for digest, paths in document["manifest"].items()}
        for version in document["versions"].values():
            version["state"] = {digest.upper(): paths for digest, paths in version["state"].items()}
        document["fixity"]["md5"] = {value.upper(): paths for value, paths in document["fixity"]["md5"].items()}

    root = Maker(edit=upper).make(tmp_path / "object")
    for sidecar in root.rglob("inventory.json.sha512"):
        sidecar.write_text(sidecar.read_text().replace("inventory.json", "").strip().upper() + "\t inventory.json")
    assert findings(root) == []


# ---------------------------------------------------------------- each code


def test_there_is_a_broken_object_for_every_code_that_is_found() -> None:
    assert set(BROKEN) == {code for code, said in CODES.items() if not said.unused}
    assert all(said.rule.endswith(".") and (not said.unused or said.unused.endswith(".")) for said in CODES.values())


CASES = [(code, index) for code, ways in BROKEN.items() for index in range(len(ways))]


@pytest.mark.parametrize(("code", "index"), CASES)
def test_a_broken_object_is_reported_with_its_code(tmp_path: Path, code: str, index: int) -> None:
    broken = BROKEN[code][index]
    found = findings(broken.make(tmp_path / "object"))
    assert code in codes(found), found
    assert all(each.why and not each.path.startswith("/") for each in found)
    if code.startswith("W"):
        assert [each for each in found if not each.is_warning] == []


@pytest.mark.parametrize("code", [code for code in BROKEN if code not in ("E060", "E061", "E064")])
def test_codes_do_not_depend_on_version_and_algorithm(tmp_path: Path, code: str) -> None:
    for number, form in enumerate(FORMS):
        assert code in codes(findings(BROKEN[code][0].make(tmp_path / str(number), *form)))


#: Only a file system has links, pipes and empty folders.
_OF_FOLDERS = {"E024", "E089", "E090", "W003"}


@pytest.mark.parametrize(("code", "index"), [case for case in CASES if case[0] not in _OF_FOLDERS])
def test_a_bucket_is_checked_by_the_same_rules(tmp_path: Path, code: str, index: int) -> None:
    root = BROKEN[code][index].make(tmp_path / "object")
    here, there = findings(root), list(as_keys(root).findings)
    if any(path.is_fifo() or (path.is_dir() and not any(path.iterdir())) for path in root.rglob("*")):
        return
    assert set(there) == set(here)


# ---------------------------------------------------------------- arbitrary damage


def test_a_path_that_is_not_a_folder_is_reported(tmp_path: Path) -> None:
    assert codes(findings(tmp_path / "nothing")) == {"", "E003", "E063"}
    (tmp_path / "file").write_bytes(b"")
    assert codes(findings(tmp_path / "file")) == {"", "E003", "E063"}


def test_a_file_that_no_inventory_lists_is_reported_once(tmp_path: Path) -> None:
    root = Maker().make(tmp_path / "object")
    (root / "v1/content/stray").write_bytes(b"")
    assert [(each.code, each.path, each.why) for each in findings(root)] == [
        ("E023", "v1/content/stray", "it is not in the manifest of inventory.json")
    ]


def test_names_that_are_not_utf_8_are_reported(tmp_path: Path) -> None:
    root = Maker().make(tmp_path / "object")
    (root / os.fsdecode(b"v1/content/\xff.txt")).write_bytes(b"")
    (root / os.fsdecode(b"\xfe")).write_bytes(b"")
    found = findings(root)
    assert {(each.code, each.path) for each in found} == {("E023", "v1/content/\\udcff.txt"), ("E001", "\\udcfe")}
    json.dumps([each.path for each in found]).encode()


def test_a_pipe_in_place_of_an_inventory_is_reported_and_not_read(tmp_path: Path) -> None:
    """Reading it would wait for a writer forever, as the independent validator does."""
    root = Broken(files=remove("v1/inventory.json*")).make(tmp_path / "object")
    os.mkfifo(root / "v1/inventory.json")
    assert {(each.code, each.path) for each in findings(root)} == {("E015", "v1/inventory.json"), ("W010", "v1")}
    (root / "inventory.json").unlink()
    os.mkfifo(root / "inventory.json")
    assert "E063" in codes(findings(root))


def test_a_folder_in_place_of_an_inventory_is_reported(tmp_path: Path) -> None:
    """The independent validator ends with a traceback."""
    root = Broken(files=remove("v1/inventory.json*")).make(tmp_path / "object")
    (root / "v1/inventory.json").mkdir()
    assert {(each.code, each.path) for each in findings(root)} == {("W002", "v1/inventory.json"), ("W010", "v1")}


def test_a_file_that_cannot_be_read_is_reported_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Maker().make(tmp_path / "object")
    (root / "v2/content/a.txt").write_bytes(b"damaged")
    plain = FolderTree.blocks

    def failing(tree: FolderTree, path: str) -> Iterator[bytes]:
        if path == "v1/content/a.txt":
            raise PermissionError(13, "Permission denied")
        return plain(tree, path)

    monkeypatch.setattr(FolderTree, "blocks", failing)
    found = {(each.code, each.path): each.why for each in findings(root)}
    assert found["", "v1/content/a.txt"] == "it cannot be read: Permission denied"
    assert ("E092", "v2/content/a.txt") in found


def test_paths_of_any_depth_are_walked_or_reported(tmp_path: Path) -> None:
    root = Maker().make(tmp_path / "object")
    here = os.open(root / "v1/content", os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (found,) = findings(root)
    assert (found.code, found.why) == ("", "its path has more than 4,096 characters")


def test_a_long_list_of_findings_is_cut_off(tmp_path: Path) -> None:
    root = Maker(versions=[{f"{number}.txt": b"%d" % number for number in range(MOST_FINDINGS + 50)}]).make(
        tmp_path / "o"
    )
    for path in (root / "v1/content").iterdir():
        path.write_bytes(b"x")
    found = findings(root)
    assert len(found) == MOST_FINDINGS + 1
    assert found[-1].why == "there are more than 1,000 findings; the rest is left out"


def test_long_values_are_cut(tmp_path: Path) -> None:
    root = Broken(edit=lambda document: document.update(id=7, type="x" * 1_000_000)).make(tmp_path / "object")
    assert max(len(each.why) for each in findings(root)) < 700


def test_no_inventory_breaks_the_validator(tmp_path: Path) -> None:
    for root in make_mutants(tmp_path, 150, 7):
        found = validate_object(FolderTree(root))
        assert all(isinstance(each, RuleFinding) for each in found.findings)
        assert set(as_keys(root).findings) == set(found.findings)


def test_no_damage_to_files_breaks_the_validator(tmp_path: Path) -> None:
    for root in make_damaged(tmp_path, 150, 13):
        found = list(validate_object(FolderTree(root)).findings)
        json.dumps([(each.code, each.path, each.why) for each in found]).encode()
        if all(any(path.iterdir()) for path in root.rglob("*") if path.is_dir()):  # A bucket has no empty folders.
            assert set(as_keys(root).findings) == set(found), root


# ---------------------------------------------------------------- comparison with the independent validator


def raw_inventories(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def files(root: Path) -> None:
        raw = change((root / "inventory.json").read_bytes())
        for place in (root, root / "v2"):
            write_inventory(place, raw, "sha512")

    return files


def into_the_first_version(root: Path) -> None:
    for path in (root / "v2/content").iterdir():
        path.rename(root / "v1/content" / path.name)
    (root / "v2/content").rmdir()


def follow_a_link(root: Path) -> None:
    outside = root.with_name("outside")
    (root / "v1/content/a.txt").rename(outside)
    (root / "v1/content/a.txt").symlink_to(outside)


def small_letters(version: Document) -> None:
    version["created"] = version["created"].lower()


def capitals_in_sidecars(root: Path) -> None:
    for path in root.rglob("inventory.json.sha512"):
        digest, name = path.read_text().split()
        path.write_text(f"{digest.upper()} {name}\n")


def write_on_in_a_sidecar(root: Path) -> None:
    with (root / "v1/inventory.json.sha512").open("ab") as sidecar:
        sidecar.write(b"\xd5")


def late_file(document: Document) -> None:
    """The file of the second version is in the first one, whose inventory does not list it."""
    moved = {"v2/content/b.txt": "v1/content/b.txt"}
    for block in (document["manifest"], document["fixity"]["md5"]):
        for digest, paths in block.items():
            block[digest] = [moved.get(path, path) for path in paths]


#: Invalid objects that ocfl-py 2.1.0 calls valid: the codes that we report, the words of the specification, and the
#: object.
STRICTER: dict[str, tuple[str, Broken]] = {
    "E102": (
        "Section 3.5: an inventory MUST NOT have keys that are not described. ocfl-py does not look for any.",
        Broken(lambda document: document.update(note="x")),
    ),
    "E007": (
        "Section 3.2: the declaration MUST end with a line feed. ocfl-py looks at the rest alone.",
        Broken(files=lambda root: (root / "0=ocfl_object_1.1").write_text("ocfl_object_1.1")),
    ),
    "E054": (
        "Section 3.5.3.1: a user MUST have a name, which is any readable one. ocfl-py takes an empty one.",
        Broken(of_each_version(put("user", value={"name": "", "address": "mailto:a@example.org"}))),
    ),
    "E092 E107": (
        "Section 3.5.2: the array has paths, and every digest is in a state. ocfl-py passes over one without files.",
        Broken(put("manifest", "0" * 128, value=[])),
    ),
    "E033": (
        "RFC 8259, section 4: with a name twice in an object, readers differ in what they see. ocfl-py takes the last.",
        Broken(files=raw_inventories(lambda raw: raw.replace(b'"head"', b'"head": "v2", "head"'))),
    ),
    "E061": (
        "Section 3.4: the sidecar MUST have the form DIGEST inventory.json. ocfl-py reads its first line alone.",
        Broken(files=write_on_in_a_sidecar),
    ),
    "E015": (
        "Section 3.3: a version directory MUST have no other files. ocfl-py takes one named content.",
        Broken(files=write("v2/content"), change={"versions": ({"a.txt": b"one"}, {"a.txt": b"one"})}),
    ),
    "E023": (
        "Section 3.3.1: a file MUST be in the manifest of its version's inventory. ocfl-py looks at the current one.",
        Broken(
            late_file,
            only=2,
            files=into_the_first_version,
            change={"versions": ({"a.txt": b"one"}, {"a.txt": b"one", "b.txt": b"two"})},
        ),
    ),
    "E038": (
        "Section 3.5.1: the type MUST be that of the declared version. ocfl-py itself makes others.",
        Broken(
            put("type", value="https://ocfl.io/1.1/spec/#inventory"),
            only=2,
            change={"specification": "1.0"},
        ),
    ),
    "E040": (
        "Section 3.5.1: head MUST be the newest version. ocfl-py does not compare it with the version's directory.",
        Broken(
            files=copy_inventory("v1", "v2"),
            change={"versions": ({"a.txt": b"one"}, {"a.txt": b"one"}, {"a.txt": b"one"})},
        ),
    ),
    "E101": (
        "Section 3.5.4: fixity MUST have the structure of the manifest, where paths are unique. ocfl-py takes two.",
        Broken(put("fixity", value={"md5": {MD5_OF_ONE: ["v1/content/a.txt", "v1/content/a.txt"]}})),
    ),
    "E090 E092": (
        "Section 4.6: links MUST NOT be used. ocfl-py follows symbolic ones, and does not look for hard ones.",
        Broken(files=follow_a_link, change={"fixity": ()}),
    ),
}
#: Valid objects that ocfl-py calls invalid, by its findings.
LAXER: dict[str, tuple[str, Broken]] = {
    "E056": (
        "Extension 0009 names sha512/256 and size. ocfl-py knows neither.",
        Broken(put("fixity", value={"size": {"3": ["v1/content/a.txt"]}, "sha512/256": {}})),
    ),
    "E060": (
        "Section 3.4: base16 digests are case insensitive. ocfl-py compares the letters of the sidecar.",
        Broken(files=capitals_in_sidecars),
    ),
    "E049": (
        "RFC 3339, section 5.6: T and Z may be small letters. ocfl-py wants capitals.",
        Broken(of_each_version(small_letters)),
    ),
}
_STRICTER, _LAXER = ({code for each in table for code in each.split()} for table in (STRICTER, LAXER))


def compare(roots: list[Path]) -> tuple[int, set[str]]:
    """The number of equal verdicts, and the codes that explain the others.

    Fails for a difference that nothing explains.
    """
    agreed, explained, unexplained = 0, set(), []
    for root, (valid, theirs) in zip(roots, verdicts(roots), strict=True):
        ours = validate_object(FolderTree(root)).errors
        if valid is None:
            # It ended with a traceback: no verdict, but no valid object breaks the validator in this way.
            assert ours, root
        elif valid == (not ours):
            agreed += 1
        elif valid and (reason := codes(ours)) <= _STRICTER | {"E055"}:
            explained |= reason
        elif not valid and theirs <= _LAXER:
            explained |= theirs
        else:
            unexplained.append((root.name, valid, sorted(theirs), [(each.code, each.why) for each in ours]))
    assert unexplained == []
    return agreed, explained


def test_the_independent_validator_agrees_on_every_object_of_these_tests(tmp_path: Path) -> None:
    roots = [BROKEN[code][index].make(tmp_path / f"{code}-{index}") for code, index in CASES]
    for number, (what, maker) in enumerate(WHOLE.items()):
        for specification, algorithm in FORMS:
            maker.specification, maker.algorithm = specification, algorithm
            roots.append(maker.make(tmp_path / f"{number}-{what}-{specification}-{algorithm}"))
    agreed, _ = compare(roots)
    assert agreed > len(roots) * 0.7


def test_the_independent_validator_agrees_on_objects_that_were_changed_at_random(tmp_path: Path) -> None:
    """Where it ends with a traceback, which happens to one in five, there is no verdict to compare."""
    roots = make_mutants(tmp_path, 200, 11)
    agreed, _ = compare(roots)
    assert agreed > len(roots) * 0.6


def test_the_independent_validator_agrees_on_objects_whose_files_were_damaged_at_random(tmp_path: Path) -> None:
    roots = make_damaged(tmp_path, 150, 17)
    agreed, _ = compare(roots)
    assert agreed > len(roots) * 0.8


def test_the_independent_validator_agrees_on_objects_of_several_forms_that_were_changed_at_random(
    tmp_path: Path,
) -> None:
    roots = make_grown(tmp_path, 150, 23)
    agreed, _ = compare(roots)
    assert agreed > len(roots) * 0.8
    for root in roots:
        if all(any(path.iterdir()) for path in root.rglob("*") if path.is_dir()):  # A bucket has no empty folders.
            assert set(as_keys(root).findings) == set(findings(root)), root


@pytest.mark.parametrize("difference", STRICTER)
def test_a_broken_object_that_the_independent_validator_accepts(tmp_path: Path, difference: str) -> None:
    root = STRICTER[difference][1].make(tmp_path / "object")
    assert codes(findings(root)) == set(difference.split())
    assert compare([root]) == (0, set(difference.split()))


@pytest.mark.parametrize("difference", LAXER)
def test_a_valid_object_that_the_independent_validator_refuses(tmp_path: Path, difference: str) -> None:
    root = LAXER[difference][1].make(tmp_path / "object")
    assert codes(findings(root)) <= {"W011"}
    assert compare([root]) == (0, {difference})


def test_an_inventory_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.ingest.validation.objects.LARGEST_INVENTORY", 100)
    root = Maker().make(tmp_path / "object")
    (found,) = findings(root)
    assert (found.code, found.path, found.why) == ("", "inventory.json", "it has more than 100 bytes and is not read")

"""Objects of every kind that can be stored: valid for the independent validator, and without warnings by ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.ingest.formats.hashing import data_digests
from headgate.ingest.storage.ocfl_layout import home_of
from headgate.ingest.storage.port import NewFile, ObjectChange
from headgate.ingest.validation.objects import validate_object
from headgate.ingest.validation.trees import FolderTree
from tests.ingest.shelves import Shelf, disk_shelf
from tests.ingest.validator import validate

#: OCFL advises against sha256, which depositors' manifests and the inventory use.
ADVISED_AGAINST = {"W004"}


@dataclass(frozen=True)
class Step:
    """One version: the submitted files, and for an update the removed ones."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    keep: bool = False


SYSTEM = {"system/mrt-erc.txt": b"erc: \nwhat: A title\n", "system/mrt-owner.txt": b"ark:/99999/fk4owner"}
KINDS: Mapping[str, Sequence[Step]] = {
    "one file": [Step({"producer/a.txt": b"one"})],
    "with system files": [Step({"producer/a.txt": b"one", **SYSTEM})],
    "no files": [Step()],
    "no files any more": [Step({"a": b"1"}), Step()],
    "a file without bytes": [Step({"producer/empty": b"", "producer/also": b""})],
    "the same bytes under two names": [Step({"a": b"1", "b": b"1", "deep/c": b"1"})],
    "a new version": [Step({"a": b"1", "b": b"2"}), Step({"a": b"3", "b": b"2"})],
    "a version as the one before": [Step({"a": b"1"}), Step({"a": b"1"})],
    "a file that comes back": [Step({"a": b"1"}), Step({"b": b"2"}), Step({"a": b"1"})],
    "a file that is renamed": [Step({"a": b"1"}), Step({"b": b"1"})],
    "an update that keeps": [Step({"a": b"1"}), Step({"b": b"2"}, keep=True)],
    "an update that removes": [Step({"a": b"1", "b": b"2"}), Step(remove=("a",), keep=True)],
    "an update that removes all": [Step({"a": b"1"}), Step(remove=("a",), keep=True)],
    "a file in place of a folder": [Step({"a/b": b"1"}), Step({"a": b"2"})],
    "names that differ in case": [Step({"A.txt": b"1", "a.txt": b"2", "B/x": b"3", "b/x": b"4"})],
    "names of all kinds": [
        Step({name: name.encode() for name in (
            "ünï/cödé", "a b", "a|b", "a%20b", ".hidden", "x" * 200, "é", "日本", "v1", "content/v1", "inventory.json",
            "0=ocfl_object_1.1", "a" * 60 + "/" + "b" * 60 + "/c",
        )})
    ],
    "many versions": [Step({"a": b"%d" % number, "same": b"s"}) for number in range(12)],
    "many files": [Step({f"{number % 7}/{number}": b"%d" % number for number in range(200)})],
}  # fmt: skip
#: Every additional digest that a manifest may contain, including those that OCFL does not define.
DIGESTS = ("sha256", "md5", "sha1", "sha384", "sha512", "crc32", "adler32")


def new_file(shelf: Shelf, content: bytes) -> NewFile:
    plain = shelf.file(content)
    known = data_digests(content, DIGESTS)
    return NewFile(plain.path, plain.size, {**known, **plain.digests})


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kinds in one storage root."""
    folder = tmp_path_factory.mktemp("kinds")
    shelf = disk_shelf(folder)
    for kind, steps in KINDS.items():
        for number, step in enumerate(steps):
            files = {name: new_file(shelf, content) for name, content in step.files.items()}
            shelf.put(f"jid{number}", ObjectChange(files, keep=step.keep, remove=step.remove), ark_of(kind))
    return folder


def ark_of(kind: str) -> str:
    return f"ark:/99999/fk4{list(KINDS).index(kind):03}"


def test_the_independent_validator_finds_neither_error_nor_warning(stored: Path) -> None:
    validate(stored / "storage")


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_object_is_valid_and_has_the_submitted_content(stored: Path, kind: str) -> None:
    home = stored / "storage" / home_of(ark_of(kind))
    assert {each.code for each in validate_object(FolderTree(home)).findings} == ADVISED_AGAINST
    storage, expected = disk_shelf(stored).storage, dict[str, bytes]()
    for number, step in enumerate(KINDS[kind], 1):
        expected = {**(expected if step.keep else {}), **step.files}
        expected = {name: content for name, content in expected.items() if name not in step.remove}
        version = storage.list_versions(ark_of(kind))[number - 1]
        assert {each.name for each in version.files} == set(expected)
        for name, content in expected.items():
            with storage.read(ark_of(kind), name, number) as source:
                assert source.read() == content
    assert storage.verify(ark_of(kind)) == []

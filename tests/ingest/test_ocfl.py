"""The OCFL storage: versions that are whole or not there, found in order by an independent validator."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headgate.core.errors import (
    BadPayload,
    BadValue,
    ForeignStore,
    ServiceUnavailable,
    UnknownName,
    VersionLost,
    WorkStopped,
)
from headgate.ingest.ocfl import OcflStorage
from headgate.ingest.storage import Change, NewFile, Note, Storage, export
from tests.ingest.validator import validate

ARK = "ark:/13030/m5br8stc"
WHEN = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


class Shelf:
    """A storage with a folder of files to be stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "storage"
        self.staging = folder / "storage.staging"
        self.storage = OcflStorage(self.root)

    def files(self, **contents: bytes) -> dict[str, NewFile]:
        return {name.replace("__", "/").replace("_", "."): self.file(content) for name, content in contents.items()}

    def file(self, content: bytes) -> NewFile:
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"source-{digest[:16]}"
        path.write_bytes(content)
        return NewFile(path, len(content), {"sha256": digest, "md5": hashlib.md5(content).hexdigest()})  # noqa: S324

    def put(self, operation: str, change: Change, object_id: str = ARK) -> int:
        note = Note(operation, WHEN, "as submitted", "ann", "mailto:ann@example.org")
        return self.storage.put_version(object_id, change, note).number

    def read(self, name: str, version: int | None = None) -> bytes:
        with self.storage.read(ARK, name, version) as source:
            return source.read()

    def home(self) -> Path:
        (declaration,) = self.root.glob("*/*/*/*/0=*")
        return declaration.parent


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_versions_are_stored_read_and_valid(shelf: Shelf) -> None:
    assert shelf.put("jid1", Change(shelf.files(a_txt=b"one", deep__b_txt=b"bee", copy_txt=b"one"))) == 1
    assert shelf.put("jid2", Change(shelf.files(a_txt=b"two", new_txt=b"bee"), keep=True, remove=["copy.txt"])) == 2
    assert shelf.put("jid3", Change(shelf.files(only_txt=b"one"))) == 3
    states = [{each.name for each in version.files} for version in shelf.storage.list_versions(ARK)]
    assert states == [{"a.txt", "deep/b.txt", "copy.txt"}, {"a.txt", "deep/b.txt", "new.txt"}, {"only.txt"}]
    assert [shelf.read("a.txt", 1), shelf.read("a.txt", 2), shelf.read("only.txt")] == [b"one", b"two", b"one"]
    assert shelf.storage.verify(ARK) == []
    assert list(shelf.staging.iterdir()) == []
    validate(shelf.root)


def test_a_version_says_what_it_is(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"one")))
    shelf.put("jid2", Change(shelf.files(b_txt=b"two"), keep=True))
    _, version = shelf.storage.list_versions(ARK)
    assert (version.object_id, version.number, version.created, version.message, version.operation, version.size) == (
        ARK, 2, WHEN, "as submitted", "jid2", 6,
    )  # fmt: skip
    assert [(each.name, each.size, each.since) for each in version.files] == [("a.txt", 3, 1), ("b.txt", 3, 2)]


def test_bytes_that_an_object_has_are_not_stored_again(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"same", b_txt=b"same")))
    shelf.put("jid2", Change(shelf.files(c_txt=b"same", d_txt=b"other")))
    stored = sorted(path.name for path in shelf.home().glob("v*/content/*"))
    assert stored == ["a.txt", "d.txt"]
    validate(shelf.root)


def test_an_object_lies_where_layout_0004_says(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"one")), "object-01")
    digest = "3c0ff4240c1e116dba14c7627f2319b58aa3d77606d0d90dfc6161608ac987d4"
    assert (shelf.root / "3c0" / "ff4" / "240" / digest / "inventory.json").is_file()
    assert list(shelf.storage.objects()) == ["object-01"]


def test_the_same_operation_stores_once(shelf: Shelf) -> None:
    change = Change(shelf.files(a_txt=b"one"))
    assert [shelf.put("jid1", change), shelf.put("jid1", change)] == [1, 1]
    assert shelf.put("jid2", Change(shelf.files(b_txt=b"two"))) == 2
    assert shelf.put("jid1", change) == 1
    assert len(shelf.storage.list_versions(ARK)) == 2
    with pytest.raises(BadValue, match="stored other files before"):
        shelf.put("jid1", Change(shelf.files(a_txt=b"another")))


def test_who_is_second_stores_nothing(shelf: Shelf) -> None:
    """Another writer comes between the plan of a version and its commit."""
    for first in (True, False):
        seen = len(shelf.storage.list_versions(ARK))
        other = OcflStorage(shelf.root)

        def interfere(_size: int, other: OcflStorage = other, first: bool = first) -> None:
            other.put_version(ARK, Change(shelf.files(b_txt=b"b")), Note(f"other{first}", WHEN))

        note = Note(f"mine{first}", WHEN)
        with pytest.raises(VersionLost):
            shelf.storage.put_version(ARK, Change(shelf.files(a_txt=str(first).encode())), note, progress=interfere)
        assert len(shelf.storage.list_versions(ARK)) == seen + 1
    assert list(shelf.staging.iterdir()) == []
    validate(shelf.root)


def test_an_object_that_was_made_anew_meanwhile_is_another_one(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"one")))

    def interfere(_size: int) -> None:
        shelf.storage.delete(ARK)
        shelf.put("anew", Change(shelf.files(a_txt=b"anew")))

    with pytest.raises(VersionLost):
        shelf.storage.put_version(ARK, Change(shelf.files(b_txt=b"two")), Note("jid2", WHEN), progress=interfere)
    assert shelf.read("a.txt") == b"anew"
    validate(shelf.root)


def test_a_deleted_object_leaves_nothing(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"one")))
    shelf.storage.delete(ARK)
    shelf.storage.delete(ARK)
    assert shelf.storage.list_versions(ARK) == ()
    assert sorted(path.name for path in shelf.root.iterdir()) == ["0=ocfl_1.1", "extensions", "ocfl_layout.json"]
    assert list(shelf.staging.iterdir()) == []
    with pytest.raises(UnknownName, match="object"):
        shelf.read("a.txt")


def test_what_is_not_there_is_named(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"one")))
    with pytest.raises(UnknownName, match=r"b\.txt"):
        shelf.read("b.txt")
    with pytest.raises(UnknownName, match="v7"):
        shelf.read("a.txt", 7)


# ---------------------------------------------------------------- bad input


def test_a_file_that_changed_since_it_was_checked_stores_nothing(shelf: Shelf) -> None:
    change = Change(shelf.files(a_txt=b"one", b_txt=b"two"))
    change.files["b.txt"].path.write_bytes(b"tvo")
    with pytest.raises(BadPayload, match="changed since"):
        shelf.put("jid1", change)
    change.files["b.txt"].path.unlink()
    with pytest.raises(BadPayload, match="missing"):
        shelf.put("jid1", change)
    assert shelf.storage.list_versions(ARK) == ()
    assert list(shelf.staging.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "a//b", "", "x\0"])
def test_names_that_lead_elsewhere_are_refused(shelf: Shelf, name: str) -> None:
    with pytest.raises(BadValue):
        shelf.put("jid1", Change({name: shelf.file(b"x")}))


@pytest.mark.parametrize("operation", ["", "two words", "x\ny"])
def test_an_operation_is_one_word(shelf: Shelf, operation: str) -> None:
    with pytest.raises(BadValue, match="operation"):
        shelf.put(operation, Change(shelf.files(a_txt=b"x")))


def test_storing_stops_when_it_is_told(shelf: Shelf) -> None:
    with pytest.raises(WorkStopped):
        shelf.storage.put_version(ARK, Change(shelf.files(a_txt=b"x")), Note("jid1", WHEN), stop=lambda: True)
    assert shelf.storage.list_versions(ARK) == ()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "letter.txt").write_text("dear")
    with pytest.raises(ForeignStore, match=r"letter\.txt"):
        OcflStorage(tmp_path / "root")


def test_a_root_of_another_layout_is_left_alone(shelf: Shelf) -> None:
    (config,) = shelf.root.glob("extensions/*/config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"tupleSize": 2}))
    with pytest.raises(ForeignStore, match="layout"):
        OcflStorage(shelf.root)


def test_a_disk_that_does_not_take_it_is_unavailable(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    change = Change(shelf.files(a_txt=b"one"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(ServiceUnavailable, match="No space left"):
            shelf.put("jid1", change)
    assert shelf.storage.list_versions(ARK) == ()


# ---------------------------------------------------------------- verifying, reading back


Damage = Callable[[Path], None]


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda home: (home / "v1/content/a.txt").write_bytes(b"onf"), "v1/content/a.txt"),
        (lambda home: (home / "v1/content/a.txt").unlink(), "v1/content/a.txt"),
        (lambda home: (home / "v1/content/more.txt").write_bytes(b""), "v1/content/more.txt"),
        (lambda home: (home / "inventory.json").write_bytes(b"{}"), "inventory.json"),
        (lambda home: (home / "inventory.json.sha256").unlink(), "inventory.json"),
        (lambda home: (home / "v1/inventory.json").write_bytes(b"{}"), "v1/inventory.json"),
        (lambda home: (home / "0=ocfl_object_1.1").unlink(), "0=ocfl_object_1.1"),
        (lambda home: (home / "v3").mkdir(), "v3"),
    ],
)
def test_any_damage_is_found(shelf: Shelf, damage: Damage, found: str) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=b"one", b_txt=b"two")))
    shelf.put("jid2", Change(shelf.files(c_txt=b"three")))
    damage(shelf.home())
    assert [problem.path for problem in shelf.storage.verify(ARK)] == [found]


def test_verifying_reads_every_byte_and_says_how_far_it_is(shelf: Shelf) -> None:
    shelf.put("jid1", Change(shelf.files(a_txt=bytes(3_000_000), b_txt=b"two")))
    sizes: list[int] = []
    assert shelf.storage.verify(ARK, progress=sizes.append) == []
    assert sum(sizes) == 3_000_003
    assert [each.why for each in shelf.storage.verify("ark:/99999/none")] == ["there is no such object"]


def test_a_version_is_taken_out_whole_or_not_at_all(shelf: Shelf) -> None:
    storage: Storage = shelf.storage
    shelf.put("jid1", Change(shelf.files(a_txt=b"one", deep__b_txt=b"two")))
    shelf.put("jid2", Change(shelf.files(c_txt=b"three")))
    out = shelf.folder / "out"
    export(storage, ARK, out, version=1)
    assert {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.txt")} == {
        "a.txt": b"one",
        "deep/b.txt": b"two",
    }
    with pytest.raises(BadValue, match="exists"):
        export(storage, ARK, out)
    (shelf.home() / "v2/content/c.txt").write_bytes(b"thref")
    with pytest.raises(BadPayload, match="sha256"):
        export(storage, ARK, shelf.folder / "second")
    assert not list(shelf.folder.glob("second*"))

"""`headgate ingest verify --folder`: objects of other tools are checked without a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate import BadValue
from headgate.ingest.objects.foreign import object_roots, verify_folder
from tests.cli.commands import Headgate
from tests.ingest.ocfl_broken import BROKEN
from tests.ingest.ocfl_objects import Maker


@pytest.fixture
def headgate(tmp_path: Path) -> Headgate:
    return Headgate("", tmp_path)


def storage_root(folder: Path) -> Path:
    """A storage root of another tool, with two objects, of which one is broken."""
    folder.mkdir()
    (folder / "0=ocfl_1.1").write_text("ocfl_1.1\n")
    (folder / "extensions").mkdir()
    (folder / "extensions/config.json").write_text("{}")
    Maker(object_id="info:example/whole").make(folder / "a/b/whole")
    Maker(object_id="info:example/broken", algorithm="sha256").make(folder / "c/broken")
    (folder / "c/broken/v1/content/a.txt").write_bytes(b"damaged")
    return folder


def test_a_valid_object_is_verified(headgate: Headgate, tmp_path: Path) -> None:
    Maker().make(tmp_path / "object")
    done = headgate("ingest", "verify", "--folder", "object")
    assert (done.code, done.out, done.err) == (0, "1 object, 11 bytes: no problems found\n", "")
    assert headgate("ingest", "verify", "--folder", "object", "--json").json == {
        "objects": 1, "bytes": 11, "problems": [], "warnings": [],
    }  # fmt: skip


def test_every_object_of_a_storage_root_is_verified(headgate: Headgate, tmp_path: Path) -> None:
    storage_root(tmp_path / "root")
    done = headgate("ingest", "verify", "--folder", "root")
    assert done.code == 1
    first, second, last = done.out.splitlines()
    assert first.startswith("info:example/broken v1/content/a.txt: E092 checksum mismatch: expected sha256 ")
    assert second.startswith("info:example/broken v1/content/a.txt: E093 checksum mismatch: expected md5 ")
    assert last == "2 problems in 2 objects, 26 bytes"
    document = headgate("ingest", "verify", "--folder", "root", "--warnings", "--json").json
    assert [(each["code"], each["path"]) for each in document["problems"]] == [
        ("E092", "v1/content/a.txt"), ("E093", "v1/content/a.txt"),
    ]  # fmt: skip
    assert {(each["object_id"], each["code"]) for each in document["warnings"]} == {("info:example/broken", "W004")}
    assert set(document["problems"][0]) == {"object_id", "path", "why", "code"}


def test_warnings_alone_are_not_a_failure(headgate: Headgate, tmp_path: Path) -> None:
    Maker(width=3).make(tmp_path / "object")
    done = headgate("ingest", "verify", "--folder", "object", "--warnings")
    assert done.code == 0
    assert "inventory.json: W001 the versions are zero-padded: 'v001'" in done.out


@pytest.mark.parametrize("words", [["--folder", "nothing"], ["--folder", "empty"], ["--folder", "file"]])
def test_a_folder_without_objects_is_an_error(headgate: Headgate, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    done = headgate("ingest", "verify", *words)
    assert (done.code, done.out) == (2, "")
    assert "folder" in done.err
    assert "Traceback" not in done.err


def test_objects_and_a_folder_are_not_verified_together(headgate: Headgate) -> None:
    done = headgate("ingest", "verify", "ark:/99999/fk4", "--folder", "x")
    assert (done.code, "not both" in done.err) == (2, True)


def test_an_object_without_a_declaration_or_without_an_inventory_is_one(tmp_path: Path) -> None:
    root = BROKEN["E003"][0].make(tmp_path / "object")
    assert object_roots(tmp_path) == [root]
    assert [each.code for each in verify_folder(root)] == ["E003"]
    (bare,) = object_roots(BROKEN["E063"][0].make(tmp_path / "other"))
    assert [(each.object_id, each.code) for each in verify_folder(bare)] == [(str(bare), "E063")]


def test_links_are_not_followed_to_find_objects(tmp_path: Path) -> None:
    Maker().make(tmp_path / "elsewhere/object")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadValue, match="has no OCFL object"):
        object_roots(tmp_path / "root")

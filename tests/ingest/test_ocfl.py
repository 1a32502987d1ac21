"""Behaviour specific to the storage in a folder."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from headgate.core.errors import BadValue, ForeignStore, ServiceUnavailable
from headgate.ingest.storage.ocfl import OcflStorage
from headgate.ingest.storage.ocfl_layout import CONFIG_FILE, home_of
from headgate.ingest.storage.port import ObjectChange
from tests.ingest.shelves import ARK, Shelf, disk_shelf


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return disk_shelf(tmp_path)


def test_a_deleted_object_leaves_no_folder(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    shelf.storage.delete(ARK)
    root = tmp_path / "storage"
    assert sorted(path.name for path in root.iterdir()) == ["0=ocfl_1.1", "extensions", "ocfl_layout.json"]
    assert list((tmp_path / "storage.staging").iterdir()) == []


def test_a_version_that_the_inventory_does_not_list_is_found(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    (tmp_path / "storage" / home_of(ARK) / "v3").mkdir()
    assert [problem.path for problem in shelf.storage.verify(ARK)] == ["v3"]


def test_a_folder_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "letter.txt").write_text("dear")
    with pytest.raises(ForeignStore, match=r"letter\.txt"):
        OcflStorage(tmp_path / "root")


def test_a_root_of_another_layout_is_left_alone(shelf: Shelf, tmp_path: Path) -> None:
    config = tmp_path / "storage" / CONFIG_FILE
    config.write_text(json.dumps(json.loads(config.read_text()) | {"tupleSize": 2}))
    with pytest.raises(ForeignStore, match="layout"):
        OcflStorage(tmp_path / "storage")


def test_a_stage_on_another_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="file system"):
        OcflStorage(tmp_path / "storage", Path("/proc/self"))


def test_a_full_disk_is_unavailable(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    change = ObjectChange(shelf.files(a_txt=b"one"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(ServiceUnavailable, match="No space left"):
            shelf.put("jid1", change)
    assert shelf.storage.list_versions(ARK) == ()
    assert shelf.put("jid1", change) == 1


def test_a_root_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ServiceUnavailable, match="Not a directory"):
        OcflStorage(tmp_path / "file" / "root")

"""Files whose names differ only in case: refused, with the place, only where a place cannot keep them apart."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate import BadValue
from headgate.ingest.formats.file_names import CASE_ADVICE
from headgate.ingest.objects.reading import export_object, verify_object
from headgate.ingest.safe_files import open_beneath
from headgate.ingest.storage.ocfl import OcflStorage
from headgate.ingest.storage.ocfl_layout import ROOT_DECLARATION
from headgate.ingest.storage.port import ObjectChange, export
from tests.ingest import test_end_to_end, test_storage
from tests.ingest.shelves import ARK, DiskHands, Shelf
from tests.ingest.site import Site, ended, only_job, running
from tests.ingest.test_container import tar_of

#: Fixtures of the tests of whole ingests, and of storages.
here, bucket, shelf = test_end_to_end.here, test_storage.bucket, test_storage.shelf

FILES = {"Map.tif": b"one", "map.tif": b"two", "Maps/a": b"three", "maps/A": b"four"}


def ignore_case(folder: Path, known: str) -> None:
    """A second name for a known file: this simulates a file system that finds files by any spelling."""
    (folder / known.swapcase()).hardlink_to(folder / known)


@pytest.mark.parametrize("here", ["sqlite", "mariadb", "postgresql"], indirect=True)
def test_names_that_differ_in_case_are_stored_recorded_verified_and_exported(here: Site) -> None:
    here.profile()
    packed = here.origin.add("/all.tarz", gzip.compress(tar_of(FILES)))
    with here.gate() as gate, running(gate):
        listed = gate.queue.submit("demo", "ann", here.object_manifest("/1.checkm", FILES), local_id="listed")
        unpacked = gate.queue.submit("demo", "ann", packed, type="container", local_id="unpacked")
        assert {ended(gate, listed).state, ended(gate, unpacked).state} == {"completed"}
        for number, found in enumerate(gate.inventory.objects()):
            names = {each.name for each in gate.inventory.files(found.ark, 1)}
            assert {f"producer/{name}" for name in FILES} <= names
            assert verify_object(gate.ingest, "me", found.ark) == []
            export_object(gate.ingest, "me", found.ark, here.folder / f"out{number}")
            out = here.folder / f"out{number}" / "producer"
            assert {name: (out / name).read_bytes() for name in FILES} == FILES
        assert number == 1


def test_a_single_compressed_file_is_an_object_of_one_file(there: Site) -> None:
    there.profile()
    url = there.origin.add("/table.csv.gz", gzip.compress(b"a,b"))
    with there.gate() as gate, running(gate):
        assert ended(gate, gate.queue.submit("demo", "ann", url, type="container")).state == "completed"
        (found,) = gate.inventory.objects()
        given = [each.name for each in gate.inventory.files(found.ark, 1) if each.name.startswith("producer/")]
        assert given == ["producer/table.csv"]


@pytest.mark.parametrize("place", ["work", "storage"])
def test_a_manifest_is_refused_with_the_place_that_cannot_keep_them_apart(
    there: Site, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.profile()
    with there.gate() as gate, running(gate):
        assert ended(gate, gate.queue.submit("demo", "ann", there.object_manifest("/0", {"a": b""}))).state
    folder = there.folder / place
    if place == "work":
        monkeypatch.setattr("headgate.ingest.steps.payload.probe_case", lambda asked: asked != folder)
    else:
        ignore_case(folder, ROOT_DECLARATION)
    with there.gate() as gate, running(gate):
        batch = gate.queue.submit("demo", "ann", there.object_manifest("/1.checkm", FILES))
        assert ended(gate, batch).state == "failed"
        where = "the work folder" if place == "work" else f"the storage {folder}"
        message = only_job(gate, batch).message
        assert f"line 4: file name 'map.tif' differs from 'Map.tif' only in case, and {where} {CASE_ADVICE}" in message
        assert f"line 6: file name 'maps/A' differs from 'Maps/a' only in case, and {where} {CASE_ADVICE}" in message


def test_every_storage_keeps_them_apart(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(Map_tif=b"one", map_tif=b"two")))
    shelf.put("jid2", ObjectChange(shelf.files(MAP_tif=b"three"), keep=True))
    assert [shelf.read(name) for name in ("Map.tif", "map.tif", "MAP.tif")] == [b"one", b"two", b"three"]
    assert shelf.storage.verify(ARK) == []
    shelf.validate()


def test_a_storage_that_cannot_keep_names_apart_stores_nothing(tmp_path: Path) -> None:
    root = tmp_path / "storage"
    OcflStorage(root)
    ignore_case(root, ROOT_DECLARATION)
    shelf = Shelf(tmp_path, OcflStorage(root), DiskHands(root))
    with pytest.raises(
        BadValue, match=r"'map\.tif' differs from 'Map\.tif' only in case, and the storage /.* does not"
    ):
        shelf.put("jid1", ObjectChange(shelf.files(Map_tif=b"one", map_tif=b"two")))
    shelf.put("jid1", ObjectChange(shelf.files(Map_tif=b"one")))
    with pytest.raises(BadValue, match=r"differs from .* only in case"):
        shelf.put("jid2", ObjectChange(shelf.files(map_tif=b"two"), keep=True))
    assert len(shelf.storage.list_versions(ARK)) == 1


def test_an_export_into_a_folder_that_cannot_keep_names_apart_is_refused(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ignoring_case(root: Path, parts: Sequence[str], flags: int) -> int:
        return open_beneath(root, [each.lower() for each in parts], flags)

    monkeypatch.setattr("headgate.ingest.storage.port.open_beneath", ignoring_case)
    shelf.put("jid1", ObjectChange(shelf.files(Map_tif=b"one", map_tif=b"two")))
    with pytest.raises(BadValue, match=r"differs from '[Mm]ap\.tif' only in case, and does not keep such names apart"):
        export(shelf.storage, ARK, shelf.folder / "out")
    assert not (shelf.folder / "out").exists()

"""Depositors' digests that OCFL does not define: kept in the inventory, and verified as well."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

import pytest

from headgate.ingest.formats.digests import HEX_DIGITS, OCFL_DIGITS
from headgate.ingest.formats.hashing import data_digests
from headgate.ingest.objects.reading import verify_object
from headgate.ingest.storage.ocfl_inventory import render
from headgate.ingest.storage.ocfl_layout import home_of
from headgate.ingest.storage.port import NewFile, ObjectChange
from tests.ingest import test_end_to_end, test_storage
from tests.ingest.shelves import ARK, Shelf, disk_shelf
from tests.ingest.site import Site, checkm, ended, running

#: Fixtures of the tests of whole ingests, and of storages.
here, bucket, shelf = test_end_to_end.here, test_storage.bucket, test_storage.shelf

CONTENT = b"Call me Ishmael.\n"
BARRED = ("adler32", "crc32", "sha384")


def every_digest(content: bytes) -> dict[str, str]:
    return data_digests(content, HEX_DIGITS)


def stored_inventory(shelf: Shelf, version: str = "") -> dict[str, dict[str, object]]:
    place = shelf.folder / "storage" / home_of(ARK) / version / "inventory.json"
    found: dict[str, dict[str, object]] = json.loads(place.read_bytes())
    return found


def file_of(shelf: Shelf, content: bytes) -> NewFile:
    plain = shelf.file(content)
    return NewFile(plain.path, plain.size, every_digest(content))


def test_a_fixity_block_has_only_algorithms_that_ocfl_names(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange({"a.txt": file_of(shelf, CONTENT)}))
    shelf.put("jid2", ObjectChange({"b.txt": file_of(shelf, b"other")}, keep=True))
    raw = b"".join(shelf.hands.read(name) for name in shelf.hands.names() if name.endswith("inventory.json"))
    assert not any(f'"{name}"'.encode() in raw for name in BARRED)
    assert all(f'"{name}"'.encode() in raw for name in HEX_DIGITS if name in OCFL_DIGITS)
    shelf.validate()


@pytest.mark.parametrize("algorithm", BARRED)
def test_digests_that_are_known_elsewhere_are_verified(shelf: Shelf, algorithm: str) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=CONTENT)))
    sha256, right = hashlib.sha256(CONTENT).hexdigest(), every_digest(CONTENT)[algorithm]
    assert shelf.storage.verify(ARK, known={sha256: {algorithm: right}}) == []
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    (problem,) = shelf.storage.verify(ARK, known={sha256: {algorithm: wrong}})
    assert problem.path.endswith("a.txt")
    assert f"expected {algorithm} {wrong}, got {right}" in problem.why


@pytest.mark.parametrize("here", ["sqlite", "mariadb", "postgresql"], indirect=True)
def test_all_digests_of_a_manifest_are_recorded_and_verified(here: Site) -> None:
    here.profile()
    files = {f"{name}.txt": (name, name.encode()) for name in HEX_DIGITS}
    rows = [
        f"{here.origin.add(f'/f/{name}', content)} | {kind} | {every_digest(content)[kind].upper()} | | | {name}"
        for name, (kind, content) in files.items()
    ]
    with here.gate() as gate, running(gate):
        url = here.origin.add("/all.checkm", checkm("mrt-ingest-manifest", rows))
        assert ended(gate, gate.queue.submit("demo", "ann", url, local_id="x")).state == "completed"
        more = here.object_manifest("/more.checkm", {"more.txt": b"more"})
        assert ended(gate, gate.queue.submit("demo", "ann", more, local_id="x", mode="update")).state == "completed"
        (found,) = gate.inventory.objects()
        for version in (1, 2):
            listed = {each.name.removeprefix("producer/"): each for each in gate.inventory.files(found.ark, version)}
            for name, (kind, content) in files.items():
                further = {} if kind == "sha256" else {kind: every_digest(content)[kind]}
                assert (listed[name].digest, listed[name].digests) == (hashlib.sha256(content).hexdigest(), further)
        assert verify_object(gate.ingest, "me", found.ark) == []
        crc32 = next(each.digests for each in gate.inventory.files(found.ark, 2) if each.name == "producer/crc32.txt")
        assert zlib.crc32(b"crc32") == int(crc32["crc32"], 16)


def test_a_new_version_drops_digests_that_an_earlier_inventory_should_not_have_had(tmp_path: Path) -> None:
    """Objects as earlier versions wrote them: their next inventory is correct."""
    shelf = disk_shelf(tmp_path)
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=CONTENT)))
    document = stored_inventory(shelf)
    document["fixity"]["crc32"] = {every_digest(CONTENT)["crc32"]: ["v1/content/a.txt"]}
    raw, sidecar = render(document)
    for place in ("", "v1/"):
        shelf.hands.write(f"{home_of(ARK)}/{place}inventory.json", raw)
        shelf.hands.write(f"{home_of(ARK)}/{place}inventory.json.sha256", sidecar)
    shelf.put("jid2", ObjectChange(shelf.files(b_txt=b"other"), keep=True))
    assert set(stored_inventory(shelf)["fixity"]) == {"md5"}

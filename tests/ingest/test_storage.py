"""The rules for every storage. Each case runs on each kind; an independent validator checks the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from headgate.core.errors import BadPayload, BadValue, UnknownName, VersionLost, WorkStopped
from headgate.ingest.storage.ocfl_layout import home_of
from headgate.ingest.storage.port import Note, ObjectChange, export
from tests.ingest.shelves import ARK, WHEN, Shelf, bucket_shelf, disk_shelf


@pytest.fixture(scope="module")
def bucket(s3_endpoint: str) -> S3Store:
    """A bucket of an S3 server on loopback."""
    return S3Store(
        "shelf",
        endpoint=s3_endpoint,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        client_options={"allow_http": True},
    )


@pytest.fixture(params=["disk", "bucket"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    if request.param == "disk":
        return disk_shelf(tmp_path)
    return bucket_shelf(tmp_path, request.getfixturevalue("bucket"), tmp_path.name)


def test_versions_are_stored_read_and_valid(shelf: Shelf) -> None:
    assert (
        shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one", deep__b_txt=b"bee", copy_txt=b"one", empty=b""))) == 1
    )
    assert (
        shelf.put("jid2", ObjectChange(shelf.files(a_txt=b"two", new_txt=b"bee"), keep=True, remove=["copy.txt"])) == 2
    )
    assert shelf.put("jid3", ObjectChange(shelf.files(only_txt=b"one"))) == 3
    states = [{each.name for each in version.files} for version in shelf.storage.list_versions(ARK)]
    assert states[0] == {"a.txt", "deep/b.txt", "copy.txt", "empty"}
    assert states[1:] == [{"a.txt", "deep/b.txt", "new.txt", "empty"}, {"only.txt"}]
    assert [shelf.read("a.txt", 1), shelf.read("a.txt", 2), shelf.read("only.txt")] == [b"one", b"two", b"one"]
    assert shelf.read("empty", 1) == b""
    assert shelf.storage.verify(ARK) == []
    shelf.validate()


def test_a_large_file_is_stored_piece_by_piece(shelf: Shelf) -> None:
    content = bytes(range(256)) * 4096 * 20
    shelf.put("jid1", ObjectChange(shelf.files(large_bin=content)))
    assert shelf.read("large.bin") == content
    assert shelf.storage.verify(ARK) == []


def test_a_version_has_its_message_user_and_time(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    shelf.put("jid2", ObjectChange(shelf.files(b_txt=b"two"), keep=True))
    _, version = shelf.storage.list_versions(ARK)
    assert (version.object_id, version.number, version.created) == (ARK, 2, WHEN)
    assert (version.message, version.operation, version.size) == ("as submitted", "jid2", 6)
    assert [(each.name, each.size, each.since) for each in version.files] == [("a.txt", 3, 1), ("b.txt", 3, 2)]


def test_content_that_an_object_has_already_is_not_stored_again(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"same", b_txt=b"same")))
    shelf.put("jid2", ObjectChange(shelf.files(c_txt=b"same", d_txt=b"other")))
    assert sorted(name for name in shelf.inner() if ":" in name) == ["v1:a.txt", "v2:d.txt"]
    shelf.validate()


def test_the_path_of_an_object_follows_layout_0004(shelf: Shelf) -> None:
    """The example of the extension's own text."""
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")), "object-01")
    digest = "3c0ff4240c1e116dba14c7627f2319b58aa3d77606d0d90dfc6161608ac987d4"
    assert f"3c0/ff4/240/{digest}/inventory.json" in shelf.hands.names()
    assert list(shelf.storage.objects()) == ["object-01"]


def test_the_same_operation_stores_once(shelf: Shelf) -> None:
    change = ObjectChange(shelf.files(a_txt=b"one"))
    assert [shelf.put("jid1", change), shelf.put("jid1", change)] == [1, 1]
    assert shelf.put("jid2", ObjectChange(shelf.files(b_txt=b"two"))) == 2
    assert shelf.put("jid1", change) == 1
    assert len(shelf.storage.list_versions(ARK)) == 2
    with pytest.raises(BadValue, match="stored other files before"):
        shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"another")))


@pytest.mark.parametrize("before", [0, 1])
def test_the_second_writer_stores_nothing(shelf: Shelf, before: int) -> None:
    """Another writer stores between the plan of a version and its commit."""
    for number in range(before):
        shelf.put(f"before{number}", ObjectChange(shelf.files(old_txt=b"old")))

    def interfere(_size: int) -> None:
        shelf.put("other", ObjectChange(shelf.files(b_txt=b"b")))

    with pytest.raises(VersionLost):
        shelf.storage.put_version(ARK, ObjectChange(shelf.files(a_txt=b"a")), Note("mine", WHEN), progress=interfere)
    assert [each.operation for each in shelf.storage.list_versions(ARK)][before:] == ["other"]
    assert shelf.storage.verify(ARK) == []
    shelf.validate()


def test_an_object_that_was_recreated_meanwhile_is_another_one(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))

    def interfere(_size: int) -> None:
        shelf.storage.delete(ARK)
        shelf.put("anew", ObjectChange(shelf.files(a_txt=b"anew")))

    with pytest.raises(VersionLost):
        shelf.storage.put_version(ARK, ObjectChange(shelf.files(b_txt=b"two")), Note("jid2", WHEN), progress=interfere)
    assert shelf.read("a.txt") == b"anew"
    shelf.validate()


def test_a_deleted_object_leaves_nothing(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    shelf.storage.delete(ARK)
    shelf.storage.delete(ARK)
    assert shelf.storage.list_versions(ARK) == ()
    assert shelf.inner() == {}
    with pytest.raises(UnknownName, match="object"):
        shelf.read("a.txt")


def test_missing_files_and_versions_are_named(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    with pytest.raises(UnknownName, match=r"b\.txt"):
        shelf.read("b.txt")
    with pytest.raises(UnknownName, match="v7"):
        shelf.read("a.txt", 7)
    with pytest.raises(UnknownName, match="v7"):
        export(shelf.storage, ARK, shelf.folder / "out", 7)


# ---------------------------------------------------------------- bad input


def test_a_file_that_changed_since_it_was_checked_stores_nothing(shelf: Shelf) -> None:
    change = ObjectChange(shelf.files(a_txt=b"one", b_txt=b"two"))
    change.files["b.txt"].path.write_bytes(b"tvo")
    with pytest.raises(BadPayload, match="changed since"):
        shelf.put("jid1", change)
    change.files["b.txt"].path.unlink()
    with pytest.raises(BadPayload, match="missing"):
        shelf.put("jid1", change)
    assert shelf.storage.list_versions(ARK) == ()
    assert [name for name in shelf.inner() if ":" in name] == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "a//b", "", "x\0"])
def test_names_that_lead_elsewhere_are_refused(shelf: Shelf, name: str) -> None:
    with pytest.raises(BadValue):
        shelf.put("jid1", ObjectChange({name: shelf.file(b"x")}))


@pytest.mark.parametrize("operation", ["", "two words", "x\ny"])
def test_an_operation_is_one_word(shelf: Shelf, operation: str) -> None:
    with pytest.raises(BadValue, match="operation"):
        shelf.put(operation, ObjectChange(shelf.files(a_txt=b"x")))


def test_storing_stops_on_request(shelf: Shelf) -> None:
    with pytest.raises(WorkStopped):
        shelf.storage.put_version(ARK, ObjectChange(shelf.files(a_txt=b"x")), Note("jid1", WHEN), stop=lambda: True)
    assert shelf.storage.list_versions(ARK) == ()
    assert [name for name in shelf.inner() if ":" in name] == []


# ---------------------------------------------------------------- verifying, reading back


@pytest.mark.parametrize(
    ("name", "content", "codes"),
    [
        ("v1:a.txt", b"onf", {"E092", "E093"}),
        ("v1:a.txt", None, {"E092", "E093"}),
        ("inventory.json", b"[]", {"E033"}),
        ("inventory.json", None, {"E063"}),
        ("v1/inventory.json", b"[]", {"E033"}),
        ("v2/inventory.json", b"[]", {"E064", "E060"}),
        ("v1/inventory.json.sha256", b"", {"E061"}),
        ("v2/inventory.json.sha256", None, {"E058"}),
        ("0=ocfl_object_1.1", None, {"E003"}),
    ],
)
def test_any_damage_is_found(shelf: Shelf, name: str, content: bytes | None, codes: set[str]) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one", b_txt=b"two")))
    shelf.put("jid2", ObjectChange(shelf.files(c_txt=b"three")))
    place = shelf.inner()[name]
    if content is None:
        shelf.hands.remove(place)
    else:
        shelf.hands.write(place, content)
    found = shelf.storage.verify(ARK)
    assert {problem.code for problem in found} == codes
    paths = {problem.path.removesuffix(".sha256") for problem in found}
    where = place.removeprefix(f"{home_of(ARK)}/").removesuffix(".sha256")
    assert paths == ({""} if codes & {"E003", "E063"} else {where})


def test_an_unknown_file_is_found(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    shelf.hands.write(f"{home_of(ARK)}/v1/content/more.txt", b"more")
    assert [problem.path for problem in shelf.storage.verify(ARK)] == ["v1/content/more.txt"]


def test_verifying_reads_every_byte_and_reports_progress(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=bytes(3_000_000), b_txt=b"two")))
    sizes: list[int] = []
    assert shelf.storage.verify(ARK, progress=sizes.append) == []
    assert sum(sizes) == 3_000_003
    assert [each.why for each in shelf.storage.verify("ark:/99999/none")] == ["there is no such object"]


def test_a_version_is_exported_whole_or_not_at_all(shelf: Shelf) -> None:
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one", deep__b_txt=b"two")))
    shelf.put("jid2", ObjectChange(shelf.files(c_txt=b"three")))
    out = shelf.folder / "out"
    export(shelf.storage, ARK, out, version=1)
    found: dict[str, Any] = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.txt")}
    assert found == {"a.txt": b"one", "deep/b.txt": b"two"}
    with pytest.raises(BadValue, match="exists"):
        export(shelf.storage, ARK, out)
    shelf.hands.write(shelf.inner()["v2:c.txt"], b"thref")
    with pytest.raises(BadPayload, match="sha256"):
        export(shelf.storage, ARK, shelf.folder / "second")
    assert not list(shelf.folder.glob("second*"))


# ---------------------------------------------------------------- deaths


def test_the_next_writer_completes_one_that_died_after_its_commit(shelf: Shelf) -> None:
    """The sidecar is the old one; on a bucket the version has no inventory yet either."""
    shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
    change = ObjectChange(shelf.files(b_txt=b"two"))
    former = shelf.inner()["inventory.json.sha256"]
    shelf.put("jid2", change)
    shelf.hands.write(former, b"0" * 64 + b" inventory.json\n")
    if "bucket" in type(shelf.hands).__name__.lower():
        shelf.hands.remove(shelf.inner()["v2/inventory.json"])
        shelf.hands.remove(shelf.inner()["v2/inventory.json.sha256"])
    assert shelf.read("b.txt") == b"two"
    assert shelf.put("jid2", change) == 2
    assert shelf.storage.verify(ARK) == []
    shelf.validate()


class Death(BaseException):
    """The process ends here: no handler catches it."""


def test_a_death_at_any_call_to_the_bucket_leaves_a_whole_object(
    bucket: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every call that changes the bucket, and after it: the answer may be lost as well."""
    change = ObjectChange(disk_shelf(tmp_path).files(b_txt=b"two", c_txt=b"three"))
    stored = set()
    for point in range(1, 100):
        shelf = bucket_shelf(tmp_path, bucket, f"{tmp_path.name}-{point}")
        shelf.put("jid1", ObjectChange(shelf.files(a_txt=b"one")))
        died = _put_and_die(shelf, change, point, monkeypatch)
        versions = [each.operation for each in shelf.storage.list_versions(ARK)]
        stored.add(len(versions))
        assert versions == ["jid1", "jid2"][: len(versions)]
        assert shelf.read("a.txt", 1) == b"one"
        assert shelf.put("jid2", change) == 2
        assert len(shelf.storage.list_versions(ARK)) == 2
        assert shelf.storage.verify(ARK) == []
        if not died:
            shelf.validate()
            break
    assert 10 < point < 99
    assert stored == {1, 2}


def _put_and_die(shelf: Shelf, change: ObjectChange, point: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    left = point

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                raise Death
            answer = real(*args, **kwargs)
            left -= 1
            if left == 0:
                raise Death
            return answer

        return call

    with monkeypatch.context() as patched:
        for name in ("put", "delete"):
            patched.setattr(obstore, name, counted(getattr(obstore, name)))
        try:
            shelf.put("jid2", change)
        except Death:
            return True
    return False

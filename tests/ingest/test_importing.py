"""Import of OCFL objects of other tools: all versions and bytes, once, under the right name, or not at all."""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headgate
from headgate import BadValue, ImportedObject, ServiceUnavailable
from headgate.gate import Gate
from headgate.ingest.objects.foreign import verify_folder
from headgate.ingest.objects.reading import export_object, verify_object
from headgate.ingest.storage.ocfl import OcflStorage
from headgate.ingest.storage.ocfl_layout import ROOT_DECLARATION
from headgate.ingest.storage.port import find_version
from tests.cli.commands import Headgate
from tests.ingest import test_end_to_end
from tests.ingest.ocfl_broken import BROKEN
from tests.ingest.ocfl_objects import OBJECT_ID, VERSIONS, Document, Maker, of_each_version, put
from tests.ingest.site import Site, ended, running
from tests.ingest.test_case_of_names import ignore_case
from tests.ingest.validator import build, validate

#: The fixture of the tests of whole ingests.
here = test_end_to_end.here

ARK = "ark:/99999/fk4import"


@pytest.fixture
def gate(there: Site) -> Iterator[Gate]:
    there.profile()
    with there.gate() as found:
        yield found


def imported(gate: Gate, folder: Path, **how: object) -> list[ImportedObject]:
    return list(gate.import_objects("me", folder, "demo", **how))  # type: ignore[arg-type]


def assert_stored(gate: Gate, site: Site, ark: str, maker: Maker) -> None:
    """Storage, inventory and ledger have every version, with every byte."""
    storage = site.storage(gate)
    assert len(storage.list_versions(ark)) == len(maker.versions) == len(gate.inventory.versions(ark))
    for number, files in enumerate(maker.versions, 1):
        version = find_version(storage, ark, number)
        assert {each.name for each in version.files} == set(files)
        for name, content in files.items():
            with storage.read(ark, name, number) as source:
                assert source.read() == content
        listed = {each.name: each for each in gate.inventory.files(ark, number)}
        assert {name: each.digest for name, each in listed.items()} == {
            name: hashlib.sha256(content).hexdigest() for name, content in files.items()
        }
    assert verify_object(gate.ingest, "me", ark) == []
    names = {f"{ark.replace(':/', '_').replace('/', '_')}.v{number}" for number in range(1, len(maker.versions) + 1)}
    ready = {row.dataid for row in gate.ledger.status(dataset="demo") if row.status == "READY"}
    assert names <= ready


@pytest.mark.parametrize("here", ["sqlite", "mariadb", "postgresql"], indirect=True)
@pytest.mark.parametrize(("specification", "algorithm"), [("1.0", "sha256"), ("1.1", "sha512")])
def test_an_object_is_imported_with_all_versions(here: Site, specification: str, algorithm: str) -> None:
    here.profile()
    maker = Maker(specification, algorithm, width=3, directory="data", fixity=("md5", "sha1"))
    root = maker.make(here.folder / "object")
    with here.gate() as gate:
        (found,) = imported(gate, root)
        assert (found.id, found.versions, found.stored, found.problems) == (OBJECT_ID, 2, 2, ())
        assert_stored(gate, here, found.ark, maker)
        (stored,) = gate.inventory.objects(local=OBJECT_ID)
        assert (stored.ark, stored.owner, stored.version, stored.what) == (found.ark, "library", 2, OBJECT_ID)
        first, second = here.storage(gate).list_versions(found.ark)
        assert (first.message, first.created.isoformat()) == ("version 1", "2026-11-01T08:00:00+00:00")
        assert second.message == "version 2"
        files = {each.name: each.digests for each in gate.inventory.files(found.ark, 2)}
        content = VERSIONS[1]["a.txt"]
        further = {"md5", "sha1"} | ({"sha512"} if algorithm == "sha512" else set())
        assert files["a.txt"] == {name: hashlib.new(name, content).hexdigest() for name in further}
        validate(here.folder / "storage")


@pytest.mark.parametrize(
    "options",
    [
        ("--digest", "sha512", "--normalization", "uri", "--fixity", "md5", "--fixity", "blake2b-512"),
        ("--digest", "sha256", "--normalization", "md5", "--no-dedupe"),
        ("--digest", "sha512", "--no-forward-delta", "--fixity", "sha1"),
    ],
)
def test_an_object_that_another_program_made_is_imported(gate: Gate, there: Site, options: tuple[str, ...]) -> None:
    maker = Maker(versions=({"a.txt": b"one", "deep/ü x.txt": b"two"}, {"a.txt": b"one", "copy.txt": b"one", "b": b""}))
    root = there.folder / "object"
    build(root, maker.versions, "--id", OBJECT_ID, "--spec-version", "1.1", *options)
    assert verify_folder(root) == []
    (found,) = imported(gate, root)
    assert (found.id, found.versions, found.stored, found.problems) == (OBJECT_ID, 2, 2, ())
    assert_stored(gate, there, found.ark, maker)
    validate(there.folder / "storage")


def test_a_repeat_stores_nothing_and_a_grown_object_gets_its_new_versions(gate: Gate, there: Site) -> None:
    maker = Maker()
    root = maker.make(there.folder / "object")
    (first,) = imported(gate, root)
    (again,) = imported(gate, root)
    assert (again.ark, again.stored) == (first.ark, 0)
    shutil.rmtree(root)
    maker.versions = [*VERSIONS, {"a.txt": b"four"}]
    maker.make(root)
    (grown,) = imported(gate, root)
    assert (grown.ark, grown.versions, grown.stored) == (first.ark, 3, 1)
    assert_stored(gate, there, first.ark, maker)


def test_an_import_that_was_interrupted_is_completed_by_a_repeat(
    gate: Gate, there: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each version is stored, and before and after it is recorded."""
    maker = Maker(versions=[{"a.txt": b"%d" % number} for number in range(3)])
    for point in range(12):
        maker.object_id = f"info:example/{point}"
        root = maker.make(there.folder / f"object-{point}")
        died = _import_and_die(gate, root, point, monkeypatch)
        (found,) = imported(gate, root)
        assert found.problems == ()
        assert_stored(gate, there, found.ark, maker)
        assert died == (point < 6)
    validate(there.folder / "storage")


class Death(BaseException):
    """The process ends here: no handler catches it."""


def _import_and_die(gate: Gate, root: Path, point: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    left = point

    def die() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Death

    store, record = OcflStorage.put_version, type(gate.inventory).record

    def storing(*args: object, **how: object) -> object:
        die()
        return store(*args, **how)  # type: ignore[arg-type]

    def recording(*args: object, **how: object) -> object:
        die()
        return record(*args, **how)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(OcflStorage, "put_version", storing)
        patched.setattr(type(gate.inventory), "record", recording)
        try:
            imported(gate, root)
        except Death:
            return True
    return False


def test_an_unavailable_storage_stores_nothing_partly(gate: Gate, there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Maker().make(there.folder / "object")

    def full(*_: object, **_how: object) -> None:
        raise ServiceUnavailable("storage", "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(OcflStorage, "put_version", full)
        with pytest.raises(ServiceUnavailable, match="No space"):
            imported(gate, root)
    assert gate.inventory.objects() == []
    (found,) = imported(gate, root)
    assert found.stored == 2


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("object_id", ["ark:/99999/fk4abc", "ark:99999/fk4-abc", "ark:/99999/FK4abc"])
def test_an_id_that_is_an_ark_is_kept(gate: Gate, there: Site, object_id: str) -> None:
    (found,) = imported(gate, Maker(object_id=object_id).make(there.folder / "object"))
    assert found.ark in ("ark:/99999/fk4abc", "ark:/99999/FK4abc")
    (stored,) = gate.inventory.objects()
    assert (stored.ark, stored.local) == (found.ark, ())


def test_a_mapping_names_objects(gate: Gate, there: Site) -> None:
    root = Maker().make(there.folder / "object")
    (found,) = imported(gate, root, arks={OBJECT_ID: "ark:99999/fk4-import"})
    assert found.ark == ARK
    (stored,) = gate.inventory.objects(local=OBJECT_ID)
    assert stored.ark == ARK
    (again,) = imported(gate, root)
    assert (again.ark, again.stored) == (ARK, 0), "its local id is known now"
    (other,) = imported(gate, root, arks={OBJECT_ID: "ark:/99999/fk4other"})
    assert "belongs to" in other.problems[0].why


def test_a_name_of_another_object_or_owner_is_refused(gate: Gate, there: Site) -> None:
    imported(gate, Maker().make(there.folder / "object"), arks={OBJECT_ID: ARK})
    other = Maker(object_id="info:example/other", versions=({"b.txt": b"b"},)).make(there.folder / "other")
    (found,) = imported(gate, other, arks={"info:example/other": ARK})
    assert "its version 1 is stored with other content; it was not imported" in found.problems[0].why
    there.profile("theirs", owner="another")
    (theirs,) = gate.import_objects("me", other, "theirs", arks={"info:example/other": ARK})
    assert "its owner is not another" in theirs.problems[0].why
    assert len(gate.inventory.objects()) == 1


def test_a_name_is_the_same_wherever_the_object_is_imported(gate: Gate, there: Site) -> None:
    root = Maker().make(there.folder / "object")
    (tried,) = imported(gate, root, dry_run=True)
    assert gate.inventory.objects() == []
    assert list(there.storage(gate).objects()) == []
    (found,) = imported(gate, root)
    assert (tried.ark, tried.stored) == (found.ark, 0)


def test_an_id_that_cannot_be_a_local_id_needs_an_ark(gate: Gate, there: Site) -> None:
    long = f"info:{'x' * 300}"
    root = Maker(object_id=long).make(there.folder / "object")
    (found,) = imported(gate, root)
    assert "give it an ARK in the mapping" in found.problems[0].why
    (found,) = imported(gate, root, arks={long: ARK})
    assert (found.ark, found.stored) == (ARK, 2)


@pytest.mark.parametrize("kind", ["ezid", "register"])
def test_ezid_knows_the_name_of_an_imported_object(there: Site, kind: str) -> None:
    from tests.ingest.ezid_server import PASSWORD, USER

    (there.folder / "ezid").write_text(PASSWORD)
    there.profile(
        minter__kind=kind, minter__shoulder="ark:/99999/fk4", minter__ezid_url=there.ezid.url, minter__ezid_user=USER,
        minter__ezid_password=f"file:{there.folder / 'ezid'}",
    )  # fmt: skip
    root = Maker().make(there.folder / "object")
    with there.gate() as gate:
        if kind == "ezid":
            (refused,) = imported(gate, root)
            assert "names objects at EZID; give it an ARK in the mapping" in refused.problems[0].why
        (found,) = imported(gate, root, arks={OBJECT_ID: ARK})
        assert found.problems == ()
        assert OBJECT_ID in there.ezid.known[ARK]["erc"]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("code", ["E023", "E033", "E040", "E056", "E060", "E090", "E092", "E093"])
def test_a_broken_object_is_refused_with_its_code_and_the_others_are_imported(
    gate: Gate, there: Site, code: str
) -> None:
    root = there.folder / "root"
    BROKEN[code][0].make(root / "a/broken")
    Maker(object_id="info:example/whole").make(root / "b/whole")
    broken, whole = imported(gate, root)
    assert code in {each.code for each in broken.problems}
    assert (broken.ark, broken.stored) == ("", 0)
    assert (whole.id, whole.stored, whole.problems) == ("info:example/whole", 2, ())
    assert [each.local for each in gate.inventory.objects()] == [("info:example/whole",)]


def test_a_name_of_a_file_that_cannot_be_kept_is_refused(gate: Gate, there: Site) -> None:
    (found,) = imported(gate, Maker(versions=({"con": b"x"},)).make(there.folder / "object"))
    assert "'con' is reserved" in found.problems[0].why
    assert gate.inventory.objects() == []


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("name", ["con", "a\\b", "x.", "\u202e.txt"])
def test_a_name_of_a_later_version_that_cannot_be_kept_refuses_the_object_before_anything_is_stored(
    gate: Gate, there: Site, name: str, *, dry_run: bool
) -> None:
    versions = ({"a.txt": b"one"}, {"a.txt": b"one", name: b"two"}, {"a.txt": b"one"})
    (found,) = imported(gate, Maker(versions=versions).make(there.folder / "object"), dry_run=dry_run)
    assert (found.ark, found.versions, found.stored) == ("", 3, 0)
    (problem,) = found.problems
    assert (problem.path, repr(name) in problem.why) == ("v2", True)
    assert gate.inventory.objects() == []
    assert list(there.storage(gate).objects()) == []


def test_names_that_the_storage_does_not_keep_apart_refuse_the_object_before_anything_is_stored(there: Site) -> None:
    there.profile()
    storage = there.folder / "storage"
    OcflStorage(storage)
    ignore_case(storage, ROOT_DECLARATION)
    root = Maker(versions=({"a": b"1"}, {"a": b"1", "A": b"2"})).make(there.folder / "object")
    with there.gate() as gate:
        (found,) = imported(gate, root)
        assert found.problems[0].path == "v2"
        assert f"only in case, and the storage {storage}" in found.problems[0].why
        assert gate.inventory.objects() == []


def in_all(edit: Callable[[Document], object]) -> Callable[[Document, int], None]:
    def change(document: Document, _number: int) -> None:
        edit(document)

    return change


def test_unusual_versions_are_kept_in_an_object_without_warnings(gate: Gate, there: Site) -> None:
    """No message, no address, an address that is not a URI, lower-case letters in a time, versions without files."""
    ways = {
        "none": of_each_version(lambda version: [version.pop(key, None) for key in ("message", "user")]),
        "odd": of_each_version(put("user", value={"name": "Ann", "address": "Main Street 1"})),
        "leap": of_each_version(put("created", value="2016-12-31t23:59:60z")),
    }
    for name, edit in ways.items():
        maker = Maker(object_id=f"info:{name}", versions=({}, {"a.txt": b"one"}, {}), edit=in_all(edit))
        (found,) = imported(gate, maker.make(there.folder / name))
        assert (found.stored, found.problems) == (3, ())
        assert_stored(gate, there, found.ark, maker)
    validate(there.folder / "storage")


def test_a_profile_must_name_a_storage_that_can_be_read(there: Site) -> None:
    there.profile("away", storage__kind="http", storage__url=there.origin.url("/store"))
    root = Maker().make(there.folder / "object")
    with there.gate() as gate, pytest.raises(BadValue, match="an import needs a folder or a bucket"):
        list(gate.import_objects("me", root, "away"))


@pytest.mark.usefixtures("s3_environment")
def test_objects_are_imported_into_a_bucket(there: Site) -> None:
    there.profile(storage__kind="s3", storage__url=f"s3://shelf/{there.folder.name}")
    maker = Maker()
    with there.gate() as gate:
        (found,) = imported(gate, maker.make(there.folder / "object"))
        assert_stored(gate, there, found.ark, maker)


# ---------------------------------------------------------------- afterwards


def test_an_imported_object_is_exported_updated_deleted_and_imported_again(gate: Gate, there: Site) -> None:
    root = Maker().make(there.folder / "object")
    (found,) = imported(gate, root)
    export_object(gate.ingest, "me", found.ark, there.folder / "out")
    assert (there.folder / "out/deep/b.txt").read_bytes() == b"two"
    with running(gate):
        url = there.object_manifest("/1.checkm", {"more.txt": b"more"})
        batch = gate.queue.submit("demo", "ann", url, mode="update", local_id=OBJECT_ID)
        assert ended(gate, batch).state == "completed"
    names = {each.name for each in gate.inventory.files(found.ark, 3)}
    assert {"a.txt", "deep/b.txt", "producer/more.txt"} <= names
    (again,) = imported(gate, root)
    assert (again.stored, again.problems) == (0, ())
    assert verify_object(gate.ingest, "me", found.ark) == []


# ---------------------------------------------------------------- the command


def test_the_import_command(there: Site) -> None:
    there.profile()
    root = there.folder / "root"
    Maker(object_id="info:example/1").make(root / "a")
    Maker(object_id="info:example/2").make(root / "b")
    BROKEN["E092"][0].make(root / "c")
    with (there.folder / "arks.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["info:example/1", ARK])
    command = Headgate(there.url, there.folder)
    settings = {f"HEADGATE_{name.upper()}": value for name, value in there.settings.items() if value}
    words = ("ingest", "import", "root", "--profile", "demo", "--arks", "arks.csv")
    tried = command(*words, "--dry-run", **settings)
    assert tried.code == 1
    assert f"info:example/1: {ARK}, 2 versions\n" in tried.out
    assert tried.out.endswith("2 objects can be imported, 1 refused\n")
    done = command(*words, **settings)
    assert done.code == 1
    assert f"info:example/1: {ARK}, 2 versions, 2 versions stored\n" in done.out
    assert "v1/content/a.txt: E092 checksum mismatch" in done.out
    assert done.out.endswith("2 objects imported, 1 refused\n")
    again = command(*words, "--json", **settings).json
    assert [(each["stored"], bool(each["problems"])) for each in again["objects"]] == [
        (0, False),
        (0, False),
        (0, True),
    ]
    shutil.rmtree(root / "c")
    again = command(*words, **settings)
    assert (again.code, again.out.splitlines()[0]) == (0, f"info:example/1: {ARK}, 2 versions, already imported")
    (there.folder / "arks.csv").write_text("info:example/1\n")
    wrong = command(*words, **settings)
    assert (wrong.code, "line 1 does not have two columns" in wrong.err) == (2, True)


def test_a_service_imports_nothing(there: Site) -> None:
    from headgate.http.port.server import Server
    from headgate.http.service import Service

    there.profile()
    root = Maker().make(there.folder / "object")
    with there.gate() as gate:
        server = Server(Service(gate), "127.0.0.1:0")
        server.start()
        try:
            token = gate.tokens.new("elsewhere", ["admin"]).token
            here = headgate.connect(server.url, token=token)
            with here as remote, pytest.raises(BadValue, match="works on the store itself"):
                list(remote.import_objects("me", root, "demo"))
        finally:
            server.stop()

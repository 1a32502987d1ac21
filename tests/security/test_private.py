"""Files of a store are private to their owner, whatever the umask; `store_group` shares them with one group."""

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import headgate
from headgate import private
from headgate.core.faults import OPEN_FILES
from headgate.ingest.context import open_storage
from headgate.ingest.storage.port import NewFile, Note, ObjectChange, export
from headgate.moving import backing_up, restoring
from headgate.service.secrets.keyring import add_to_ring
from headgate.settings import load
from headgate.stores.sql.dialects.sqlite.wake import WakeFolder
from tests.users import as_user, rights

SOURCE = Path(private.__file__).parent
ANN, BEN, EVE = 61001, 61002, 61003
LAB = 62000
#: Calls that create a file or a folder directly. Temporary files are private already.
MAKES_FILES = re.compile(
    r"(?<!\w)(?<!formatter\.)(?:mkdir|makedirs|write_text|write_bytes|touch|copyfile|copytree|copy2)\("
    r"|(?<!private\.)\bopen\([\"'][wxa]|\bos\.open\([^\n]*(?:O_CREAT|flags)"
)
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can enter, with one for the store inside."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name, "store")
        folder.mkdir()
        (Path(name) / "content.txt").write_bytes(b"content")
        (Path(name) / "content.txt").chmod(0o444)
        yield folder


def use_store(folder: Path, journal: str, **settings: str) -> dict[str, int]:
    """Use every kind of file that a store has, and return the modes of all files that existed meanwhile."""
    names = {"work_folder": "work", "storage_root": "storage", "profiles_folder": "profiles"}
    places = {name: str(folder / each) for name, each in names.items()}
    mine = f"{os.getuid()}-{os.getgid()}"
    source = folder.parent / "content.txt"
    with headgate.connect(f"sqlite:///{folder}/headgate.db?journal_mode={journal}", **places, **settings) as gate:
        held = gate.locks.acquire(mine, "file:/shared", "read")
        gate.locks.release(held.id, held.token)
        gate.hand_in(source)
        storage = open_storage("ocfl", "", gate.ingest.options)
        new = NewFile(source, 7, {"sha256": hashlib.sha256(b"content").hexdigest()})
        storage.put_version("ark:/1/a", ObjectChange({f"inner/{mine}": new}, keep=True), Note(mine, datetime.now(UTC)))
        with backing_up(gate.settings, folder / f"backup-{mine}-{os.getpid()}") as moving:
            moving.run(lambda _count: None)
        with WakeFolder(folder / "headgate.db")._bind(f"hg_{os.getuid():016x}"):
            return {str(path.relative_to(folder)): rights(path) for path in folder.rglob("*") if not path.is_socket()}


@pytest.fixture(scope="module", autouse=True)
def _all_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import every module that `use_store` needs: another user may not be able to read them."""
    folder = tmp_path_factory.mktemp("loaded")
    (folder / "content.txt").write_bytes(b"content")
    for journal in ("wal", "truncate"):
        (folder / journal).mkdir()
        use_store(folder / journal, journal)
    with headgate.connect(f"sqlite:///{folder}/wal/headgate.db") as gate:
        gate.faults()
    private.group_name(LAB)


@pytest.mark.parametrize(
    ("user", "umask", "journal"),
    [(0, 0o000, "wal"), (0, 0o077, "truncate"), (ANN, 0o000, "truncate"), (ANN, 0o077, "wal")],
)
def test_everything_is_private_whatever_the_umask(user: int, umask: int, journal: str, place: Path) -> None:
    if os.getuid() == 0:
        os.chown(place, user, user)
    place.chmod(0o2775)  # A folder that a group shares does not make a store in it shared.
    modes = as_user(user, [user], lambda: use_store(place, journal), umask)
    assert {"headgate.db", "headgate.db-gate", "headgate.db-wake", "work/uploads", "storage.staging"} <= set(modes)
    assert f"headgate.db-{'wal' if journal == 'wal' else 'journal'}" in modes
    assert {name: oct(mode) for name, mode in modes.items() if mode not in (0o600, 0o700)} == {}
    assert [name for name, mode in modes.items() if mode == 0o700 and (place / name).is_file()] == []


@as_root
def test_two_users_of_a_group_share_a_store_and_a_third_is_refused_with_the_reason(place: Path) -> None:
    os.chown(place, 0, LAB)
    place.chmod(0o2770)
    shared = {"store_group": str(LAB)}
    made = as_user(ANN, [ANN, LAB], lambda: use_store(place, "wal", **shared), 0o077)
    used = as_user(
        BEN, [BEN, LAB], lambda: use_store(place, "wal"), 0o077
    )  # The folder decides it; no setting is needed.
    again = as_user(ANN, [ANN, LAB], lambda: use_store(place, "wal", **shared), 0o022)
    for modes in (made, used, again):
        assert isinstance(modes, dict), modes
        ours = {name: mode for name, mode in modes.items() if not name.startswith("backup")}
        assert {"headgate.db-wal", "headgate.db-shm", "headgate.db-gate", "headgate.db-wake"} <= set(ours)
        assert {name: oct(mode) for name, mode in ours.items() if mode not in (0o660, 0o2770)} == {}
        assert {mode for name, mode in modes.items() if name.startswith("backup")} == {0o600}
    assert {path.lstat().st_gid for path in place.rglob("*") if "backup" not in path.name} == {LAB}
    assert {path.lstat().st_uid for path in (place / "storage").rglob("*") if path.is_file()} >= {ANN, BEN}

    refused = as_user(EVE, [EVE], lambda: use_store(place, "wal"))
    assert refused.startswith("StoreMisconfigured")
    assert f"this user may not create files in {place}, which is shared with the group {LAB}" in refused
    place.chmod(0o2771)
    refused = as_user(EVE, [EVE], lambda: use_store(place, "wal"))
    assert f"this user may not read {place}/headgate.db, which is shared with the group {LAB}" in refused


@as_root
def test_an_unusable_group_is_refused_before_anything_is_created(place: Path) -> None:
    os.chown(place, EVE, EVE)
    refused = as_user(EVE, [EVE], lambda: use_store(place, "wal", store_group=str(LAB)))
    assert f"First run: chgrp {LAB} {place} && chmod 2770 {place}" in refused
    assert "is not a group on this machine" in as_user(
        EVE, [EVE], lambda: use_store(place, "wal", store_group="no lab")
    )
    refused = as_user(EVE, [EVE], lambda: private.make_root(place / "work", LAB))
    assert "does not belong to" in refused
    assert list(place.iterdir()) == []


def test_doctor_finds_files_that_others_can_use_and_restricts_them(place: Path) -> None:
    use_store(place, "truncate")
    places = {"work_folder": str(place / "work"), "storage_root": str(place / "storage")}
    with headgate.connect(f"sqlite:///{place}/headgate.db?journal_mode=truncate", **places) as gate:
        assert gate.faults() == []
        wide = {"headgate.db": 0o644, "headgate.db-gate": 0o660, "work": 0o755, "storage": 0o750}
        for name, mode in wide.items():
            (place / name).chmod(mode)
        found = gate.faults()
        assert [(Path(each.item).name, each.kind) for each in found] == [(name, OPEN_FILES) for name in wide]
        assert "every user of this machine has access to it (mode 0644)" in found[0].what
        assert found[0].repair == "set its mode to 0600"
        stranger = place / "other"
        stranger.touch(0o644)
        elsewhere = type(found[0])(OPEN_FILES, str(stranger), "", "")
        assert not gate.repair(elsewhere, by="ann")
        assert all(gate.repair(each, by="ann") for each in found)
        assert gate.faults() == []
        assert [rights(place / name) for name in wide] == [0o600, 0o600, 0o700, 0o700]


@as_root
def test_doctor_leaves_a_shared_store_shared(place: Path) -> None:
    os.chown(place, 0, LAB)
    place.chmod(0o2770)
    use_store(place, "truncate", store_group=str(LAB))
    (place / "headgate.db").chmod(0o664)
    places = {"work_folder": str(place / "work"), "storage_root": str(place / "storage")}
    url = f"sqlite:///{place}/headgate.db?journal_mode=truncate"
    with headgate.connect(url, **places, store_group=str(LAB)) as gate:
        (fault,) = gate.faults()
        assert gate.repair(fault, by="ann")
        assert rights(place / "headgate.db") == 0o660
    with headgate.connect(url, **places) as gate:  # Nor does a process without the setting.
        assert gate.faults() == []


def test_a_restored_store_and_an_export_are_private_and_keys_always(place: Path) -> None:
    use_store(place, "truncate")
    (backup,) = place.glob("backup-*")
    settings = load({"url": f"sqlite:///{place}/restored.db"})
    former = os.umask(0)
    try:
        with restoring(settings, backup) as moving:
            moving.run(lambda _count: None)
        add_to_ring(str(place / "ring"), lambda _ring: 0)
        with headgate.connect(f"sqlite:///{place}/headgate.db", storage_root=str(place / "storage")) as gate:
            export(open_storage("ocfl", "", gate.ingest.options), "ark:/1/a", place / "exported")
    finally:
        os.umask(former)
    made = [place / "restored.db", backup.with_name(backup.name + ".restored"), place / "ring"]
    assert {
        rights(path) for path in [*made, *(each for each in (place / "exported").rglob("*") if each.is_file())]
    } == {0o600}
    assert rights(place / "exported/inner") == rights(place / "exported") == 0o700


def test_one_module_creates_files_and_folders() -> None:
    """New files are created by `headgate.private`, so that no other code chooses a mode."""
    texts = {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    found = {name: made for name, text in texts.items() if (made := MAKES_FILES.findall(text))}
    assert set(found) == {"private.py", "service/guards/kinds.py"}  # A guard creates its user's file, not one of ours.


@pytest.mark.parametrize("answer", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_modes_is_used_as_it_is(
    answer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on vfat and Windows shares: new files have the mount's modes, and chmod fails."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(answer, os.strerror(answer))

    former = os.umask(0o077 ^ 0o777)
    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    try:
        private.make_folder(tmp_path / "work" / "folder")
        parent = os.open(tmp_path, os.O_RDONLY)
        private.make_folder_in(parent, "within")
        os.close(parent)
        private.write(tmp_path / "file", "text")
        private.make_file(tmp_path / "empty", None)
    finally:
        os.umask(former)
    made = {path.name for path in tmp_path.rglob("*")}
    assert made == {"work", "folder", "within", "file", "empty"}

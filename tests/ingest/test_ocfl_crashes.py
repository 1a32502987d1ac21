"""Crashes at every point of storing: the old version stays readable, and a repeat creates one version, never two."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headgate.ingest.storage.ocfl import OcflStorage
from headgate.ingest.storage.port import NewFile, Note, ObjectChange
from tests.ingest.validator import validate

ARK = "ark:/13030/m5br8stc"
WHEN = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
#: Every call that changes files or syncs them.
CALLS = ["fsync", "mkdir", "open", "rename", "replace", "rmdir", "unlink", "write"]


def dies_at(point: int, work: Callable[[], object]) -> bool:
    """Do the work in a child process that is killed before its n-th call of that kind. False: it ended before."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            _count_down(point)
            work()
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def _count_down(point: int) -> None:
    left = point

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))


class Scene:
    """A storage with one object of two versions, copied for each death."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {name: self._file(name, content) for name, content in self.contents(3).items()}
        self.base = folder / "base"
        storage = OcflStorage(self.base)
        for number in (1, 2):
            storage.put_version(ARK, self.change(number), Note(f"jid{number}", WHEN))

    def contents(self, number: int) -> dict[str, bytes]:
        return {f"{letter}.txt": f"{letter} {number}".encode() for letter in "abc"[:number]} | {"same.txt": b"same"}

    def change(self, number: int) -> ObjectChange:
        return ObjectChange({name: self._file(name, content) for name, content in self.contents(number).items()})

    def fresh(self, point: int) -> Path:
        root = self.folder / f"at{point}"
        shutil.copytree(self.base, root)
        return root

    def check(self, storage: OcflStorage, *allowed: int) -> int:
        """Check that every existing version is complete; returns their number."""
        versions = storage.list_versions(ARK)
        assert len(versions) in allowed
        for version in versions:
            found = {}
            for file in version.files:
                with storage.read(ARK, file.name, version.number) as source:
                    found[file.name] = source.read()
            assert found == self.contents(version.number)
        return len(versions)

    def _file(self, name: str, content: bytes) -> NewFile:
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"{name}-{digest[:16]}"
        path.write_bytes(content)
        return NewFile(path, len(content), {"sha256": digest})


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill loses nothing that was written, synced or not; so syncs are counted and need not be executed."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if there is one: thousands of small files are created."""
    shared = Path("/dev/shm")  # noqa: S108 - the folder within has a name of its own
    with TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def scene(memory: Path) -> Scene:
    return Scene(memory)


def check_recovery(scene: Scene, root: Path, before: int, after: int) -> None:
    storage = OcflStorage(root)
    assert list(root.with_name(f"{root.name}.staging").iterdir()) == []
    if scene.check(storage, before, after):
        assert storage.verify(ARK) == []


@pytest.mark.parametrize("recovers", [True, False], ids=["by a restart", "by the next writer"])
@pytest.mark.parametrize("old", [0, 2])
def test_a_death_while_a_version_is_stored_leaves_one_whole_version(scene: Scene, old: int, *, recovers: bool) -> None:
    new = old + 1
    point, roots, stored, died = 0, [], set(), True
    while died:
        point += 1
        root = scene.fresh(point)
        survivor = OcflStorage(root)
        if not old:
            survivor.delete(ARK)
        died = dies_at(point, partial(survivor.put_version, ARK, scene.change(new), Note(f"jid{new}", WHEN)))
        stored.add(scene.check(survivor, old, new))
        if recovers:
            check_recovery(scene, root, old, new)
            roots.append(shutil.copytree(root, root.with_suffix(".recovered")))
        assert survivor.put_version(ARK, scene.change(new), Note(f"jid{new}", WHEN)).number == new
        assert scene.check(survivor, new) == new
        assert survivor.verify(ARK) == []
    assert point > 30
    assert stored == {old, new}
    validate(*roots)


def test_a_death_while_an_object_is_deleted_can_be_repeated(scene: Scene) -> None:
    point, roots, left = 0, [], set()
    while True:
        point += 1
        root = scene.fresh(point)
        storage = OcflStorage(root)
        died = dies_at(point, partial(storage.delete, ARK))
        check_recovery(scene, root, 2, 0)
        left.add(len(storage.list_versions(ARK)))
        roots.append(root)
        if not died:
            break
    assert point > 10
    assert left == {0, 2}
    validate(*roots)


def test_a_death_while_the_root_is_created_can_be_repeated(memory: Path) -> None:
    point = 0
    while True:
        point += 1
        root = memory / f"at{point}"
        if not dies_at(point, partial(OcflStorage, root)):
            break
        OcflStorage(root)
        assert sorted(path.name for path in root.iterdir()) == ["0=ocfl_1.1", "extensions", "ocfl_layout.json"]
        assert list(root.with_name(f"{root.name}.staging").iterdir()) == []
    assert point > 10


def test_the_stage_of_a_living_writer_is_left_alone(scene: Scene) -> None:
    storage = OcflStorage(scene.base)
    stages = []

    def look(_size: int) -> None:
        OcflStorage(scene.base)
        stages.append(len(list(scene.base.with_name("base.staging").iterdir())))

    assert storage.put_version(ARK, scene.change(3), Note("jid3", WHEN), progress=look).number == 3
    assert set(stages) == {1}


def test_the_test_can_fail() -> None:
    """A child process that raises is not mistaken for one that was killed."""
    with pytest.raises(AssertionError):
        dies_at(10_000, lambda: sys.exit(3))


def test_nothing_is_moved_into_place_before_it_is_synced(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    moved: list[str] = []
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        for path in [source, *source.rglob("*")]:
            assert path.stat().st_ino in synced, path
        moved.append(target.name)
        real(source, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "replace", rename)
    storage = OcflStorage(scene.base)
    storage.put_version(ARK, scene.change(3), Note("jid3", WHEN))
    storage.put_version("another", scene.change(1), Note("jid4", WHEN))
    assert moved[:3] == ["v3", "inventory.json", "inventory.json.sha256"]
    assert len(moved) == 4

"""Guards of other packages: found by their entry points, used by their names, and reported when missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate
from headgate import BadValue, LockRefused, StorageGuardFailed
from headgate.core.locks.model import Mode
from headgate.service.guards.kinds import check_guards, load_guards

SHELF = """
from headgate import GuardBusy, Mode

LOCKED = {}


class ShelfGuard:
    def lock(self, resource, mode):
        if resource.endswith("lent"):
            raise GuardBusy(f"{resource} is lent")
        if resource.endswith("burnt"):
            raise OSError("the shelf has burnt down")
        LOCKED[resource] = mode
        return ShelfHold(resource)


class ShelfHold:
    def __init__(self, resource):
        self.resource = resource

    def change(self, mode):
        LOCKED[self.resource] = mode

    def close(self):
        del LOCKED[self.resource]


def broken():
    raise RuntimeError("no catalogue")
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Mode]:
    """An installed package with two guards; and the locks of the first."""
    (tmp_path / "shelf_guard.py").write_text(SHELF)
    info = tmp_path / "shelf_guard-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-guard\nVersion: 1.0\n")
    entries = "[headgate.guards]\nshelf = shelf_guard:ShelfGuard\nbroken = shelf_guard:broken\n"
    (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path)
    import shelf_guard  # type: ignore[import-not-found] # it was written just now

    locked: dict[str, Mode] = shelf_guard.LOCKED
    return locked


def test_a_guard_of_another_package_backs_our_locks(shelf: dict[str, Mode], tmp_path: Path) -> None:
    with headgate.connect(f"sqlite:///{tmp_path}/headgate.db", guards="file, shelf") as gate:
        lock = gate.locks.acquire("a", "shelf:7", "read", lease=60)
        assert shelf == {"shelf:7": Mode.SHARED}
        lock = gate.locks.upgrade(lock)
        assert shelf == {"shelf:7": Mode.EXCLUSIVE}
        with pytest.raises(LockRefused, match="shelf:9 lent is lent"):
            gate.locks.acquire_all("a", {"shelf:8": "write", "shelf:9 lent": "write"}, lease=60)
        with pytest.raises(StorageGuardFailed, match="burnt down"):
            gate.locks.acquire_all("a", {"shelf:8": "write", "shelf:9 burnt": "write"}, lease=60)
        assert [each.resource for each in gate.locks.list()] == ["shelf:7"]
        gate.locks.release(lock)
        assert shelf == {}


def test_an_unknown_guard_is_refused_with_a_list_of_installed_ones(shelf: dict[str, Mode]) -> None:
    with pytest.raises(BadValue, match=r"'shelv' is not installed; available: file, broken, shelf"):
        check_guards("file,shelv")
    assert check_guards(" shelf ,file, shelf,") == ["shelf", "file"]


def test_a_guard_that_cannot_be_created_is_named(shelf: dict[str, Mode]) -> None:
    with pytest.raises(BadValue, match=r"'broken' cannot be loaded from shelf_guard:broken: no catalogue"):
        load_guards(["broken"])

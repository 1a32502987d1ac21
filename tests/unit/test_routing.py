"""Two stores as one: which resource lives where, and what cannot be done in one step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate.wiring import open_lock_store


@pytest.fixture
def urls(tmp_path: Path) -> tuple[str, str]:
    """A store for the ledger, and one for everything else."""
    return f"sqlite:///{tmp_path / 'ledger.db'}", f"sqlite:///{tmp_path / 'coordination.db'}"


@pytest.fixture
def gate(urls: tuple[str, str]) -> Iterator[headgate.Gate]:
    """A gate on both."""
    with headgate.connect(urls[0], coordination_url=urls[1]) as opened:
        yield opened


def listed(url: str) -> list[str]:
    """The resources that are held in one store."""
    with headgate.connect(url) as gate:
        return [lock.resource for lock in gate.locks.list()]


def test_chunks_live_beside_the_ledger_and_all_else_in_the_coordination_store(
    gate: headgate.Gate, urls: tuple[str, str]
) -> None:
    chunk = gate.locks.acquire("c", "data:orders/1", "write")
    other = gate.locks.acquire("c", "mysql://db1/core", "write")
    assert listed(urls[0]) == ["data:orders/1"]
    assert listed(urls[1]) == ["mysql://db1/core"]
    assert {lock.id for lock in gate.locks.list()} == {chunk.id, other.id}
    assert gate.status()["lockCount"] == 2


def test_a_lock_is_found_again_by_its_id_in_either_store(gate: headgate.Gate) -> None:
    for resource in ("data:orders/1", "mysql://db1/core"):
        lock = gate.locks.upgrade(gate.locks.acquire("c", resource, "read", lease=60))
        assert gate.locks.check(gate.locks.renew(lock)).resource == resource
        gate.locks.release(gate.locks.downgrade(lock))
    assert gate.locks.list() == []
    assert {entry.resource for entry in gate.history()} == {"data:orders/1", "mysql://db1/core"}


def test_resources_of_two_stores_are_refused_as_one_collection(gate: headgate.Gate) -> None:
    with pytest.raises(headgate.BadValue, match="two stores"):
        gate.locks.acquire_all("c", {"data:orders/1": "write", "mysql://db1/core": "read"})
    assert gate.locks.list() == []


def test_waiting_goes_to_the_store_of_the_resource(gate: headgate.Gate) -> None:
    gate.locks.acquire("first", "data:orders/1", "write")
    with pytest.raises(headgate.LockRefused, match="first"):
        gate.locks.acquire("second", "data:orders/1", "read", wait=0.05)
    assert gate.locks.waiters() == []


def test_history_of_both_is_paged_by_time_only(gate: headgate.Gate) -> None:
    gate.locks.acquire("c", "data:orders/1", "write")
    with pytest.raises(headgate.BadValue, match="two stores are joined"):
        gate.history(before=5)


def test_the_same_url_twice_is_one_store(urls: tuple[str, str]) -> None:
    with headgate.connect(urls[0], coordination_url=urls[0]) as gate:
        assert gate.locks.acquire_all("c", {"data:orders/1": "write", "x:y": "read"})
    assert type(open_lock_store(urls[0])).__name__ == "SqlLocks"

"""Two stores as one: locks on `data:` chunks are beside the ledger, all others in the coordination store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate import BadValue, Gate, LockLost, LockRefused, Refused, UnknownName

CHUNK, OTHER = "data:orders/1", "mysql://db1/core"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with headgate.connect("sqlite:///main.db", coordination_url="sqlite:///locks.db") as gate:
        yield gate


def resources_in(url: str) -> list[str]:
    with headgate.connect(url) as gate:
        return sorted(lock.resource for lock in gate.locks.list())


def test_each_lock_is_in_the_store_of_its_resource(gate: Gate) -> None:
    gate.locks.acquire("a", CHUNK, "write")
    gate.locks.acquire("a", OTHER, "write")
    assert resources_in("sqlite:///main.db") == [CHUNK]
    assert resources_in("sqlite:///locks.db") == [OTHER]


def test_callers_see_one_store(gate: Gate) -> None:
    for resource in (CHUNK, OTHER):
        lock = gate.locks.acquire("a", resource, "read", lease=60)
        assert gate.locks.check(lock).resource == resource
        assert gate.locks.get(lock.id).id == lock.id
        gate.locks.renew(lock)
        lock = gate.locks.downgrade(gate.locks.upgrade(lock))
        with pytest.raises(LockRefused):
            gate.locks.acquire("b", resource, "write")
        with pytest.raises(LockRefused):
            gate.locks.acquire("b", resource, "write", wait=0.05)
        gate.locks.release(lock)
        with pytest.raises(LockLost):
            gate.locks.release(lock)
        broken = gate.locks.acquire("a", resource, "read")
        gate.locks.break_lock(broken.id, reason="it hangs")
        with pytest.raises(UnknownName):
            gate.locks.get(broken.id)
    assert gate.locks.list() == []


def test_lists_are_merged_and_paged(gate: Gate) -> None:
    names = [f"{scheme}:{number}" for number in range(4) for scheme in ("data", "other")]
    ids = sorted(gate.locks.acquire("a", name, "read").id for name in names)
    pages, after = [], None
    while page := gate.locks.list(limit=3, after=after):
        pages.append(len(page))
        after = page[-1].id
    assert pages == [3, 3, 2]
    assert [lock.id for lock in gate.locks.list()] == ids
    assert [each["id"] for each in gate.status()["locks"]] == sorted(names)
    assert gate.locks.resources() == sorted(names)


def test_the_history_is_one(gate: Gate) -> None:
    for resource in (CHUNK, OTHER):
        gate.locks.release(gate.locks.acquire("a", resource, "write"))
    assert [(entry.resource, entry.event) for entry in reversed(gate.history())] == [
        (CHUNK, "grant"),
        (CHUNK, "release"),
        (OTHER, "grant"),
        (OTHER, "release"),
    ]
    for asked in (CHUNK, None):
        newest = gate.history(asked, limit=1)
        assert [entry.event for entry in gate.history(asked, after=newest.next)][-1] == "grant"
    with pytest.raises(BadValue, match="after"):
        gate.history(after="5.7")


def test_a_collection_over_both_stores_cannot_be_one_step(gate: Gate) -> None:
    with pytest.raises(BadValue, match="are in two stores"):
        gate.locks.acquire_all("a", {CHUNK: "read", OTHER: "read"})
    assert gate.locks.list() == []


def test_a_client_that_holds_a_lock_in_either_store_is_not_forgotten(gate: Gate) -> None:
    gate.locks.register_client("a")
    for resource in (CHUNK, OTHER):
        lock = gate.locks.acquire("a", resource, "write")
        with pytest.raises(Refused, match="'a'"):
            gate.locks.forget_client("a")
        gate.locks.release(lock)
    gate.locks.forget_client("a")
    assert gate.locks.clients() == []


def test_resources_are_listed_by_their_own_store(gate: Gate) -> None:
    for resource in (CHUNK, OTHER):
        gate.locks.register_resource(resource)
    assert gate.locks.resources() == [CHUNK, OTHER]
    for resource in (CHUNK, OTHER):
        gate.locks.forget_resource(resource)
    assert gate.locks.resources() == []


def test_a_coordination_store_that_cannot_be_opened_opens_nothing() -> None:
    with pytest.raises(BadValue, match="is not a supported URL"):
        headgate.connect("sqlite:///main.db", coordination_url="redis://host")

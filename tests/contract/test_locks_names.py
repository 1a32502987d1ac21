"""A resource is its URI, exactly as written; so is a client."""

import pytest

from headgate import Gate, LockRefused
from headgate.core.locks.model import resource_key
from headgate.stores.ports.locks import LockStore
from tests.contract.steps import EXCLUSIVE, Gates, request_for

COMPOSED, DECOMPOSED = "file:///caf\u00e9", "file:///cafe\u0301"

PAIRS = [
    ("mysql://db1/core", "mysql://db1/CORE"),
    ("mysql://db1/core", "mysql://db1/core "),
    ("mysql://db1/core", " mysql://db1/core"),
    ("mysql://db1/core", "mysql://db1//core"),
    ("mysql://db1/core", "mysql://db1/core/"),
    ("file:///a%20b", "file:///a b"),
    ("x", "X"),
    ("stra\u00dfe", "strasse"),
    ("\u0130", "i"),
    ("a", "\u00e1"),
    ("a", "\uff41"),
    ("0", "00"),
    ("r", "r\u200d" if "\u200d".isprintable() else "r."),
    (COMPOSED, DECOMPOSED),
    ("\U0001f512", "\U0001f513"),
]

UNUSUAL = [
    "x" * 2048,
    "\U0001f512" * 2048,
    "\u00e9" * 2048,
    "it's \"quoted\" `so`",
    "100 % sure %s %(name)s %d",
    "C:\\temp\\new\\",
    "'; drop table hg_lock; --",
    "a:b :name :keys* {now} {0}",
    "?&=#/+;,$@!~*()[]{}<>|^",
    ".", "..", "/", "//", "-", "--help", "null", "NULL", "None", "0", "-1", "1e5", "true",
    "a/../b", "zookeeper", "locks", "\u4e2d\u6587/\u0440\u0443\u0441\u0441\u043a\u0438\u0439",
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_names_that_differ_in_anything_are_different_resources(gate: Gate, one: str, other: str) -> None:
    first = gate.locks.acquire("a", one, "write")
    second = gate.locks.acquire("a", other, "write")
    assert first.id != second.id
    assert [lock.resource for lock in gate.locks.list(resource=one)] == [one]
    assert [lock.resource for lock in gate.locks.list(resource=other)] == [other]
    for name in (one, other):
        with pytest.raises(LockRefused):
            gate.locks.acquire("b", name, "read")
    gate.locks.release(first)
    assert [lock.resource for lock in gate.locks.list()] == [other]


def test_many_unusual_names_come_back_exactly_as_written(gates: Gates) -> None:
    gate, elsewhere = gates.open(), gates.open()
    grant = gate.locks.acquire_all("a", dict.fromkeys(UNUSUAL, "write"))
    assert [lock.resource for lock in grant] == sorted(UNUSUAL)
    assert {lock.resource for lock in elsewhere.locks.list()} == set(UNUSUAL)
    assert [each["id"] for each in elsewhere.status()["locks"]] == sorted(UNUSUAL)
    assert {entry.resource for entry in elsewhere.history(limit=1000)} == set(UNUSUAL)
    for lock in grant:
        elsewhere.locks.release(lock.id, lock.token)
    assert gate.locks.list() == []


def test_each_unusual_name_is_held_waited_for_and_refused_like_any_other(store: LockStore) -> None:
    for name in UNUSUAL:
        (lock,) = store.acquire(request_for("a", (name, EXCLUSIVE)))
        ticket = store.queue_up(request_for("b", (name, EXCLUSIVE)))
        assert [waiter.resource for waiter in store.waiters(name)] == [name]
        assert not isinstance(ticket, tuple)
        store.release(lock.id, lock.token)
        assert store.take_turn(ticket)
    assert list(store.resources()) == sorted(UNUSUAL)


@pytest.mark.parametrize(
    "client",
    ["x" * 255, "\U0001f600" * 255, 'it\'s "me" %s \\ ; --', "user@host", "ЖУК", " leading and trailing "],
    ids=["long", "emoji", "quotes", "at", "cyrillic", "blanks"],
)
def test_a_clients_name_comes_back_exactly_as_written(gate: Gate, client: str) -> None:
    lock = gate.locks.acquire(client, "r", "write", note=client[:200], reentrant=True)
    assert (gate.locks.get(lock.id).client, gate.locks.get(lock.id).note) == (client, client[:200])
    assert [each.id for each in gate.locks.list(client=client)] == [lock.id]
    assert [entry.client for entry in gate.history(client=client)] == [client]
    with pytest.raises(LockRefused):
        gate.locks.acquire(client[:-1] + "?", "r", "write", reentrant=True)


def test_clients_that_differ_in_case_are_different_clients(gate: Gate) -> None:
    gate.locks.acquire("Copy", "r", "write", reentrant=True)
    for other in ("copy", "Copy ", "COPY"):
        with pytest.raises(LockRefused):
            gate.locks.acquire(other, "r", "write", reentrant=True)
        assert gate.locks.list(client=other) == []


def test_a_lock_id_names_store_resource_and_request(gates: Gates, store: LockStore) -> None:
    lock = gates.open().locks.acquire("a", "mysql://db1/core", "write")
    tag, key, _ = lock.id.split("-")
    assert tag == store.tag
    assert key == resource_key("mysql://db1/core")

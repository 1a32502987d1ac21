"""After an outage of the service, leases on ZooKeeper are extended by its length too."""

import time
from typing import Any

import pytest

import headgate
from headgate import Gate, ItemLost, LockLost
from headgate.core.queue.model import Item
from tests.contract.queue_steps import batch_with_jobs
from tests.waiting import until

#: Long enough to be renewed once on a busy machine, short enough for a test.
LEASE = 1.0


def outages(gate: Gate) -> Any:
    return gate.store.outages


@pytest.fixture
def gate(url: str) -> Any:
    with headgate.connect(url) as gate:
        yield gate


def item_is_alive(gate: Gate, item: Item) -> bool:
    return bool(gate.queue.job(item.id).worker)


def lock_is_alive(gate: Gate, lock: headgate.Lock) -> bool:
    try:
        gate.locks.check(lock)
    except LockLost:
        return False
    return True


def test_leases_are_extended_by_the_length_of_an_outage(gate: Gate) -> None:
    batch_with_jobs(gate.queue)
    outages(gate).report_alive()
    lock = gate.locks.acquire("a", "r", "write", lease=LEASE)
    forever = gate.locks.acquire("a", "persistent", "write")
    job = gate.queue.acquire_job("pending", lease=LEASE, outlives=True)
    assert job
    until(lambda: not lock_is_alive(gate, lock) and not item_is_alive(gate, job), "the leases to run out")
    assert outages(gate).bridge() > LEASE
    shown = gate.locks.get(lock.id)
    assert shown.expires_in is not None
    assert 0 < shown.expires_in <= LEASE
    assert shown.lease == LEASE
    assert gate.locks.renew(lock).expires_in == LEASE
    assert gate.queue.renew(job) == LEASE
    assert gate.locks.get(forever.id).expires_in is None


def test_leases_that_expired_before_the_outage_stay_expired(gate: Gate) -> None:
    batch_with_jobs(gate.queue)
    lock = gate.locks.acquire("dead", "r", "write", lease=LEASE)
    job = gate.queue.acquire_job("pending", lease=LEASE, outlives=True)
    assert job
    until(lambda: not lock_is_alive(gate, lock) and not item_is_alive(gate, job), "the leases to run out")
    outages(gate).report_alive()
    time.sleep(0.05)  # An outage, however short.
    assert 0 < outages(gate).bridge() < LEASE
    assert not lock_is_alive(gate, lock)
    with pytest.raises(ItemLost):
        gate.queue.renew(job)


def test_a_store_that_never_had_a_service_had_no_outage(gate: Gate) -> None:
    assert outages(gate).bridge() == 0

"""A service that was unavailable extends leases by that time: clients that could not renew meanwhile lose nothing."""

from typing import Any

import pytest

from headgate import Gate, LockLost
from headgate.stores.sql.database.sql_text import Statement
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, one_job
from tests.contract.queue_steps import batch_with_jobs
from tests.contract.test_queue_sql import by_hand

pytestmark = pytest.mark.parametrize("kind", SQL_STORES)
#: How long it was unavailable, and the length of leases, which is shorter.
OUTAGE, LEASE = 1000.0, 100.0


def outages(gate: Gate) -> Any:
    return gate.store.outages


def go_back(gate: Gate, seconds: float) -> None:
    """As if all of it had happened that long ago."""
    for table in ("hg_lock", "hg_chunk", "hg_batch", "hg_ingest_job"):
        text = f"update {table} set lease_until = lease_until - :ago where lease_until is not null"  # noqa: S608 - ours
        by_hand(gate, text, ago=int(seconds * 1e6))


def heard_of(gate: Gate, seconds_ago: float) -> None:
    outages(gate).report_alive()
    (row,) = database(gate).read(lambda tx: tx.all(Statement("By hand.", "select {now}")))
    text = "update hg_meta set value = :value where name = 'service_alive'"
    by_hand(gate, text, value=str(int(row[0]) - int(seconds_ago * 1e6)))


def test_leases_are_extended_by_the_length_of_an_outage(gate: Gate) -> None:
    lock = gate.locks.acquire("a", "r", "write", lease=LEASE)
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    claim = ledger.find_next("clean", lease=LEASE)
    batch_with_jobs(gate.queue)
    job = gate.queue.acquire_job("pending", lease=LEASE)
    assert claim
    assert job
    heard_of(gate, OUTAGE)
    go_back(gate, OUTAGE - 1)  # They were acquired a second after its last sign of life.
    with pytest.raises(LockLost):
        gate.locks.check(lock)
    assert outages(gate).bridge() == pytest.approx(OUTAGE, abs=60)
    assert gate.locks.renew(lock).token == lock.token
    assert gate.ledger.heartbeat(claim) > 0
    assert gate.queue.renew(job) > 0


def test_leases_that_expired_before_the_outage_stay_expired_and_none_is_extended_beyond_its_length(gate: Gate) -> None:
    dead = gate.locks.acquire("dead", "r1", "write", lease=LEASE)
    heard_of(gate, OUTAGE)
    go_back(gate, OUTAGE + LEASE + 1)
    alive = gate.locks.acquire("alive", "r2", "write", lease=LEASE)
    forever = gate.locks.acquire("persistent", "r3", "write")
    outages(gate).bridge()
    with pytest.raises(LockLost):
        gate.locks.renew(dead)
    left = gate.locks.get(alive.id).expires_in
    assert left is not None
    assert left <= LEASE
    assert gate.locks.get(forever.id).expires_in is None


def test_a_service_that_was_not_down_extends_no_lease(gate: Gate) -> None:
    by_hand(gate, "delete from hg_meta where name = 'service_alive'")  # A store without any service so far.
    assert outages(gate).bridge() == 0
    lock = gate.locks.acquire("a", "r", "write", lease=LEASE)
    go_back(gate, LEASE + 1)
    outages(gate).report_alive()
    assert outages(gate).bridge() < LEASE
    with pytest.raises(LockLost):
        gate.locks.check(lock)

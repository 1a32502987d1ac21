"""Damage to locks, chunks, counters and history: the doctor finds each kind, explains it, and repairs it where safe."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate import Gate, LockRefused
from headgate.core.faults import Fault, clock_fault
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, next_id, one_job, status_of
from tests.contract.queue_steps import WHO, batch_with_jobs, job_in, new_batch, taken_job

on_sql = pytest.mark.parametrize("kind", SQL_STORES)
on_sql_and_http = pytest.mark.parametrize("kind", [*SQL_STORES, "http"])

#: Make a database accept damage that it would refuse, so that no constraint prevents the doctor from being tested.
UNCHECKED = {
    "sqlite": ("pragma ignore_check_constraints = on", "pragma ignore_check_constraints = off"),
    "postgresql": ("alter table hg_chunk drop constraint hg_chunk_lease", "select 1"),
    "mysql": ("set check_constraint_checks = 0", "set check_constraint_checks = 1"),
}


def by_hand(gate: Gate, *texts: str, **params: object) -> None:
    """Statements that bypass Headgate."""

    def work(tx: Transaction) -> None:
        for text in texts:
            tx.run(Statement("By hand.", text), **params)

    database(gate).write(work)


def unchecked(gate: Gate, text: str) -> None:
    """The same, without the constraint on leases."""
    before, after = UNCHECKED[database(gate).dialect.kind]
    constraint = "check ((lease_until is null) = (status <> 'RUNNING')) not valid"

    def work(connection: Any) -> None:
        cursor = connection.cursor()
        for each in (before, text, after):
            cursor.execute(each)
        if database(gate).dialect.kind == "postgresql":
            cursor.execute(f"alter table hg_chunk add constraint hg_chunk_lease {constraint}")
        cursor.close()

    database(gate).lend(work)


# each kind of damage, and how it is made


def lost_candidate(gate: Gate) -> tuple[str, str]:
    one_job(gate).publish("raw", ["1", "2"])
    by_hand(gate, "delete from hg_candidate where dataid = '1'")
    return "lost-candidate", "clean/1"


def hidden_candidate(gate: Gate) -> tuple[str, str]:
    one_job(gate).publish("raw", ["1", "2"])
    by_hand(gate, "update hg_candidate set missing = 1 where dataid = '1'")
    return "lost-candidate", "clean/1"


def lost_retry(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    claim = ledger.find_next("clean")
    assert claim
    ledger.fail(claim, "the disk is full")
    by_hand(gate, "delete from hg_candidate")
    return "lost-candidate", "clean/1"


def orphan_candidate(gate: Gate) -> tuple[str, str]:
    one_job(gate).publish("raw", ["1"])
    by_hand(gate, "update hg_candidate set dataid = '7'")
    by_hand(gate, "delete from hg_chunk")
    return "orphan-candidate", "clean/7"


def running_without_lease(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    assert ledger.find_next("clean")
    unchecked(gate, "update hg_chunk set lease = null, lease_until = null where status = 'RUNNING'")
    return "no-lease", "clean/1"


def endless_claim(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    assert ledger.find_next("clean")
    by_hand(gate, "update hg_chunk set lease_until = lease_until + 9000000000000000 where lease_until is not null")
    return "long-claim", "clean/1"


def endless_lock(gate: Gate) -> tuple[str, str]:
    lock = gate.locks.acquire("ann", "a:b", "exclusive", lease=60)
    by_hand(gate, "update hg_lock set lease_until = lease_until + 9000000000000000")
    return "long-lease", lock.id


def endless_item(gate: Gate) -> tuple[str, str]:
    job = job_in(gate.queue, "pending")
    taken_job(gate.queue)
    by_hand(gate, "update hg_ingest_job set lease_until = lease_until + 9000000000000000")
    return "long-item", job.id


def lock_without_resource(gate: Gate) -> tuple[str, str]:
    lock = gate.locks.acquire("ann", "a:b", "exclusive")
    by_hand(gate, "delete from hg_resource")
    return "no-resource", lock.id


def wrong_holders(gate: Gate) -> tuple[str, str]:
    gate.locks.acquire("ann", "a:b", "exclusive")
    by_hand(gate, "update hg_resource set holders = 0")
    return "wrong-resource", "a:b"


def held_by_nobody(gate: Gate) -> tuple[str, str]:
    gate.locks.acquire("ann", "a:b", "exclusive")
    by_hand(gate, "delete from hg_lock")
    return "wrong-resource", "a:b"


def token_of_resource_behind(gate: Gate) -> tuple[str, str]:
    gate.locks.acquire("ann", "a:b", "exclusive")
    by_hand(gate, "update hg_resource set token = 0")
    return "wrong-resource", "a:b"


def lost_waiter(gate: Gate) -> tuple[str, str]:
    gate.locks.acquire("ann", "a:b", "shared")
    by_hand(gate, "insert into hg_wait (rkey, ticket, mode) select rkey, 99, 'shared' from hg_resource")
    return "lost-waiter", "waiter 99"


def counter_behind(gate: Gate) -> tuple[str, str]:
    new_batch(gate.queue)
    by_hand(gate, "update hg_counter set value = value - 1 where name = 'bid'")
    return "counter-behind", "counter bid"


def counter_gone(gate: Gate) -> tuple[str, str]:
    batch_with_jobs(gate.queue, 2)
    by_hand(gate, "delete from hg_counter where name = 'jid'")
    return "counter-behind", "counter jid"


def tokens_behind(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    assert ledger.find_next("clean")
    by_hand(gate, "update hg_chunk set token = token + 1000000 where status = 'RUNNING'")
    return "token-behind", "counter of tokens"


REPAIRABLE: dict[str, Callable[[Gate], tuple[str, str]]] = {
    "a chunk that find_next does not see": lost_candidate,
    "a chunk that seems to miss an input": hidden_candidate,
    "a failed chunk that is not retried": lost_retry,
    "a candidate without a chunk": orphan_candidate,
    "a chunk that runs without a lease": running_without_lease,
    "a claim that never expires": endless_claim,
    "a lock that never expires": endless_lock,
    "a taken ingest job that never expires": endless_item,
    "a lock without its resource": lock_without_resource,
    "a lock that its resource does not count": wrong_holders,
    "a resource that is held by nobody": held_by_nobody,
    "a resource whose token is behind": token_of_resource_behind,
    "a place in a queue of no waiter": lost_waiter,
    "a counter behind the ids in use": counter_behind,
    "a counter that is gone": counter_gone,
    "a counter of tokens behind those in use": tokens_behind,
}


def lost_output(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    claim = ledger.find_next("clean")
    assert claim
    ledger.success(claim)
    by_hand(gate, "delete from hg_chunk where kind = 'OUTPUT' and job_id <> 0", "delete from hg_candidate")
    return "lost-output", "clean/1"


def lost_job(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    assert ledger.find_next("clean")
    number = database(gate).read(lambda tx: tx.one(Statement("It.", "select id from hg_job where name = 'clean'")))[0]
    by_hand(gate, "delete from hg_job where name = 'clean'")
    return "no-job", f"job number {number}"


def lost_links(gate: Gate) -> tuple[str, str]:
    one_job(gate)
    by_hand(gate, "delete from hg_job_dataset where job_id = (select id from hg_job where name = 'report')")
    return "no-datasets", "report"


def lost_dataset(gate: Gate) -> tuple[str, str]:
    one_job(gate).publish("raw", ["1"])
    find = Statement("It.", "select id from hg_dataset where name = 'rep'")
    number = database(gate).read(lambda tx: tx.one(find))[0]
    by_hand(gate, "delete from hg_dataset where name = 'rep'")
    return "no-dataset", f"dataset number {number}"


def deleted_history_of_a_lock(gate: Gate) -> tuple[str, str]:
    lock = gate.locks.acquire("ann", "a:b", "exclusive")
    by_hand(gate, "delete from hg_history")
    return "lost-history", lock.id


def deleted_history_of_a_chunk(gate: Gate) -> tuple[str, str]:
    ledger = one_job(gate)
    ledger.publish("raw", ["1"])
    assert ledger.find_next("clean")
    by_hand(gate, "delete from hg_history")
    return "lost-history", "clean/1"


def deleted_history_of_a_batch(gate: Gate) -> tuple[str, str]:
    batch = new_batch(gate.queue)
    by_hand(gate, "delete from hg_history")
    return "lost-history", batch.id


def clock_was_ahead(gate: Gate) -> tuple[str, str]:
    gate.locks.acquire("ann", "a:b", "exclusive")
    by_hand(gate, "update hg_history set at = at + 200000000000000")
    return "future-history", "history"


ONLY_EXPLAINED: dict[str, Callable[[Gate], tuple[str, str]]] = {
    "an output row that is gone": lost_output,
    "a job whose definition is gone": lost_job,
    "a job whose datasets are gone": lost_links,
    "a dataset whose definition is gone": lost_dataset,
    "deleted history of a lock": deleted_history_of_a_lock,
    "deleted history of a chunk": deleted_history_of_a_chunk,
    "deleted history of a batch": deleted_history_of_a_batch,
    "history that was written years ahead": clock_was_ahead,
}


def the_fault(gate: Gate, kind: str, item: str) -> Fault:
    (fault,) = gate.faults()
    assert (fault.kind, fault.item) == (kind, item), fault
    assert fault.what
    return fault


# ---------------------------------------------------------------- the doctor


@on_sql
@pytest.mark.parametrize("what", REPAIRABLE)
def test_damage_is_found_explained_and_repaired(gate: Gate, what: str) -> None:
    kind, item = REPAIRABLE[what](gate)
    fault = the_fault(gate, kind, item)
    assert fault.repair
    assert gate.faults() == [fault], "looking repairs nothing"
    assert gate.repair(fault, by=WHO)
    assert gate.faults() == []


@on_sql
@pytest.mark.parametrize("what", ONLY_EXPLAINED)
def test_damage_that_needs_an_operator_is_explained_and_left_alone(gate: Gate, what: str) -> None:
    kind, item = ONLY_EXPLAINED[what](gate)
    fault = the_fault(gate, kind, item)
    assert not fault.repair
    assert not gate.repair(fault, by=WHO)
    assert gate.faults() == [fault]


@on_sql
def test_a_healthy_store_with_items_of_every_kind_has_no_fault(gate: Gate) -> None:
    ledger = one_job(gate, max_attempts=2)
    ledger.publish("raw", [str(number) for number in range(8)])
    claims = [claim for claim in (ledger.find_next("clean") for _ in range(5)) if claim]
    for claim in claims[:2]:
        ledger.success(claim)
    ledger.fail(claims[2], "no disk")
    ledger.resubmit("clean", "0", reason="again", downstream=True)
    ledger.hold("clean", "7", reason="wait")
    ledger.set_status("tidy", "9", "clean", "OUTPUT", "PENDING", reason="by hand")
    gate.locks.acquire("ann", "a:b", "shared")
    gate.locks.acquire("bob", "a:b", "shared", lease=30)
    gate.locks.release(gate.locks.acquire("ann", "a:c", "exclusive"))
    job_in(gate.queue, "downloading")
    taken_job(gate.queue, "downloading")
    batch_with_jobs(gate.queue, 2)
    assert gate.faults() == []


@on_sql_and_http
def test_a_repaired_store_works_again(gate: Gate) -> None:
    lost_candidate(gate)
    assert next_id(gate.ledger, "clean") == "2", "the damage is real"
    for fault in gate.faults():
        assert gate.repair(fault, by=WHO)
    assert next_id(gate.ledger, "clean") == "1"
    running_without_lease_repaired(gate)


def running_without_lease_repaired(gate: Gate) -> None:
    unchecked(gate, "update hg_chunk set lease = null, lease_until = null where dataid = '1' and status = 'RUNNING'")
    (fault,) = gate.faults()
    assert gate.repair(fault, by=WHO)
    assert status_of(gate.ledger, "tidy", "1", "clean") == "ERROR"


@on_sql
def test_a_resource_that_is_put_back_keeps_others_out_and_its_tokens_grow(gate: Gate) -> None:
    lock_without_resource(gate)
    (fault,) = gate.faults()
    assert gate.repair(fault, by=WHO)
    with pytest.raises(LockRefused):
        gate.locks.acquire("bob", "a:b", "exclusive")
    (held,) = gate.locks.list()
    gate.locks.release(held)
    assert gate.locks.acquire("bob", "a:b", "exclusive").token > held.token


@on_sql
def test_after_a_counter_was_raised_a_batch_can_be_submitted(gate: Gate) -> None:
    counter_behind(gate)
    (fault,) = gate.faults()
    assert gate.repair(fault, by=WHO)
    assert new_batch(gate.queue).id == "bid0000000002"


def test_a_clock_that_is_years_ahead_is_explained() -> None:
    from datetime import UTC, datetime, timedelta

    here = datetime(2026, 11, 15, tzinfo=UTC)
    assert clock_fault("postgresql://db1/headgate", here + timedelta(hours=1), here) is None
    for apart, word in ((timedelta(days=900), "ahead of"), (timedelta(days=-2), "behind")):
        fault = clock_fault("postgresql://db1/headgate", here + apart, here)
        assert fault is not None
        assert (fault.kind, fault.repair) == ("store-clock", "")
        assert word in fault.what

"""The queue's tables: guarded by the database, read by index, repaired by the doctor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import Gate
from headgate.core.faults import Fault
from headgate.core.queue.model import JobCounts, forward_event, work_states
from headgate.core.tables.states import INGEST_JOB
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.queue import statements as sql
from tests.conftest import SQL_STORES, fresh_store
from tests.contract.ledger_steps import database
from tests.contract.queue_steps import (
    WHO,
    as_batch,
    batch_in,
    batch_with_jobs,
    everything,
    job_in,
    new_batch,
    taken_batch,
    taken_job,
    told,
)
from tests.shared_servers import Servers

on_sql = pytest.mark.parametrize("kind", SQL_STORES)


def by_hand(gate: Gate, text: str, **params: object) -> None:
    """The statements of a user who bypasses the library."""
    database(gate).write(lambda tx: tx.run(Statement("By hand.", text), **params))


# ---------------------------------------------------------------- the doctor


def wrong_counts(gate: Gate) -> tuple[str, str]:
    batch = batch_with_jobs(gate.queue, 3)
    by_hand(gate, "update hg_batch set processing = 1, failed = 1")
    return "wrong-count", batch.id


def lost_job(gate: Gate) -> tuple[str, str]:
    batch = batch_with_jobs(gate.queue, 2)
    by_hand(gate, "delete from hg_ingest_job where position = 0")
    return "wrong-count", batch.id


def endless_batch(gate: Gate) -> tuple[str, str]:
    job = job_in(gate.queue, "completed")
    by_hand(gate, "update hg_batch set processing = 1, completed = 0")
    return "never-finishes", job.batch


def orphan(gate: Gate) -> tuple[str, str]:
    job = job_in(gate.queue, "downloading")
    by_hand(gate, "delete from hg_batch")
    return "no-batch", job.id


def dead_owner(gate: Gate) -> tuple[str, str]:
    job = job_in(gate.queue, "pending")
    taken_job(gate.queue)
    by_hand(gate, "update hg_ingest_job set lease_until = {now} - 3600000000")
    return "dead-owner", job.id


FAULTS: dict[str, Callable[[Gate], tuple[str, str]]] = {
    "counters that disagree": wrong_counts,
    "a job that is gone": lost_job,
    "a batch that can never finish": endless_batch,
    "a job without its batch": orphan,
    "an owner that died long ago": dead_owner,
}


@on_sql
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_found_explained_and_repaired(gate: Gate, what: str) -> None:
    kind, item = FAULTS[what](gate)
    before = everything(gate)
    found = gate.queue.faults()
    assert everything(gate) == before, "looking repairs nothing"
    assert [(fault.kind, fault.item) for fault in found] == [(kind, item)]
    assert found[0].what
    assert found[0].repair
    assert gate.queue.repair(found[0], by=WHO)
    assert gate.queue.faults() == []
    entry = everything(gate).history[0]
    assert (entry.event, entry.client, entry.job) == ("repair", WHO, item)
    assert not gate.queue.repair(found[0]), "it is no longer so"


@on_sql
def test_a_batch_that_could_never_finish_finishes(gate: Gate) -> None:
    endless_batch(gate)
    assert gate.queue.report_finished() == []
    assert gate.queue.repair(gate.queue.faults()[0])
    assert len(gate.queue.report_finished()) == 1
    assert as_batch(gate.queue.fire(taken_batch(gate.queue, "reporting"), "finish")).jobs == JobCounts(0, 0, 1)


@on_sql
def test_a_half_made_batch_that_nobody_takes_up_is_shown(gate: Gate) -> None:
    new_batch(gate.queue)
    batch = taken_batch(gate.queue)
    gate.queue.create_jobs(batch, [{"payload_url": "https://example.org/1"}])
    gate.queue.give_back(batch)
    assert gate.queue.faults() == []
    by_hand(gate, "update hg_batch set since = since - 3600000000")
    fault = gate.queue.faults()[0]
    assert (fault.kind, fault.item, fault.repair) == ("half-made", batch.id, "")
    assert not gate.queue.repair(fault)
    taken_batch(gate.queue)
    assert gate.queue.faults() == []


WITHOUT_CHECKS = {
    "sqlite": ("pragma ignore_check_constraints = on", "pragma ignore_check_constraints = off"),
    "mysql": ("set check_constraint_checks = 0", "set check_constraint_checks = 1"),
}


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_a_state_that_the_table_does_not_know_is_shown_and_harms_nobody(gate: Gate) -> None:
    batch_with_jobs(gate.queue, 2)
    odd = gate.queue.jobs()[0]
    off, on = WITHOUT_CHECKS[database(gate).dialect.kind]

    def work(connection: Any) -> None:
        cursor = connection.cursor()
        for statement in (off, "update hg_ingest_job set state = 'lunch' where position = 0", on):
            cursor.execute(statement)

    database(gate).lend(work)
    assert [(fault.kind, fault.item) for fault in gate.queue.faults()] == [("unknown-state", odd.id)]
    assert "lunch" in gate.queue.faults()[0].what
    assert not gate.queue.repair(gate.queue.faults()[0])
    assert taken_job(gate.queue).id != odd.id
    assert gate.queue.job(odd.id).state == "lunch"
    with pytest.raises(headgate.TransitionRefused, match="lunch"):
        gate.queue.release(odd.id)


@on_sql
def test_an_unknown_fault_is_not_repaired(gate: Gate) -> None:
    batch = batch_in(gate.queue, "pending")
    assert not gate.queue.repair(Fault("lunch", batch.id, "?", "eat"))
    assert [entry.event for entry in told(gate, batch.id)] == ["submit"]


# ---------------------------------------------------------------- the database itself

REFUSED = {
    "an unknown state of a job": "update hg_ingest_job set state = 'lunch'",
    "a state that is not kept": "update hg_ingest_job set state = 'deleted'",
    "an unknown state of a batch": "update hg_batch set state = 'cleaned'",
    "a priority of three digits": "update hg_ingest_job set priority = 100",
    "a priority below none": "update hg_ingest_job set priority = -1",
    "fewer jobs than none": "update hg_batch set processing = -1",
    "more jobs than were made": "update hg_batch set failed = 7",
    "a lease without an end": "update hg_batch set lease = 5",
    "an unknown event": "update hg_history set event = 'lunch'",
}


@on_sql
def test_the_database_itself_refuses_what_the_tables_do_not_have(gate: Gate) -> None:
    job_in(gate.queue, "pending")
    for what, text in REFUSED.items():
        with pytest.raises(headgate.StoreMisconfigured, match=r"(?i)constraint"):
            by_hand(gate, text)
        assert gate.queue.faults() == [], what


@on_sql
def test_the_database_itself_refuses_the_same_job_of_a_payload_twice(gate: Gate) -> None:
    batch_with_jobs(gate.queue, 2)
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        by_hand(gate, "update hg_ingest_job set position = 0")


# ---------------------------------------------------------------- plans


@on_sql
def test_taking_and_moving_a_job_costs_as_many_calls_in_every_state(
    gate: Gate, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction each; on SQLite taking reads first, so that a consumer that finds nothing blocks no writer."""
    calls: list[float] = []
    monkeypatch.setattr("headgate.stores.sql.database.engine.report_store_call", calls.append)
    job = job_in(gate.queue, "pending")
    found: dict[str, tuple[int, int]] = {}
    for state in work_states(INGEST_JOB):
        calls.clear()
        job = taken_job(gate.queue, state)
        taking = len(calls)
        gate.queue.fire(job, forward_event(INGEST_JOB, state))
        found[state] = (taking, len(calls) - taking)
    assert set(found.values()) == {(2 if kind == "sqlite" else 1, 1)}, found


@on_sql
@pytest.mark.parametrize("statement", ["find_free", "behind"])
def test_acquiring_reads_the_head_of_an_index(gate: Gate, kind: str, statement: str) -> None:
    """The plan of a statement whose cost must not grow with pending items."""
    batch_with_jobs(gate.queue, 1000)
    if kind != "sqlite":
        analyze = "analyze hg_ingest_job" if kind == "postgresql" else "analyze table hg_ingest_job"
        database(gate).lend(lambda connection: connection.cursor().execute(analyze))
    reads_the_head(gate, kind, {"find_free": sql.JOBS.find_free, "behind": sql.JOBS.find_behind}[statement])


@pytest.mark.parametrize("statement", ["find_free", "behind", "take"])
def test_postgresql_reads_the_head_of_an_index_before_it_knows_the_sizes(
    servers: Servers, tmp_path: Path, statement: str
) -> None:
    """It analyzes a table up to a minute after it was filled, and keeps a plan until then."""
    for url in fresh_store("postgresql", servers, tmp_path):
        with headgate.connect(url) as gate:
            batch_with_jobs(gate.queue, 4000)
            take = database(gate).dialect.take_item["jid"]
            wanted = {"find_free": sql.JOBS.find_free, "behind": sql.JOBS.find_behind, "take": take}[statement]
            reads_the_head(gate, "postgresql", wanted)


def reads_the_head(gate: Gate, kind: str, wanted: Statement) -> None:
    asker = {"worker": "w", "request_id": "r", "lease": 1, "principal": ""}
    text, params = database(gate).dialect.prepare(wanted, {"state": "pending", "priority": 5, "after": 500, **asker})
    plan = plan_of(gate, kind, text, params)
    assert "hg_ingest_job_next" in plan
    for word in ("Sort", "TEMP B-TREE", "filesort"):
        assert word not in plan


def plan_of(gate: Gate, kind: str, text: str, params: Any) -> str:
    explain = {"sqlite": "explain query plan "}.get(kind, "explain ")

    def ask(connection: Any) -> str:
        cursor = connection.cursor()
        cursor.execute(explain + text, params)
        return str(cursor.fetchall())

    return database(gate).lend(ask)


def test_leases_of_the_queue_are_known_to_the_clock_of_a_file(tmp_path: Any) -> None:
    """A clock that is recreated after a reboot starts after every lease."""
    with headgate.connect(f"sqlite:///{tmp_path / 'a.db'}") as gate:
        job_in(gate.queue, "pending")
        taken = taken_job(gate.queue)

        def future(tx: Transaction) -> None:
            tx.run(
                Statement(
                    "Another start, a lease from the future.", "update hg_meta set value = 'x 0' where name = 'clock'"
                )
            )
            tx.run(Statement("So.", "update hg_ingest_job set lease_until = lease_until + 86400000000"))

        database(gate).write(future)
    with headgate.connect(f"sqlite:///{tmp_path / 'a.db'}") as gate:
        assert gate.queue.job(taken.id).worker == ""
        assert taken_job(gate.queue).id == taken.id

"""Counts: each has one meaning, the same on every store, and the last day survives a restart."""

from dataclasses import asdict, fields

from headgate import Gate
from headgate.core.counts import MEANINGS, Counts
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import database, expire
from tests.contract.queue_steps import PROFILE, batch_with_jobs, job_in
from tests.contract.steps import Gates


def test_every_count_has_a_label_and_a_sentence() -> None:
    assert list(MEANINGS) == [field.name for field in fields(Counts)]
    assert all(each.label and each.meaning.endswith(".") for each in MEANINGS.values())


def work_on_chunks(gate: Gate) -> dict[str, int]:
    """Chunks of a job with two inputs and two outputs in every state; returns what the counts must be."""
    ledger = gate.ledger
    for name in ("a", "b", "x", "y"):
        ledger.define_dataset(name)
    ledger.define_job("make", inputs=["a", "b"], outputs=["x", "y"], max_attempts=1)
    ledger.define_job("read", inputs=["a"])
    for name in ("a", "b"):
        ledger.publish(name, [str(number) for number in range(1, 8)])
    ledger.claim("make", "1", worker="alive")
    ledger.claim("make", "2", worker="dead")
    expire(gate, "2")
    for dataid in ("3", "4"):
        ledger.fail(ledger.claim("make", dataid), "broken")
    ledger.hold("make", "5", reason="later")
    ledger.success(ledger.claim("make", "6"))
    ledger.fail(ledger.claim("read", "7"), "unreadable")
    ledger.pause("read", reason="maintenance")
    return {
        "chunks_running": 1, "claims_expired": 1, "chunks_failed": 3, "chunks_held": 1, "chunks_late": 0,
        "jobs_paused": 1, "locked_resources": 4, "locks": 4,
    }  # fmt: skip


def test_each_thing_is_counted_once_and_the_same_after_a_restart(gates: Gates) -> None:
    gate = gates.open()
    wanted = dict.fromkeys(MEANINGS, 0)
    if gate.keeps_ledger:
        wanted |= work_on_chunks(gate)
    gate.locks.acquire("me", "file:/x", "read")
    gate.locks.acquire("you", "file:/x", "read")
    wanted["locked_resources"] += 1
    wanted["locks"] += 2
    queue = gate.queue
    for state in ("downloading", "failed", "held"):
        job_in(queue, state)
    batch_with_jobs(queue, 2)
    queue.set_hold(PROFILE, reason="full")
    wanted |= {
        "batches": 4, "ingest_jobs": 5, "ingest_jobs_pending": 2, "ingest_jobs_running": 1, "ingest_jobs_held": 1,
        "ingest_jobs_failed": 1, "collections_held": 1, "failures_last_day": wanted["chunks_failed"] + 1,
    }  # fmt: skip
    assert asdict(gate.counts()) == wanted
    gate.close()
    assert asdict(gates.open().counts()) == wanted


def test_the_last_day_is_counted_from_the_store_however_much_happened_since(gates: Gates) -> None:
    gate = gates.open()
    if not gate.keeps_ledger:
        return
    gate.ledger.define_dataset("raw")
    gate.ledger.define_job("read", inputs=["raw"])
    gate.ledger.publish("raw", ["1"])
    gate.ledger.fail(gate.ledger.claim("read", "1"), "broken")
    many = Statement(
        "Much happened.",
        "insert into hg_history (at, noun, event, job_id, dataset_id, subject, client, token, state_before, "
        "state_after, reason, principal) select at, noun, 'publish', job_id, dataset_id, subject, client, token, "
        "state_before, state_after, reason, principal from hg_history",
    )
    for _ in range(12):
        database(gate).write(lambda tx: tx.run(many))
    day = gates.open().history.activity.day()
    assert (day.total("chunk failures"), day.failures) == (1, 1)

"""A store with rows in every table, created through the service, and a dump of every possible query."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import headgate
from headgate import Gate, LockRefused
from headgate.core.history import Entry
from headgate.core.inventory import Intake, Message, MessageKind
from headgate.core.ledger.watches.model import FileMark, OnChange, Parcel, Sighting
from headgate.core.locks.model import Mode, Request, Want
from headgate.core.logs import LogStream, LogText
from headgate.core.notices import SentNotice
from headgate.core.tables.states import BATCH, INGEST_JOB
from headgate.daemons.timekeeper import Timekeeper
from headgate.stores.ports.history import Leaf
from tests.contract import queue_steps
from tests.contract.steps import LONG
from tests.contract.test_inventory import CALLBACK, VERSION
from tests.waiting import until

#: A secret, which must be the same in the moved store.
SECRET = "r4w-p4ss"


@contextmanager
def opened(url: str, folder: Path) -> Iterator[Gate]:
    with headgate.connect(url, master_key_file=str(folder / "ring"), work_folder="/work") as gate:
        yield gate


def furnish(gate: Gate) -> dict[str, Any]:
    """An item in every table and every state. Returns what its users hold."""
    key = _pipeline(gate)
    held = {"key": key, **_locks(gate), "claim": _chunks(gate, key)}
    _mappings(gate)
    _failures(gate)
    _files(gate)
    _lateness(gate)
    _repetitions(gate)
    fill_queue(gate)
    gate.inventory.record(VERSION, [CALLBACK])
    gate.inventory.keep_intake(Intake("bid0000000001", {"owner": "library"}))
    gate.inventory.post(Message("m1", MessageKind.CALLBACK, "jid0000000002", "{}", "https://example.org/hook"))
    held["api_token"] = gate.tokens.new("ann", ["read"]).token
    _moved_history(gate)
    return held


def take_work(gate: Gate) -> dict[str, Any]:
    """Work in progress: a running lease on each noun."""
    queue_steps.new_batch(gate.queue, "busy")
    gate.ledger.define_dataset("new")
    gate.ledger.define_job("check", inputs=["new"])
    gate.ledger.publish("new", "1")
    return {
        "lock": gate.locks.acquire("ben", "leased:1", "exclusive", lease=LONG),
        "claim": gate.ledger.find_next("check", worker="w1", lease=LONG),
        "item": queue_steps.taken_batch(gate.queue),
    }


def _locks(gate: Gate) -> dict[str, Any]:
    locks = gate.locks
    kept = locks.acquire("ann", "mysql://db1/cöre", "exclusive", note="why")
    for client in ("ben", "cyd"):
        locks.acquire(client, "file:/shared", "shared")
    locks.release(locks.acquire("ann", "released", "exclusive"))
    locks.break_lock(locks.acquire("ann", "broken", "exclusive").id, reason="it hung", by="op")
    with suppress(LockRefused):
        locks.acquire("ben", "mysql://db1/cöre", "shared")
    locks.register_client("dee")
    locks.register_resource("named-only")
    wants = (Want("file:/shared", Mode.EXCLUSIVE),)
    gate.store.locks.queue_up(Request("waits", "eve", wants))
    return {"lock": kept}


def _pipeline(gate: Gate) -> str:
    gate.secrets.rotate()
    gate.ledger.define_dataset("raw", uri="db://raw", settings={"a": "ü"}, secrets={"password": SECRET})
    gate.ledger.define_dataset("tidy", order="text")
    gate.ledger.define_job(
        "clean", inputs=["raw"], outputs=["tidy"], environment={"PARAM_REGION": "eu"}, max_attempts=0
    )
    gate.ledger.define_job("idle", inputs=["tidy"])
    return gate.secrets.new_key("clean", holders=["raw/clean"]).key


def _chunks(gate: Gate, key: str) -> Any:
    ledger = gate.ledger
    ledger.publish("raw", [str(number) for number in range(1, 13)])
    ledger.success(ledger.claim("clean", "1", key=key))
    ledger.fail(ledger.claim("clean", "2", key=key), "no space left")
    ledger.hold("clean", "3", reason="look first")
    ledger.success(ledger.claim("clean", "4", key=key))
    ledger.resubmit("clean", "4", reason="bad data")
    ledger.set_status("tidy", "5", "clean", "OUTPUT", "RUNNING", reason="by hand")
    ledger.set_status("tidy", "6", "clean", "OUTPUT", "ODD", reason="by hand")
    ledger.interrupt(ledger.claim("clean", "8", key=key), "interrupted by SIGTERM")
    ledger.pause("idle", reason="not yet")
    return ledger.claim("clean", "7", key=key, worker="w7")


def _mappings(gate: Gate) -> None:
    """A sample that was merged and has a late lane, and arrivals that find_next has not processed yet."""
    ledger = gate.ledger
    for name in ("lanes", "samples"):
        ledger.define_dataset(name)
    by_sample = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
    ledger.define_job("merge", inputs=["lanes"], outputs=["samples"], maps={"lanes": by_sample})
    ledger.publish("lanes", ["s1.1", "s1.2"])
    ledger.close("merge", "s1")
    merged = ledger.find_next("merge")
    assert merged is not None
    ledger.success(merged)
    ledger.publish("lanes", "s2.1")


def _failures(gate: Gate) -> None:
    """A chunk that failed for good, with its log, an incident, and the notice of it."""
    gate.ledger.define_job("strict", inputs=["lanes"], max_attempts=1)
    claim = gate.ledger.claim("strict", "s2.1")
    gate.ledger.keep_log(claim, [LogText(LogStream.STDERR, "disk füll\n", 11)], ended=True)
    gate.ledger.fail(claim, "exit code 4: disk füll")
    assert gate.store.ledger is not None
    incidents = gate.store.ledger.incidents
    notice = SentNotice("n1", "ops", incidents.now(), 1)
    message = Message("n1", MessageKind.WEBHOOK, "incidents", "{}", "ops")
    assert incidents.report(incidents.due(10), [notice], [message])


def _files(gate: Gate) -> None:
    """A chunk that was published by its file."""
    watcher = Sighting("lanes", "/in", "{sample}.{lane}.csv", "w1", LONG, 1, None)
    turn = gate.watches.take_turn(watcher)
    assert turn.token is not None
    parcel = Parcel("s3.1", (FileMark("s3.1.csv", 12, 1_700_000_000_000_000),))
    assert gate.watches.land("lanes", turn.token, [parcel], OnChange.NOTE)


def _lateness(gate: Gate) -> None:
    """A chunk that is expected and late."""
    gate.ledger.define_dataset("daily", expect={"ids": ["2026-02-01"], "from": "2026-01-01"})
    assert Timekeeper(gate.expectations, "t1", LONG).round() == 1


def _repetitions(gate: Gate) -> None:
    """A chunk that is due again after a while, and one that was made in parts."""
    gate.ledger.define_job("audit", inputs=["samples"], recur=LONG)
    gate.ledger.success(gate.ledger.claim("audit", "s1"))
    gate.ledger.define_dataset("genes")
    gate.ledger.define_job("cut", inputs=["samples"], fan_out=["genes"])
    gate.ledger.success(gate.ledger.claim("cut", "s1"), outputs={"genes": ["s1.a", "s1.b"]})


def fill_queue(gate: Gate) -> None:
    """A batch and a job in every state that lasts, a hold, reports, priorities."""
    # Each call takes the next item of a state, so items that should stay are created after those that move on.
    queue_steps.job_in(gate.queue, "cleaned")
    gate.queue.report_finished()
    gate.queue.fire(queue_steps.taken_batch(gate.queue, "reporting"), "finish")
    for state in ("failed", "update-reporting", "held"):
        queue_steps.batch_in(gate.queue, state)
    for state in reversed(
        [state for state in INGEST_JOB.states if state not in ("new", "failed", "cleaned", "deleted")]
    ):
        queue_steps.job_in(gate.queue, state)
    for most in (1, 2):  # One is held because its worker died, the other is retried.
        queue_steps.batch_with_jobs(gate.queue, priority=0, max_crashes=most)
        assert gate.queue.acquire_job("pending", lease=0.03, outlives=True)
        until(lambda: gate.queue.reap() == 1, "its owner to die")
    gate.queue.submit("other", "bob", "https://example.org/ü", request_id="once", erc_who="Ann")
    gate.queue.set_hold("other", reason="full", by="op")
    lasting = {*BATCH.states} - {"new", "deleted", "cleaned", "reporting"}
    assert lasting <= {batch.state for batch in gate.queue.batches()}
    assert sorted((job.crashes, job.former) for job in gate.queue.jobs() if job.crashes) == [(1, ""), (1, "pending")]
    assert {job.state for job in gate.queue.jobs()} == {*INGEST_JOB.states} - {"new", "deleted"}


def _moved_history(gate: Gate) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    entry = Entry(7, at, "lock", "grant", "old:1", "zoe", "abcd-abcdefghijklmnop-abcdefghijkl", 3, "new", "shared")
    assert gate.store.keeper is not None
    gate.store.keeper.copy("abcd", [Leaf(entry, "n", 0)])


def seen(gate: Gate) -> dict[str, Any]:
    """The answers to all queries of a store, without values that a move changes by design."""
    locks, ledger = gate.locks, gate.ledger
    return {
        "tag": gate.store.tag,
        "locks": [(each.id, each.token, each.client, each.mode, each.since, each.note) for each in locks.list()],
        "clients": locks.clients(),
        "resources": locks.resources(),
        "lock history": gate.history(limit=1000),
        "datasets": ledger.datasets(),
        "logs": ledger.logs("strict", "s2.1"),
        "incidents": gate.incidents.list(closed=True),
        "files": list(gate.watches.counted("lanes")),
        "jobs": ledger.jobs(),
        "chunks": [
            (each.dataset, each.dataid, each.status, each.token, each.message, each.interruptions)
            for each in ledger.status()
        ],
        "chunk history": gate.history(job="clean", limit=1000),
        "queue": queue_steps.everything(gate),
        "objects": gate.inventory.objects(),
        "stored files": gate.inventory.files(VERSION.ark, 1),
        "messages": gate.inventory.messages("jid0000000001"),
        "intake": gate.inventory.intake("bid0000000001"),
        "tokens": [(each.id, each.name, each.scopes) for each in gate.tokens.list()],
    }

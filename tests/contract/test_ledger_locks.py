"""One view: a lock on `data:DATASET/DATAID` and a claim on the chunk meet in one transaction, both ways."""

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from headgate import BadValue, ClaimRefused, Gate, LockRefused
from headgate.service.locks import waiting as service_waiting
from headgate.stores.sql.news import listener
from tests.contract.ledger_steps import WHY, claimed, expire, next_id, one_job
from tests.contract.over_http import LEDGER_STORES
from tests.contract.steps import Gates, granted, queue_behind

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)


@pytest.mark.parametrize(
    ("resource", "mode", "free"),
    [
        ("data:tidy/1", "shared", False),
        ("data:tidy/1", "exclusive", False),
        ("data:raw/1", "shared", True),
        ("data:raw/1", "exclusive", False),
        ("data:raw/2", "exclusive", True),
        ("data:raw", "exclusive", True),
        ("data:nowhere/1", "exclusive", True),
    ],
)
def test_a_lock_blocks_the_matching_claims_and_the_other_way_round(
    gate: Gate, resource: str, mode: str, free: bool
) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    lock = gate.locks.acquire("ann", resource, mode)
    assert ledger.explain("clean", "1").granted is free
    if not free:
        with pytest.raises(ClaimRefused, match=f"ann holds {resource} {mode}"):
            ledger.claim("clean", "1")
        with pytest.raises(ClaimRefused, match="ann holds"):
            ledger.force("clean", "1", reason=WHY, steal=True)
        assert next_id(ledger, "clean") is None
        gate.locks.release(lock)
    claim = claimed(ledger, "clean")
    if free:
        gate.locks.release(lock)
        gate.locks.release(gate.locks.acquire("ann", resource, mode))
    else:
        with pytest.raises(LockRefused, match="job clean runs on it") as refusal:
            gate.locks.acquire("ann", resource, mode)
        assert [(each.kind, each.resource) for each in refusal.value.blockers] == [("claim", resource)]
    ledger.success(claim)
    gate.locks.release(gate.locks.acquire("ann", resource, mode))


def test_a_locked_chunk_does_not_block_others(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2", "3"])
    lock = gate.locks.acquire("ann", "data:tidy/1", "shared")
    assert [next_id(ledger, "clean") for _ in range(3)] == ["2", "3", None]
    gate.locks.release(lock)
    assert next_id(ledger, "clean") == "1"


def test_running_chunks_are_listed_with_the_locks(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    lock = gate.locks.acquire("ann", "mysql://db1/core", "write")
    claim = ledger.find_next("clean", worker="night shift")
    assert claim
    found = {(each.resource, each.client, each.mode.value) for each in gate.locks.list()}
    running = {("data:raw/1", "night shift", "shared"), ("data:tidy/1", "night shift", "exclusive")}
    assert found == {("mysql://db1/core", "ann", "exclusive"), *running}
    assert [each.token for each in gate.locks.list(resource="data:tidy/1")] == [claim.token]
    assert gate.locks.list(client="ann") == [lock]
    first, *rest = gate.locks.list()
    assert [each.id for each in gate.locks.list(after=first.id)] == [each.id for each in rest]
    assert [each.id for each in gate.locks.list(limit=1)] == [first.id]
    assert gate.status()["lockCount"] == 3
    ledger.success(claim)
    assert [each.id for each in gate.locks.list()] == [lock.id]


def test_a_claim_of_the_dead_holds_no_lock(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claimed(ledger, "clean")
    expire(gate, "1")
    assert gate.locks.list() == []
    gate.locks.acquire("ann", "data:tidy/1", "write")


def test_an_upgrade_meets_a_reader_of_the_ledger(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    lock = gate.locks.acquire("ann", "data:raw/1", "shared")
    claim = claimed(ledger, "clean")
    with pytest.raises(LockRefused, match="job clean runs on it"):
        gate.locks.upgrade(lock)
    ledger.success(claim)
    assert gate.locks.upgrade(lock).mode.value == "exclusive"


def test_a_waiter_gets_the_chunk_when_the_claim_ends(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a claim sends no wake-up: waiters poll, even if they could listen."""
    monkeypatch.setattr(listener, "LISTENING_PAUSE", 1000.0)
    monkeypatch.setattr(service_waiting, "SIGN_OF_LIFE_SECONDS", 1000.0)
    gate = gates.open()
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = ledger.find_next("clean", lease=1000)
    assert claim
    waiter = queue_behind(gates.open(), "ann", "data:tidy/1", "write", wait=1000)
    assert not waiter.done()
    ledger.success(claim)
    assert granted(waiter).client == "ann"


def test_a_running_chunk_cannot_be_released_as_a_lock(gate: Gate) -> None:
    """It is listed and found by its id; the error explains how to end it."""
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claimed(ledger, "clean")
    for lock in gate.locks.list():
        assert gate.locks.get(lock.id).resource == lock.resource
        for act in (
            lambda: gate.locks.release(lock),  # noqa: B023 - run at once
            lambda: gate.locks.break_lock(lock.id, reason=WHY),  # noqa: B023 - run at once
        ):
            with pytest.raises(BadValue, match=r"job clean runs on it.*resubmit"):
                act()
    assert len(gate.locks.list()) == 2


def test_a_chunk_is_not_handed_over_while_a_job_reads_it(gates: Gates) -> None:
    """A reader leaves, a writer waits, and a job still reads: the writer keeps waiting."""
    gate = gates.open()
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    reader = gate.locks.acquire("ann", "data:raw/1", "read")
    claim = claimed(ledger, "clean")
    waiting = queue_behind(gates.open(), "bob", "data:raw/1", "write")
    gate.locks.release(reader)
    assert not waiting.done()
    assert [each.client for each in gate.locks.list(resource="data:raw/1")] == [claim.worker]
    ledger.success(claim)
    assert granted(waiting).client == "bob"


CLAIMER = """
import json, sys, time
import headgate
gate = headgate.connect(sys.argv[1])
seen = []
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    claim = gate.ledger.find_next("clean")
    if claim is None:
        continue
    begin = time.monotonic()
    time.sleep(0.001)
    end = time.monotonic()
    gate.ledger.success(claim)
    seen.append((begin, end))
    gate.ledger.resubmit("clean", claim.dataid, reason="again")
print(json.dumps(seen))
"""
LOCKER = """
import json, sys, time
import headgate
gate = headgate.connect(sys.argv[1])
seen = []
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    try:
        lock = gate.locks.acquire("locker", sys.argv[3], "write")
    except headgate.LockRefused:
        continue
    begin = time.monotonic()
    time.sleep(0.001)
    end = time.monotonic()
    gate.locks.release(lock)
    seen.append((begin, end))
    time.sleep(0.002)
print(json.dumps(seen))
"""


@pytest.mark.parametrize("resource", ["data:tidy/1", "data:raw/1"])
def test_a_claim_and_a_lock_are_never_held_at_once(gates: Gates, resource: str) -> None:
    """Two processes that claim and one that locks, concurrently for two seconds."""
    ledger = one_job(gates.open())
    ledger.publish("raw", "1")
    programs = [(CLAIMER, "2"), (CLAIMER, "2"), (LOCKER, "2")]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, gates.url, seconds, resource], stdout=subprocess.PIPE, text=True
        )
        for program, seconds in programs
    ]
    spans = []
    for number, process in enumerate(running):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        found = json.loads(output)
        assert found, f"process {number} never had its turn"
        spans += [(begin, end, number) for begin, end in found]
    spans.sort()
    for (_, end, one), (begin, _, other) in pairwise(spans):
        assert end <= begin, f"{one} and {other} were in at once"

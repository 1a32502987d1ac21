"""Many expired locks and claims end in bounded steps: each is recorded, waiters are served, counts are right."""

import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from headgate import ClaimLost, Gate, Lock
from headgate.core.locks.model import Mode, Request, Want
from headgate.core.locks.work import expire, queue_up
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import reaping
from headgate.stores.sql.locks import expiring
from headgate.stores.sql.locks.changes import carry_out
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, one_job
from tests.contract.over_http import port_of
from tests.contract.steps import PATIENCE, Gates, granted, in_thread, queue_behind, told

pytestmark = pytest.mark.parametrize("kind", SQL_STORES)

EXPIRE = Statement(
    "The leases of these clients ran out.",
    "update hg_lock set lease_until = {now} - 1 where client in (:clients*)",
)
EXPIRE_CLAIMS = Statement(
    "The leases of these workers ran out.",
    "update hg_chunk set lease_until = {now} - 1 where worker in (:workers*)",
)
FORGET_WAITERS = Statement("Nothing was heard of the waiters.", "update hg_ticket set alive_until = {now} - 1")
RENEW = Statement("A lease starts again.", "update hg_lock set lease_until = {now} + 60000000 where id = :id")
COUNT_PLACES = Statement(
    "How many wait, by each table.",
    "select sum(waiting), (select count(*) from hg_wait), (select count(*) from hg_ticket) from hg_resource",
)


def let_expire(gate: Gate, *clients: str) -> None:
    database(gate).write(lambda tx: tx.run(EXPIRE, clients=list(clients)))


def hold_many(gate: Gate, client: str, count: int) -> Sequence[Lock]:
    return gate.locks.acquire_all(client, {f"r:{number:03}": "exclusive" for number in range(count)}, lease=60)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many locks each step had to free; steps are small here."""
    found: list[int] = []
    real = expiring.expire_quiet

    def step(tx: Transaction, locks: Any) -> int:
        found.append(len(locks))
        return real(tx, locks)

    monkeypatch.setattr(expiring, "AT_ONCE", 7)
    monkeypatch.setattr(expiring, "expire_quiet", step)
    return found


def test_many_locks_end_in_bounded_steps_each_reported_once(gate: Gate, steps: list[int]) -> None:
    dead = hold_many(gate, "dead", 30)
    alive = gate.locks.acquire("alive", "s", "read", lease=60)
    gate.locks.acquire("dead", "s", "read", lease=60)
    persistent = gate.locks.acquire("alive", "p", "write")
    let_expire(gate, "dead")
    assert gate.locks.expire() == 31
    assert sum(steps) == 31
    assert max(steps) == 7
    assert {lock.id for lock in gate.locks.list()} == {alive.id, persistent.id}
    entries = {entry.lock_id: entry for entry in gate.history(event="expire", limit=1000)}
    assert len(entries) == 31
    for lock in dead:
        entry = entries[lock.id]
        assert (entry.resource, entry.client, entry.token) == (lock.resource, "dead", lock.token)
        assert (entry.before, entry.after, entry.reason) == ("exclusive", "expired", "the lease expired")
    assert gate.locks.expire() == 0
    # The resources' rows match the remaining locks.
    assert [gate.locks.acquire("next", lock.resource, "write").token for lock in dead] == [
        lock.token + 1 for lock in dead
    ]
    gate.locks.release(alive)
    gate.locks.acquire("next", "s", "write")


def test_one_call_frees_no_more_than_it_may(gate: Gate, steps: list[int]) -> None:
    hold_many(gate, "dead", 25)
    hold_many_alive = gate.locks.acquire_all("alive", {f"a:{number}": "write" for number in range(5)}, lease=60)
    let_expire(gate, "dead")
    assert [port_of(gate).expire(10) for _ in range(4)] == [10, 10, 5, 0]
    assert told(gate, event="expire") == ["expire"] * 25
    assert len(gate.locks.list()) == len(hold_many_alive)
    assert steps == [7, 3, 7, 3, 5]


def test_a_lock_delay_is_kept(gates: Gates) -> None:
    gate = gates.open(lock_delay="30")
    lock = gate.locks.acquire("dead", "r", "write", lease=60)
    let_expire(gate, "dead")
    assert gate.locks.expire() == 0
    assert told(gate, lock_id=lock.id) == ["grant"]


def test_the_mode_at_its_death_decides_about_a_lock_delay(gates: Gates) -> None:
    gate = gates.open(lock_delay="30")
    upgraded = gate.locks.upgrade(gate.locks.acquire("dead", "u", "read", lease=60))
    downgraded = gate.locks.downgrade(gate.locks.acquire("dead", "d", "write", lease=60))
    let_expire(gate, "dead")
    assert gate.locks.expire() == 1
    assert told(gate, lock_id=upgraded.id) == ["grant", "upgrade"]
    assert told(gate, lock_id=downgraded.id) == ["grant", "downgrade", "expire"]


def test_waiters_are_granted_freed_locks(gate: Gate) -> None:
    hold_many(gate, "dead", 12)
    writer = queue_behind(gate, "writer", "r:003", "write")
    readers = [queue_behind(gate, f"reader-{number}", "r:005", "read") for number in range(2)]
    both = in_thread(lambda: gate.locks.acquire_all("both", {"r:007": "write", "r:008": "write"}, wait=PATIENCE))
    while len(gate.locks.waiters("r:008")) < 1:
        assert not both.done()
    let_expire(gate, "dead")
    gate.locks.expire()
    assert granted(writer).token == 2
    assert [granted(reader).mode for reader in readers] == ["shared", "shared"]
    assert {lock.resource for lock in granted(both)} == {"r:007", "r:008"}
    assert Counter(told(gate, event="expire")) == {"expire": 12}


def test_waiters_that_died_leave_the_queue(gate: Gate) -> None:
    """Even if the resource is held, and no other client requests it."""
    lock = gate.locks.acquire("a", "r", "write")
    dead = Request("request", "dead", (Want("r", Mode.EXCLUSIVE),))
    database(gate).write(lambda tx: carry_out(tx, "abcd", ["r"], partial(queue_up, request=dead), "channel"))
    database(gate).write(lambda tx: tx.run(FORGET_WAITERS))
    gate.locks.expire()
    assert [int(each) for each in database(gate).read(lambda tx: tx.one(COUNT_PLACES))] == [0, 0, 0]
    gate.locks.check(lock)


def test_a_waiter_that_died_leaves_two_queues_at_the_same_moment(gate: Gate) -> None:
    """Neither of the two transactions sees that the other removes the other position: one of them has to wait."""
    store = database(gate)
    gate.locks.acquire_all("a", {"x": "write", "y": "write"})
    dead = Request("request", "dead", (Want("x", Mode.EXCLUSIVE), Want("y", Mode.EXCLUSIVE)))

    def join(tx: Transaction) -> None:
        carry_out(tx, "abcd", ["x", "y"], partial(queue_up, request=dead), "channel")

    store.write(join)
    store.write(lambda tx: tx.run(FORGET_WAITERS))
    left_x, looked_at_y = threading.Event(), threading.Event()

    def leave_x(tx: Transaction) -> None:
        carry_out(tx, "abcd", ["x"], expire)
        left_x.set()
        looked_at_y.wait(0.5)  # Not forever: the other one may have to wait for this one.

    def leave_y(tx: Transaction) -> None:
        carry_out(tx, "abcd", ["y"], expire)
        looked_at_y.set()

    first = in_thread(lambda: store.write(leave_x))
    assert left_x.wait(PATIENCE)
    store.write(leave_y)
    granted(first)
    assert [int(each) for each in store.read(lambda tx: tx.one(COUNT_PLACES))] == [0, 0, 0]


def test_a_lock_that_is_renewed_at_this_moment_stays(gate: Gate, kind: str) -> None:
    """The reaper saw it expire, and does not wait for the transaction that has locked its row."""
    if kind == "sqlite":
        return  # It has one writer at a time.
    lock = gate.locks.acquire("a", "r", "write", lease=60)
    let_expire(gate, "a")
    renewed, over = threading.Event(), threading.Event()

    def renew(tx: Transaction) -> None:
        tx.run(RENEW, id=lock.id)
        renewed.set()
        over.wait(PATIENCE)

    renewal = in_thread(lambda: database(gate).write(renew))
    assert renewed.wait(PATIENCE)
    assert gate.locks.expire() == 0
    over.set()
    granted(renewal)
    gate.locks.check(lock)
    assert told(gate, lock_id=lock.id) == ["grant"]


# ---------------------------------------------------------------- claims


def expire_claims(gate: Gate, *workers: str) -> None:
    database(gate).write(lambda tx: tx.run(EXPIRE_CLAIMS, workers=list(workers)))


def test_many_claims_end_in_bounded_steps_each_reported_once(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = reaping._reap

    def step(tx: Transaction, job: str, dataids: Sequence[str], who: str) -> int:
        sizes.append(len(dataids))
        return real(tx, job, dataids, who)

    monkeypatch.setattr(reaping, "AT_ONCE", 7)
    monkeypatch.setattr(reaping, "_reap", step)
    ledger = one_job(gate)
    ids = [str(number) for number in range(20)]
    ledger.publish("raw", [*ids, "alive"])
    claims = [ledger.claim("clean", each, worker=f"worker-{int(each) % 2}") for each in ids]
    alive = ledger.claim("clean", "alive", worker="other")
    expire_claims(gate, "worker-0", "worker-1")
    assert ledger.reap() == 20
    assert sizes == [7, 7, 6]
    rows = {row.dataid: row for row in ledger.status(dataset="tidy", kind="OUTPUT")}
    for claim in claims:
        row = rows[claim.dataid]
        assert (row.status, row.crashes, row.failures, row.lease) == ("ERROR", 1, 0, None)
        assert row.message == f"lease expired: {claim.worker} died"
        assert row.token > claim.token
    assert rows["alive"].status == "RUNNING"
    entries = [entry for entry in gate.history(limit=1000) if entry.event == "reap"]
    assert sorted(entry.resource for entry in entries) == sorted(f"data:tidy/{each}" for each in ids)
    with pytest.raises(ClaimLost):
        ledger.success(claims[0])
    ledger.success(alive)


def test_claims_of_many_outputs_are_reaped_too(gate: Gate) -> None:
    ledger = gate.ledger
    outputs = [f"part{number}" for number in range(2 * reaping.ROWS_OF_A_CLAIM)]
    ledger.define({name: {} for name in ["raw", *outputs]}, {"split": {"inputs": ["raw"], "outputs": outputs}})
    ledger.publish("raw", ["1", "2", "3"])
    for number in "123":
        ledger.claim("split", number, worker="w")
    expire_claims(gate, "w")
    assert [ledger.reap(limit=1) for _ in range(4)] == [1, 1, 1, 0]
    assert {row.status for row in ledger.status(dataset="part0", kind="OUTPUT")} == {"ERROR"}


def test_reaped_chunks_are_found_again_until_they_crashed_too_often(gate: Gate) -> None:
    ledger = one_job(gate, max_crashes=2)
    ledger.publish("raw", ["1", "2"])
    for attempt, status in ((1, "ERROR"), (2, "HOLD")):
        claims = [ledger.find_next("clean", worker="w") for _ in range(2)]
        assert [(claim.dataid, claim.attempt) for claim in claims if claim] == [("1", attempt), ("2", attempt)]
        expire_claims(gate, "w")
        assert ledger.reap() == 2
        assert {row.status for row in ledger.status(dataset="tidy", kind="OUTPUT")} == {status}
    assert ledger.find_next("clean", worker="w") is None
    assert ledger.reap() == 0

"""Another server takes over a store: no token is issued twice, and nothing that an old token proves is accepted.

The server stays the same here: the store's record names a different one. On SQLite, where nobody can take over, an
operator raises the tokens. Real failovers are in tests/faults/test_failover.py.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from headgate import Claim, ClaimLost, Gate, ItemLost, Lock, LockLost, LockRefused
from headgate.core.errors import StoreUnavailable
from headgate.core.filters import RowFilter
from headgate.core.ledger.model import ERROR, READY, Row
from headgate.core.queue.model import IngestJob
from headgate.stores.ports.epochs import StoreState
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.server import epochs
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, one_job
from tests.contract.queue_steps import batch_with_jobs, new_batch, taken_batch, taken_job
from tests.contract.steps import LONG, Gates, granted, in_thread, queue_behind

ON_ALL = pytest.mark.parametrize("kind", SQL_STORES)
#: Nobody can take over a file.
ON_SERVERS = pytest.mark.parametrize("kind", [kind for kind in SQL_STORES if kind != "sqlite"])
FACT = Statement("By hand.", "insert into hg_meta (name, value) values (:name, :value)")
NO_FACT = Statement("By hand.", "delete from hg_meta where name = :name")


def set_fact(gate: Gate, name: str, value: str) -> None:
    """Beyond everything that the library checks."""

    def work(tx: Any) -> None:
        tx.run(NO_FACT, name=name)
        tx.run(FACT, name=name, value=value)

    database(gate).write(work, look=False)


def state(gate: Gate) -> StoreState:
    assert gate.store.epochs is not None
    return gate.store.epochs.state()


def take_over(gate: Gate, kind: str) -> None:
    """As if the store's answers came from another server."""
    if kind == "sqlite":
        assert gate.store.epochs is not None
        gate.store.epochs.raise_tokens("the file was put back", "ann")
    else:
        set_fact(gate, "epoch", "another")


def reason_of(kind: str) -> str:
    return "tokens raised by ann: the file was put back" if kind == "sqlite" else "failover: another server took over"


class Before(NamedTuple):
    """The locks, claims and items held when the other server took over."""

    leased: Lock
    persistent: Lock
    shared: Lock
    claim: Claim
    running: Claim
    job: IngestJob


def prepare(gate: Gate) -> Before:
    """Something of each kind is held."""
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2", "3"])
    claim, running = ledger.find_next("clean", lease=LONG), ledger.claim("clean", "2", lease=LONG)
    assert claim
    batch_with_jobs(gate.queue, 2)
    return Before(
        gate.locks.acquire("a", "r:leased", "exclusive", lease=LONG), gate.locks.acquire("b", "r:kept", "exclusive"),
        gate.locks.acquire("c", "r:shared", "shared", lease=LONG), claim, running, taken_job(gate.queue),
    )  # fmt: skip


#: Whatever is requested first, the store has followed its server by then: each request is answered with a token, or
#: refused.
FIRST_CALLS: dict[str, Callable[[Gate, Before], int]] = {
    "grant": lambda gate, _: gate.locks.acquire("z", "r:new", "exclusive").token,
    "grant again": lambda gate, _: gate.locks.acquire("z", "r:leased", "exclusive", lease=LONG).token,
    "grant several": lambda gate, _: gate.locks.acquire_all("z", {"r:leased": "write", "r:new": "write"})[0].token,
    "find next": lambda gate, _: found(gate.ledger.find_next("clean", lease=LONG)).token,
    "claim": lambda gate, _: gate.ledger.claim("clean", "1", lease=LONG).token,
    "force": lambda gate, _: gate.ledger.force("clean", "1", reason="now", lease=LONG).token,
    "take a job": lambda gate, _: taken_job(gate.queue).token,
}
REFUSED: dict[str, Callable[[Gate, Before], object]] = {
    "release": lambda gate, before: gate.locks.release(before.leased),
    "renew": lambda gate, before: gate.locks.renew(before.leased),
    "check": lambda gate, before: gate.locks.check(before.leased),
    "upgrade": lambda gate, before: gate.locks.upgrade(before.shared),
    "downgrade": lambda gate, before: gate.locks.downgrade(before.leased),
    "release what stays": lambda gate, before: gate.locks.release(before.persistent),
    "check what stays": lambda gate, before: gate.locks.check(before.persistent),
    "success": lambda gate, before: gate.ledger.success(before.claim),
    "fail": lambda gate, before: gate.ledger.fail(before.running, "no"),
    "interrupt": lambda gate, before: gate.ledger.interrupt(before.running, "SIGTERM"),
    "heartbeat": lambda gate, before: gate.ledger.heartbeat(before.claim),
    "fire": lambda gate, before: gate.queue.fire(before.job, "accept"),
    "renew an item": lambda gate, before: gate.queue.renew(before.job),
    "give_back": lambda gate, before: gate.queue.give_back(before.job, "no"),
}


def rows(gate: Gate) -> Sequence[Row]:
    return gate.ledger.rows(RowFilter(dataset="tidy"))


def found(claim: Claim | None) -> Claim:
    assert claim is not None
    return claim


@ON_ALL
@pytest.mark.parametrize("first", FIRST_CALLS)
def test_the_first_token_after_a_failover_is_far_beyond_all_earlier_ones(gate: Gate, kind: str, first: str) -> None:
    before = prepare(gate)
    take_over(gate, kind)
    given = max(each.token for each in before)
    assert FIRST_CALLS[first](gate, before) > given + epochs.STEP
    assert state(gate).epoch == state(gate).server
    assert gate.locks.acquire("z", "r:other", "shared").token > given + epochs.STEP


@ON_ALL
@pytest.mark.parametrize("first", REFUSED)
def test_the_first_report_with_an_old_token_is_refused(gate: Gate, kind: str, first: str) -> None:
    before = prepare(gate)
    take_over(gate, kind)
    with pytest.raises((LockLost, ClaimLost, ItemLost)):
        REFUSED[first](gate, before)
    for act in REFUSED.values():
        with pytest.raises((LockLost, ClaimLost, ItemLost)):
            act(gate, before)


@ON_ALL
def test_leases_ended_by_a_failover_record_the_reason_and_persistent_locks_stay(gate: Gate, kind: str) -> None:
    before = prepare(gate)
    take_over(gate, kind)
    gate.locks.acquire("z", "r:new", "exclusive")
    held = {lock.resource: lock for lock in gate.locks.list() if lock.resource.startswith("r:")}
    assert set(held) == {"r:kept", "r:new"}
    kept = held["r:kept"]
    assert kept.id == before.persistent.id
    assert kept.token > before.persistent.token + epochs.STEP - 1
    gate.locks.release(kept)
    told = gate.history(resource="r:leased")[0]
    assert (told.event, told.token) == ("expire", before.leased.token)
    assert told.reason.startswith(reason_of(kind))
    told = gate.history(resource="r:kept")[1]
    assert (told.event, told.token) == ("grant", kept.token)
    assert told.reason.startswith(reason_of(kind))
    with pytest.raises(LockLost, match="raised by ann" if kind == "sqlite" else "failover"):
        gate.locks.check(before.leased)


@ON_ALL
def test_a_claim_that_ends_counts_nothing_and_its_chunk_is_claimed_again(gate: Gate, kind: str) -> None:
    before = prepare(gate)
    take_over(gate, kind)
    again = [found(gate.ledger.find_next("clean", lease=LONG)) for _ in range(3)]
    assert sorted(claim.dataid for claim in again) == ["1", "2", "3"]
    assert [(row.failures, row.crashes) for row in rows(gate)] == [(0, 0)] * 3
    told = [each for each in gate.history(job="clean") if each.event == "reap"]
    assert sorted(each.resource for each in told) == ["data:tidy/1", "data:tidy/2"]
    assert all(each.reason.startswith(reason_of(kind)) for each in told)
    for claim in again:
        gate.ledger.success(claim)
    assert {row.status for row in rows(gate)} == {READY}
    with pytest.raises(ClaimLost):
        gate.ledger.success(before.claim)


@ON_ALL
def test_a_chunk_that_ended_is_as_after_a_failure(gate: Gate, kind: str) -> None:
    before = prepare(gate)
    take_over(gate, kind)
    gate.locks.acquire("z", "r:new", "exclusive")
    assert gate.ledger.explain("clean", before.claim.dataid).granted
    assert [row.status for row in rows(gate)] == [ERROR, ERROR]
    gate.ledger.hold("clean", before.claim.dataid, reason="not now")
    assert found(gate.ledger.find_next("clean", lease=LONG)).dataid == "2"


@ON_ALL
def test_an_item_returns_to_its_state(gate: Gate, kind: str) -> None:
    before = prepare(gate)
    new_batch(gate.queue)
    batch = taken_batch(gate.queue)
    take_over(gate, kind)
    job = taken_job(gate.queue)
    assert (job.id, job.state, job.retry_count) == (before.job.id, "pending", 0)
    assert job.token > before.job.token + epochs.STEP
    assert taken_batch(gate.queue).token > batch.token + epochs.STEP
    told = gate.history(item=job.id)[0]
    assert (told.event, told.before, told.after) == ("repair", "pending", "pending")
    assert told.reason.startswith(reason_of(kind))
    gate.queue.fire(job, "accept")


@ON_ALL
def test_ids_that_may_have_been_issued_are_skipped(gate: Gate, kind: str) -> None:
    last = int(new_batch(gate.queue).id[3:])
    take_over(gate, kind)
    gate.locks.acquire("z", "r:new", "exclusive")
    assert int(new_batch(gate.queue).id[3:]) > last + epochs.IDS_SKIPPED


@ON_SERVERS
def test_a_synchronous_standby_keeps_leases(gates: Gates, kind: str) -> None:
    gate = gates.open(replication="synchronous")
    before = prepare(gate)
    take_over(gate, kind)
    assert gate.locks.renew(before.leased).token == before.leased.token
    assert gate.locks.acquire("z", "r:shared", "shared").token == before.shared.token + 1
    assert gate.locks.check(before.persistent).token == before.persistent.token
    gate.ledger.success(before.claim)
    gate.queue.fire(before.job, "accept")
    assert state(gate).epoch == state(gate).server


@ON_SERVERS
def test_processes_that_notice_it_together_do_it_once(gates: Gates, kind: str) -> None:
    gate = gates.open()
    before = gate.locks.acquire("a", "r:0", "exclusive", lease=LONG)
    given = max(before.token, database(gate).write(lambda tx: tx.next_token()))
    others = [gates.open() for _ in range(4)]
    take_over(gate, kind)
    wanted = [(each, f"r:{n}") for n in range(2) for each in others]
    racing = [in_thread(partial(each.locks.acquire, "z", name, "shared", lease=LONG)) for each, name in wanted]
    tokens = [granted(future).token for future in racing]
    assert len({(n // 4, token) for n, token in enumerate(tokens)}) == len(tokens)
    assert all(given + epochs.STEP < token < given + 2 * epochs.STEP for token in tokens)
    assert len([each for each in gate.history(resource="r:0") if each.event == "expire"]) == 1
    assert len(gate.locks.list()) == len(tokens)


@ON_ALL
@pytest.mark.parametrize("resource", ["r:old", "r:new"])
@pytest.mark.parametrize("several", [False, True])
def test_a_floor_that_was_raised_meanwhile_counts_for_all_processes(
    gate: Gate, resource: str, *, several: bool
) -> None:
    """As after a restore, which a connected process does not know of."""
    gate.locks.release(gate.locks.acquire("a", "r:old", "exclusive"))
    floor = state(gate).highest_token + 10**9
    set_fact(gate, "token_floor", str(floor))
    wanted = [resource, "r:third"] if several else [resource]
    granted_all = gate.locks.acquire_all("a", dict.fromkeys(wanted, "write"))
    assert [lock.token for lock in granted_all] == [floor + 1] * len(wanted)
    gate.locks.release(gate.locks.list()[0])
    set_fact(gate, "token_floor", str(floor * 2))
    assert gate.locks.acquire("a", "r:last", "shared").token == floor * 2 + 1
    lock = gate.locks.acquire("b", "r:up", "shared")
    set_fact(gate, "token_floor", str(floor * 3))
    assert gate.locks.upgrade(lock).token == floor * 3 + 1


@ON_ALL
def test_a_resource_that_is_handed_over_has_a_token_beyond_the_floor(gate: Gate) -> None:
    for _ in range(2):  # The second time the holder knows of a waiter, and grants it in one trip.
        lock = gate.locks.acquire("a", "r", "exclusive")
        waiter = queue_behind(gate, "b", "r", "exclusive")
        floor = state(gate).highest_token + 10**9
        set_fact(gate, "token_floor", str(floor))
        gate.locks.release(lock)
        handed = granted(waiter)
        assert handed.token == floor + 1
        gate.locks.release(handed)


@ON_ALL
def test_a_waiter_is_granted_a_lock_that_a_failover_ended(gates: Gates, kind: str) -> None:
    gate, other = gates.open(), gates.open()
    held = gate.locks.acquire("a", "r", "exclusive", lease=LONG)
    waiter = queue_behind(other, "b", "r", "exclusive", lease=LONG)
    take_over(gate, kind)
    with pytest.raises(LockLost):
        gate.locks.renew(held)
    assert granted(waiter).token > held.token + epochs.STEP


@ON_ALL
def test_a_lock_delay_is_kept(gates: Gates, kind: str) -> None:
    """A holder that does not know of it may still be working: the resource stays locked for the requested time."""
    gate = gates.open(lock_delay="1000")
    held = gate.locks.acquire("a", "r", "exclusive", lease=LONG)
    take_over(gate, kind)
    with pytest.raises(LockLost):
        gate.locks.renew(held)
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", "r", "exclusive")


@ON_ALL
def test_a_lock_delay_is_kept_after_the_mode_that_a_lock_has_by_then(gates: Gates, kind: str) -> None:
    gate = gates.open(lock_delay="1000")
    gate.locks.upgrade(gate.locks.acquire("a", "u", "shared", lease=LONG))
    gate.locks.downgrade(gate.locks.acquire("a", "d", "exclusive", lease=LONG))
    take_over(gate, kind)
    gate.locks.acquire("b", "d", "exclusive")
    with pytest.raises(LockRefused):
        gate.locks.acquire("b", "u", "exclusive")


@ON_ALL
def test_a_store_that_followed_no_server_keeps_all(gate: Gate, kind: str) -> None:
    """A store that was created before, or was moved here."""
    before = prepare(gate)
    database(gate).write(lambda tx: tx.run(NO_FACT, name="epoch"), look=False)
    assert gate.locks.renew(before.leased).token == before.leased.token
    gate.ledger.success(before.claim)
    if kind != "sqlite":
        assert state(gate).epoch == state(gate).server != ""


@ON_SERVERS
def test_two_servers_that_answer_in_turn_are_refused(gate: Gate, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate.locks.acquire("a", "r", "exclusive")
    follower = database(gate).follower
    assert follower

    def and_back(base: Any, change: Any) -> None:
        follower(base, change)
        set_fact(gate, "epoch", "another")

    monkeypatch.setattr(database(gate), "follower", and_back)
    set_fact(gate, "epoch", "another")
    with pytest.raises(StoreUnavailable, match="several servers"):
        gate.locks.acquire("b", "r:2", "exclusive")

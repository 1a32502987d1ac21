"""A standby that lacks the newest commits takes over: no token is granted twice, and no stale report is accepted.

Clients use one address all the time; the server behind it changes. On PostgreSQL they are an ordinary user, and the
standby has had no checkpoint since it was promoted.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

import headgate
from headgate import Batch, Claim, ClaimLost, Gate, ItemLost, Lock, LockLost
from headgate.core.filters import RowFilter
from headgate.stores.sql.server.epochs import STEP
from tests.contract.steps import in_thread
from tests.figures import Report
from tests.proxy import Proxy
from tests.replicas import PAIRS, Pair, PostgreSQLPair
from tests.servers import Unavailable
from tests.shared_servers import cannot_be_had

#: Far longer than a failover takes: no lease expires.
LEASE = 600.0

OnPair = Callable[[str], tuple[Pair, Proxy]]


@pytest.fixture
def on_pair() -> Iterator[OnPair]:
    """Starts a pair of servers, behind an address that does not change."""
    with ExitStack() as at_the_end:

        def start(kind: str) -> tuple[Pair, Proxy]:
            try:
                pair = at_the_end.enter_context(PAIRS[kind]())
            except Unavailable as missing:
                cannot_be_had(kind, str(missing))
            proxy = Proxy(pair.fresh())
            at_the_end.callback(proxy.close)
            return pair, proxy

        yield start


def connect(at_the_end: ExitStack, proxy: Proxy, **settings: str) -> Gate:
    return at_the_end.enter_context(headgate.connect(proxy.url, **settings))


def pipeline(gate: Gate) -> None:
    for name in ("raw", "tidy"):
        gate.ledger.define_dataset(name, uri=f"file:///{name}")
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    gate.ledger.publish("raw", ["1", "2", "3"])
    gate.queue.submit("demo", "ann", "https://example.org/1.checkm")


def switch(pair: Pair, proxy: Proxy) -> None:
    url = pair.fail_over()
    proxy.switch(url)
    assert urlsplit(url).port != urlsplit(proxy.url).port


class Given(NamedTuple):
    """What the old primary granted."""

    #: The standby has these.
    persistent: Lock
    leased: Lock
    old: Claim
    #: The standby lacks these.
    lost: list[Lock]
    work: Claim
    batch: Batch


def give(gate: Gate, pair: Pair) -> Given:
    """Locks, claims and a batch; the newer ones are lost with the primary."""
    pipeline(gate)
    persistent = gate.locks.acquire("ann", "db:kept", "exclusive")
    leased = gate.locks.acquire("ann", "db:leased", "exclusive", lease=LEASE)
    old = gate.ledger.claim("clean", "1", lease=LEASE)
    pair.catch_up()
    pair.cut()
    lost = [gate.locks.acquire("bob", "db:lost", "shared", lease=LEASE) for _ in range(3)]
    gate.locks.release(leased)
    lost.append(gate.locks.acquire("bob", "db:leased", "exclusive", lease=LEASE))
    gate.ledger.success(old)
    work, batch = gate.ledger.find_next("clean", lease=LEASE), gate.queue.acquire_batch("pending", lease=LEASE)
    assert work
    assert batch
    return Given(persistent, leased, old, lost, work, batch)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_standby_without_the_newest_commits_takes_over(kind: str, on_pair: OnPair, report: Report) -> None:
    pair, proxy = on_pair(kind)
    with ExitStack() as at_the_end:
        gate, others = connect(at_the_end, proxy), [connect(at_the_end, proxy) for _ in range(3)]
        given = give(gate, pair)
        switch(pair, proxy)
        # Whichever comes first: each gets a token that was never granted.
        racing = [in_thread(partial(each.locks.acquire, "eve", "db:lost", "shared", lease=LEASE)) for each in others]
        tokens = [future.result(60).token for future in racing]
        assert len(set(tokens)) == len(tokens)
        assert min(tokens) > max(STEP, *(lock.token for lock in given.lost))
        again = gate.ledger.claim("clean", given.work.dataid, lease=LEASE)
        assert again.token > max(STEP, given.work.token)
        _refuse_stale(gate, given)
        _look_around(gate, kept=given.persistent.id)
        gate.ledger.success(again)
        taken = gate.queue.acquire_batch("pending", lease=LEASE)
        assert taken
        assert taken.token > max(STEP, given.batch.token)
    report(store=kind, faults=1, hit=1, commits_lost=len(given.lost), calls=len(tokens) + 2, violations=0)


def _refuse_stale(gate: Gate, given: Given) -> None:
    for stale in (given.persistent, given.leased, *given.lost):
        with pytest.raises(LockLost):
            gate.locks.check(stale)
    for report in (gate.ledger.success, gate.ledger.heartbeat):
        for claim in (given.work, given.old):
            with pytest.raises(ClaimLost):
                report(claim)
    with pytest.raises(ItemLost):
        gate.queue.fire(given.batch, "start")


def _look_around(gate: Gate, kept: str) -> None:
    """Ended locks and claims have the reason, without a failure or crash; persistent locks stay, with a new token."""
    told = gate.history(resource="db:leased")[0]
    assert told.event == "expire"
    assert told.reason.startswith("failover:")
    reaped = gate.history(dataid="1")[0]
    assert (reaped.event, reaped.after) == ("reap", "ERROR")
    assert reaped.reason.startswith("failover:")
    rows = gate.ledger.rows(RowFilter(dataset="tidy"))
    assert {(row.failures, row.crashes) for row in rows} == {(0, 0)}
    lock = gate.locks.get(kept)
    assert lock.token > STEP
    gate.locks.release(lock)
    (_, state), *_ = gate.epochs.states()
    assert state.epoch == state.server


def test_a_synchronous_standby_keeps_every_lease(on_pair: OnPair) -> None:
    pair, proxy = on_pair("postgresql")
    assert isinstance(pair, PostgreSQLPair)
    pair.make_synchronous()
    with ExitStack() as at_the_end:
        gate = connect(at_the_end, proxy, replication="synchronous")
        pipeline(gate)
        leased = gate.locks.acquire("ann", "db:leased", "exclusive", lease=LEASE)
        claim = gate.ledger.find_next("clean", lease=LEASE)
        assert claim
        (_, before), *_ = gate.epochs.states()
        switch(pair, proxy)
        assert gate.locks.renew(leased).token == leased.token
        gate.ledger.success(claim)
        assert gate.locks.acquire("ann", "db:2", "exclusive").token < STEP
        (_, after), *_ = gate.epochs.states()
        assert after.epoch == after.server != before.epoch

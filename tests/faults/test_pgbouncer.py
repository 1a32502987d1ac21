"""PgBouncer in transaction mode: every part of a store works through it, with other clients on the same connections."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import headgate
from headgate import Gate, LockRefused
from headgate.stores.sql.locks.store import SqlLocks
from tests.poolers import PgBouncer
from tests.servers import Unavailable
from tests.shared_servers import Servers, cannot_be_had
from tests.waiting import until

THREADS, ROUNDS = 4, 12
R = "pooled:resource"


@pytest.fixture(scope="module")
def pooler(servers: Servers) -> Iterator[PgBouncer]:
    """A pooler with fewer server connections than clients."""
    url = servers.url("postgresql")
    try:
        pooler = PgBouncer(url)
    except Unavailable as reason:
        cannot_be_had("pgbouncer", str(reason))
    with pooler:
        yield pooler


@pytest.fixture
def direct_url(servers: Servers) -> Iterator[str]:
    url = servers.fresh("postgresql")
    yield url
    servers.drop("postgresql", url)


@pytest.fixture
def gate(pooler: PgBouncer, direct_url: str) -> Iterator[Gate]:
    """A store that was created and is used through the pooler."""
    with headgate.connect(pooler.through(direct_url)) as gate:
        yield gate


def in_threads(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        for each in [threads.submit(work, number) for number in range(THREADS)]:
            each.result()


def test_locks_work_through_the_pooler(gate: Gate) -> None:
    """Granted in one trip and on the slow path, renewed, upgraded, waited for: no driver error occurs."""
    inside: list[int] = []

    def live(number: int) -> None:
        client = f"client{number}"
        for turn in range(ROUNDS):
            own = gate.locks.acquire(client, f"own:{number}", "read", lease=60)
            gate.locks.renew(own)
            gate.locks.release(gate.locks.upgrade(own))
            with gate.locks.held(client, R, wait=60, lease=60) as hold:
                inside.append(number)
                assert inside == [number]
                gate.locks.check(hold)
                inside.remove(number)
            with pytest.raises(LockRefused), gate.locks.held_all(client, {R: "write", f"all:{turn}": "write"}):
                gate.locks.acquire(client, R, "read")

    in_threads(live)
    assert gate.locks.list() == []
    assert gate.locks.waiters() == []


def test_chunks_and_batches_work_through_the_pooler(gate: Gate) -> None:
    ledger, queue = gate.ledger, gate.queue
    ledger.define_dataset("raw")
    ledger.define_dataset("made")
    ledger.define_job("make", inputs=["raw"], outputs=["made"])
    ledger.publish("raw", [str(number) for number in range(THREADS * ROUNDS)])
    for number in range(THREADS):
        queue.submit("profile", f"me{number}", "file:///payload")
    done: list[str] = []

    def work(_number: int) -> None:
        while claim := ledger.find_next("make", lease=60):
            ledger.heartbeat(claim)
            if claim.dataid.endswith("7") and claim.attempt == 1:
                ledger.fail(claim, "once")
                continue
            ledger.success(claim)
            done.append(claim.dataid)
        batch = queue.acquire_batch("pending", lease=60)
        assert batch is not None
        queue.renew(batch)
        queue.give_back(batch)

    in_threads(work)
    assert sorted(done, key=int) == [str(number) for number in range(THREADS * ROUNDS)]
    assert len({row.dataid for row in ledger.status(dataset="made", status="READY")}) == THREADS * ROUNDS


def test_other_clients_of_the_pooler_keep_their_settings(gate: Gate, pooler: PgBouncer, direct_url: str) -> None:
    in_threads(lambda number: gate.locks.release(gate.locks.acquire("a", f"{R}{number}", "write")))
    with psycopg.connect(pooler.through(direct_url), autocommit=True, prepare_threshold=None) as stranger:
        for name, value in (("enable_seqscan", "on"), ("lock_timeout", "0"), ("statement_timeout", "0")):
            assert stranger.execute(f"show {name}").fetchone() == (value,)


@pytest.mark.parametrize("listens", [True, False], ids=["listen_url", "polls"])
def test_waiters_are_woken_over_a_direct_connection_or_poll_once_a_second(
    gate: Gate, pooler: PgBouncer, direct_url: str, listens: bool
) -> None:
    """Each of the two processes has its own gate, so that neither wakes the other directly."""
    settings = {"listen_url": direct_url} if listens else {}
    lock = gate.locks.acquire("a", R, "write")
    with headgate.connect(pooler.through(direct_url), **settings) as other:
        waiting = threading.Thread(target=lambda: other.locks.acquire("b", R, "write", wait=60))
        waiting.start()
        until(lambda: gate.locks.waiters(R), "the waiter")
        store = other.store.locks
        assert isinstance(store, SqlLocks)
        if listens:
            until(lambda: store._wakeups.listening, "the waiter to listen")
        assert store._wakeups.listening is listens
        assert store._wakeups.pause(0.0, 0, told=False) == 1.0
        gate.locks.release(lock)
        waiting.join(30)
        assert [each.client for each in gate.locks.list(R)] == ["b"]


@pytest.mark.parametrize("listens", [True, False], ids=["listen_url", "polls"])
def test_doctor_says_that_waiters_poll(pooler: PgBouncer, direct_url: str, listens: bool) -> None:
    settings = {"listen_url": direct_url} if listens else {}
    with headgate.connect(pooler.through(direct_url), **settings) as gate:
        notices = gate.notices()
    assert bool(notices) is not listens
    assert all("listen_url" in each and "once a second" in each for each in notices)
    with headgate.connect(direct_url) as gate:
        assert gate.notices() == []


def test_a_listen_url_that_leads_to_the_pooler_is_reported(pooler: PgBouncer, direct_url: str) -> None:
    pooled = pooler.through(direct_url)
    with headgate.connect(pooled, listen_url=pooled) as gate:
        assert "so is listen_url" in gate.notices()[0]

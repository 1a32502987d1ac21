"""Leases are judged by the leader's clock: renewals in time win, a clean exit releases locks, and no call hangs."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate
from headgate import Gate, LockLost, StoreUnavailable
from headgate.core.filters import LockFilter
from headgate.core.locks.tickets import Ticket
from headgate.stores.zookeeper.ensemble.clock import Clock, Now
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from tests.contract.steps import EXCLUSIVE, SHARED, history_of, in_thread, request_for
from tests.proxy import MULTI, FrameProxy
from tests.waiting import await_turn, until
from tests.zookeeper.conftest import OpenStore

R = "file:///d/1"
SECOND = 1000
#: Far longer than any call may take, and than a busy machine adds.
GUARD = 20.0


def events(store: ZookeeperLocks) -> list[str]:
    return [entry.event for entry in reversed(history_of(store))]


@contextlib.contextmanager
def far_gate(url: str, proxy: FrameProxy, **settings: str) -> Iterator[Gate]:
    """A gate behind the proxy."""
    with headgate.connect(f"zookeeper://127.0.0.1:{proxy.port}/{url.rpartition('/')[2]}", **settings) as gate:
        yield gate


# ------------------------------------------------------------------ the clock


def zxid(epoch: int) -> int:
    return (epoch << 32) + 7


@pytest.mark.parametrize(
    ("at", "epoch", "age"),
    [
        pytest.param(90 * SECOND, 5, 10.0, id="a stamp of the present epoch"),
        pytest.param(10 * SECOND, 4, 2.0, id="a stamp of a leader whose clock was behind"),
        pytest.param(999 * SECOND, 4, 2.0, id="a stamp of a leader whose clock was ahead"),
        pytest.param(101 * SECOND, 5, 0.0, id="a clock that went back"),
        pytest.param(10 * SECOND, 6, 0.0, id="a stamp of an epoch that began meanwhile"),
    ],
)
def test_an_age_is_counted_within_one_epoch(at: int, epoch: int, age: float) -> None:
    now = Now(at=100 * SECOND, epoch=5, began=98 * SECOND)
    assert now.age(at, zxid(epoch)) == age


def test_an_epoch_begins_when_it_is_first_noticed_and_is_kept(store: ZookeeperLocks, raw: Any) -> None:
    now, _ = store._transitions.clock.ask(store._sessions.base, [])
    assert raw.get_children(store._tree.epochs) == [str(now.epoch)]
    assert now.began == raw.exists(f"{store._tree.epochs}/{now.epoch}").ctime
    again, _ = Clock(store._tree.clock, store._tree.epochs).ask(store._sessions.base, [])
    assert (again.epoch, again.began) == (now.epoch, now.began)
    assert again.at >= now.at


# ------------------------------------------------------------------ judging


def test_a_renewal_between_the_judgement_and_its_execution_wins(
    store: ZookeeperLocks, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=0.5))
    judge = open_store()
    node = store._tenure.node(lock.id, lock.token)
    until(lambda: not judge.list(LockFilter()), "the lease to run out")
    send = judge._transitions._changes._send
    sent: list[Any] = []

    def renewed_just_before(plan: Any, run: Any) -> Any:
        if not sent:
            sent.append(plan)
            store._sessions.base._client.set(node, b"")
        return send(plan, run)

    monkeypatch.setattr(judge._transitions._changes, "_send", renewed_just_before)
    with pytest.raises(Exception, match="cannot acquire"):
        judge.acquire(request_for("b", (R, EXCLUSIVE)))
    assert sent
    assert [each.client for each in store.list(LockFilter())] == ["a"]
    assert "expire" not in events(store)


def test_a_clean_exit_releases_all_locks_at_once(store: ZookeeperLocks, open_store: OpenStore) -> None:
    ending = open_store()
    ending.acquire(request_for("a", (R, EXCLUSIVE), lease=3600))
    ending.acquire(request_for("a", ("persistent", EXCLUSIVE)))
    shared = ending.upgrade(*ref(ending.acquire(request_for("a", ("upgraded", SHARED), lease=3600))[0]))
    assert shared.token == 2
    ending.close()
    assert [each.resource for each in store.list(LockFilter())] == ["persistent"]


def ref(lock: Any) -> tuple[str, int]:
    return lock.id, lock.token


def test_a_grant_for_a_client_of_the_service_outlives_the_service(store: ZookeeperLocks, open_store: OpenStore) -> None:
    service = open_store()
    request = dataclasses.replace(request_for("a", (R, EXCLUSIVE), lease=3600), outlives=True)
    (lock,) = service.acquire(request)
    service.close()
    assert store.renew(lock.id, lock.token).token == lock.token


def test_a_waiter_that_dies_before_it_confirms_a_long_lease_blocks_only_briefly(
    store: ZookeeperLocks, open_store: OpenStore
) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = open_store().queue_up(request_for("b", (R, EXCLUSIVE), lease=3600))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    (held,) = store.list(LockFilter())
    assert held.lease == 3600
    assert held.expires_in is not None
    assert held.expires_in <= 30


def test_a_confirmed_long_lease_has_its_full_length(store: ZookeeperLocks, open_store: OpenStore) -> None:
    other = open_store()
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = other.queue_up(request_for("b", (R, EXCLUSIVE), lease=3600))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    while not (grant := other.take_turn(ticket)):
        await_turn(other, ticket, 10)
    assert other.check(grant[0].id, grant[0].token).token == 2
    until(lambda: (store.list(LockFilter())[0].expires_in or 0) > 1000, "the whole lease")


# ------------------------------------------------------------------ abandoned locks


def test_a_holder_that_was_notified_of_its_loss_stops_renewing(
    url: str, store: ZookeeperLocks, proxy: FrameProxy
) -> None:
    lost = threading.Event()

    def hold(gate: Gate) -> None:
        with gate.locks.held("a", R, lease=1.5, on_lost=lambda _: lost.set()):
            proxy.cut()
            assert lost.wait(GUARD)
            proxy.heal()

    with far_gate(url, proxy) as gate:
        with pytest.raises(LockLost):
            hold(gate)
        until(lambda: not store.list(LockFilter()), "the lock to be free though its process lives")
        assert store.acquire(request_for("next", (R, EXCLUSIVE)))


@pytest.mark.parametrize("lease", [None, 2.0], ids=["persistent", "leased"])
@pytest.mark.parametrize("held", [False, True], ids=["acquire", "held"])
def test_a_call_whose_outcome_is_unknown_leaves_no_lock(
    url: str, store: ZookeeperLocks, proxy: FrameProxy, lease: float | None, held: bool
) -> None:
    store.register_resource(R)
    with far_gate(url, proxy, answer_within="1") as gate:
        proxy.lose_answer_to(MULTI)
        threading.Thread(target=proxy.cut_when_lost, daemon=True).start()
        ask = gate.locks.held("a", R, lease=lease).__enter__ if held else None
        with pytest.raises(StoreUnavailable) as error:
            ask() if ask else gate.locks.acquire("a", R, "write", lease=lease)
        assert error.value.outcome == "unknown"
        assert error.value.request_id
        assert events(store) == ["grant"]
        proxy.heal()
        until(lambda: not store.list(LockFilter()), "what nobody knows of to be given up")
        assert store.acquire(request_for("next", (R, EXCLUSIVE)))


def test_a_caller_that_repeats_its_request_id_keeps_the_grant(
    url: str, store: ZookeeperLocks, proxy: FrameProxy
) -> None:
    store.register_resource(R)
    with far_gate(url, proxy, answer_within="1") as gate:
        proxy.lose_answer_to(MULTI)
        threading.Thread(target=proxy.cut_when_lost, daemon=True).start()
        with pytest.raises(StoreUnavailable):
            gate.locks.acquire("a", R, "write", request_id="mine")
        proxy.heal()
        until(lambda: answers(gate), "the store to be back")
        lock = gate.locks.acquire("a", R, "write", request_id="mine")
        assert [(each.id, each.token) for each in store.list(LockFilter())] == [(lock.id, lock.token)]
        assert events(store) == ["grant"]


def answers(gate: Gate) -> bool:
    try:
        gate.store.ping()
    except StoreUnavailable:
        return False
    return True


def test_a_persistent_lock_that_could_not_be_released_after_its_block_is_released_later(
    url: str, store: ZookeeperLocks, proxy: FrameProxy
) -> None:
    def hold(gate: Gate) -> None:
        with gate.locks.held("a", R, lease=None):
            proxy.cut()

    with far_gate(url, proxy, answer_within="1") as gate:
        with pytest.raises(StoreUnavailable):
            hold(gate)
        assert [each.client for each in store.list(LockFilter())] == ["a"]
        proxy.heal()
        until(lambda: not store.list(LockFilter()), "the lock to be released")


# ------------------------------------------------------------------ deadlines

CALLS: dict[str, Callable[[Gate, Any], object]] = {
    "acquire": lambda gate, _: gate.locks.acquire("b", "free", "write"),
    "acquire what is held": lambda gate, _: gate.locks.acquire("b", R, "write"),
    "acquire with a wait": lambda gate, _: gate.locks.acquire("b", R, "write", wait=1),
    "release": lambda gate, lock: gate.locks.release(lock),
    "renew": lambda gate, lock: gate.locks.renew(lock),
    "check": lambda gate, lock: gate.locks.check(lock),
    "downgrade": lambda gate, lock: gate.locks.downgrade(lock),
    "ping": lambda gate, _: gate.store.ping(),
    "take a job": lambda gate, _: gate.queue.acquire_job("pending", lease=5),
}


def test_every_call_ends_in_time_when_the_server_falls_silent(url: str, proxy: FrameProxy) -> None:
    """No refusal, and no closed connection: the connection just receives nothing more."""
    with far_gate(url, proxy, answer_within="2") as gate:
        lock = gate.locks.acquire("a", R, "write", lease=60)
        gate.queue.acquire_job("pending", lease=5)
        waiting = in_thread(lambda: gate.locks.acquire("c", R, "write", wait=2))
        until(lambda: gate.locks.waiters(R), "somebody to wait")
        proxy.hold(connects=True)
        began = time.monotonic()
        for name, call in CALLS.items():
            asked = time.monotonic()
            with pytest.raises(StoreUnavailable):
                call(gate, lock)
            wait = 1 if "wait" in name else 0
            assert time.monotonic() - asked < wait + 2 + 2.5, name
        assert isinstance(waiting.exception(timeout=GUARD), StoreUnavailable)
        assert time.monotonic() - began < GUARD * 2
        proxy.heal()

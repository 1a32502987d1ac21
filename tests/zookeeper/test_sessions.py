"""Sessions: a lock outlives them, a queue position does not, and a fork has its own."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from headgate import LockRefused, StoreUnavailable
from headgate.core.errors import StoreMisconfigured
from headgate.core.filters import LockFilter
from headgate.core.locks.tickets import Ticket
from headgate.stores.zookeeper.ensemble.session import rounded
from headgate.stores.zookeeper.locks import losses
from headgate.stores.zookeeper.locks.losses import LossWatch
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from headgate.stores.zookeeper.store import open_zookeeper
from tests.contract.steps import EXCLUSIVE, SHARED, in_thread, request_for
from tests.proxy import FrameProxy
from tests.servers import PrivateServer
from tests.waiting import await_turn, until
from tests.zookeeper.conftest import OpenStore, expire

R = "file:///d/1"


def test_a_lock_outlives_the_session_that_took_it(url: str, store: ZookeeperLocks) -> None:
    """Its holder is alive and renews: the end of a session is no reason to lose the lock, and no loss is reported."""
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=10))
    reasons: list[str] = []
    store.watch_loss(lock, reasons.append)
    old = store._sessions.base.id
    expire(store, url)
    until(lambda: store._sessions.base.id not in (0, old), "another session")
    assert store.renew(lock.id, lock.token).token == lock.token
    assert store.check(lock.id, lock.token).alive
    assert reasons == []
    store.release(lock.id, lock.token)


def test_a_store_that_was_removed_while_in_use_is_reported(
    store: ZookeeperLocks, open_store: OpenStore, raw: Any
) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=10))
    other = open_store()
    raw.delete(store._tree.clock)
    with pytest.raises(StoreMisconfigured, match="clock is missing"):
        other.check(lock.id, lock.token)


def test_the_watch_over_a_lock_continues_in_the_next_session(
    url: str, store: ZookeeperLocks, open_store: OpenStore
) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=30))
    told = threading.Event()
    store.watch_loss(lock, lambda _why: told.set())
    expire(store, url)
    other = open_store()
    other.break_lock(lock.id, "it hangs", "ops")
    assert told.wait(10)


def test_the_watch_over_a_lock_pauses_while_the_store_returns_errors(
    store: ZookeeperLocks, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is there, but the store is not."""
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=10))
    looks: list[float] = []
    look = LossWatch._look

    def note(watch: LossWatch) -> None:
        looks.append(time.monotonic())
        look(watch)

    monkeypatch.setattr(LossWatch, "_look", note)
    end = store.watch_loss(lock, lambda _why: None)
    raw.delete(store._tree.clock)
    raw.delete(store._tree.of_lock(lock.id), recursive=True)
    until(lambda: len(looks) > 1, "two looks")
    end()
    assert looks[1] - looks[0] > losses.REST_SECONDS / 2


def test_tasks_after_an_outage_are_done_whatever_fails(store: ZookeeperLocks) -> None:
    done, session = threading.Event(), store._sessions.base

    def fail() -> None:
        raise ValueError("a bug")

    session._returns = [fail, done.set]
    session._run_returns()
    assert done.wait(10)


def test_a_watch_that_was_ended_notifies_nobody(url: str, store: ZookeeperLocks) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=5))
    reasons: list[str] = []
    store.watch_loss(lock, reasons.append)()
    store.release(lock.id, lock.token)
    expire(store, url)
    (again,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=5))
    store.check(again.id, again.token)
    assert reasons == []


def test_a_holder_of_a_broken_lock_is_notified_at_once(store: ZookeeperLocks, open_store: OpenStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), lease=5))
    told, reasons = threading.Event(), []

    def lost(why: str) -> None:
        reasons.append(why)
        told.set()

    store.watch_loss(lock, lost)
    open_store().break_lock(lock.id, "it hangs", "ops")
    assert told.wait(10)
    assert "ops: it hangs" in reasons[0]


@pytest.mark.parametrize(
    ("asked", "given"), [(0.2, 1.0), (1.0, 1.0), (1.01, 1.1), (9.99, 10.0), (10, 10), (61.5, 62), (123, 130)]
)
def test_the_session_of_an_item_is_rounded_up_never_down(asked: float, given: float) -> None:
    assert rounded(asked) == given


def test_locks_of_all_lengths_share_one_session(store: ZookeeperLocks) -> None:
    for hundredths in range(20):
        store.acquire(request_for("a", (f"r{hundredths}", EXCLUSIVE), lease=2 + hundredths / 100))
    assert len(store._sessions._by_length) == 1


def test_a_renewal_without_an_answer_does_not_count(proxied: ZookeeperLocks, proxy: FrameProxy) -> None:
    """If that session cannot be reached, the lock may have expired."""
    (lock,) = proxied.acquire(request_for("a", (R, EXCLUSIVE), lease=10))
    object.__setattr__(proxied._sessions._servers, "patience", 0.5)
    proxy.cut()
    with pytest.raises(StoreUnavailable):
        proxied.renew(lock.id, lock.token)
    proxy.heal()
    until(lambda: proxied._sessions.base.connected, "the session to be back")
    assert proxied.renew(lock.id, lock.token).alive


def test_a_request_made_during_an_outage_is_never_sent_later(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    """Its caller no longer waits for the answer: nobody would know of the lock."""
    store.register_resource(R)
    proxied.acquire(request_for("a", ("other", SHARED)))
    proxy.cut()
    session = proxied._sessions.base
    until(lambda: not session.connected, "the connection to break")
    late = session._client.create_async(f"{store._tree.root}/late")
    proxy.heal()
    until(lambda: session.connected, "the connection to be back")
    assert isinstance(late.exception, Exception) or late.wait(5)
    assert late.exception is not None
    assert session._client.exists(f"{store._tree.root}/late") is None


def test_a_server_is_unavailable_during_an_outage_and_works_again_afterwards(
    private_server: Callable[[str], PrivateServer],
) -> None:
    server = private_server("zookeeper")
    store = open_zookeeper(f"{server.url}/here?patience=2").locks
    (kept,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    (leased,) = store.acquire(request_for("a", ("leased", EXCLUSIVE), lease=60))
    server.kill()
    began = time.monotonic()
    for act in (
        lambda: store.acquire(request_for("b", (R, SHARED))),
        lambda: store.check(kept.id, kept.token),
        lambda: store.list(LockFilter()),
    ):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            act()
    assert time.monotonic() - began < 20
    server.restart()
    until(lambda: answers(store), "the store to be back")
    assert store.check(kept.id, kept.token).token == kept.token
    with pytest.raises(LockRefused):
        store.acquire(request_for("b", (R, SHARED)))
    assert store.check(leased.id, leased.token).alive
    store.close()


def answers(store: ZookeeperLocks) -> bool:
    try:
        store.list(LockFilter())
    except StoreUnavailable:
        return False
    return True


def test_a_forked_child_has_its_own_sessions(url: str, store: ZookeeperLocks, open_store: OpenStore) -> None:
    (lock,) = store.acquire(request_for("parent", (R, SHARED), lease=10))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            (own,) = store.acquire(request_for("child", (R, SHARED), lease=10))
            store.check(own.id, own.token)
            ids = {each.id for each in store._sessions._by_length.values()}
            code = 0 if lock.id != own.id and 0 not in ids else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.check(lock.id, lock.token).alive
    store.close()
    witness = open_store()
    assert [each.client for each in witness.list(LockFilter())] == ["child"]  # Only the parent's sessions have ended.


def test_a_dead_waiter_leaves_the_queue_and_the_next_one_is_granted(url: str, open_store: OpenStore) -> None:
    holding, doomed, waiting = open_store(), open_store(), open_store()
    (lock,) = holding.acquire(request_for("holder", (R, EXCLUSIVE)))
    first = doomed.queue_up(request_for("doomed", (R, EXCLUSIVE), lease=2))
    second = waiting.queue_up(request_for("next", (R, EXCLUSIVE), lease=5))
    assert isinstance(first, Ticket)
    assert isinstance(second, Ticket)
    assert first.number < second.number
    expire(doomed, url)
    until(lambda: [w.client for w in holding.waiters(R)] == ["next"], "the dead waiter to leave")
    future = in_thread(lambda: await_turn(waiting, second, 30))
    holding.release(lock.id, lock.token)
    future.result(timeout=10)
    grant = waiting.take_turn(second)
    assert grant
    assert grant[0].client == "next"


def test_a_waiter_whose_session_ended_gets_a_new_position(url: str, open_store: OpenStore) -> None:
    holding, waiting = open_store(), open_store()
    (lock,) = holding.acquire(request_for("holder", (R, EXCLUSIVE)))
    ticket = waiting.queue_up(request_for("unlucky", (R, EXCLUSIVE), lease=2))
    assert isinstance(ticket, Ticket)
    expire(waiting, url)
    until(lambda: not holding.waiters(R), "the place to go")
    await_turn(waiting, ticket, 5)
    assert waiting.take_turn(ticket) is None
    assert [waiter.client for waiter in holding.waiters(R)] == ["unlucky"]
    holding.release(lock.id, lock.token)
    await_turn(waiting, ticket, 10)
    assert waiting.take_turn(ticket)
    assert holding.waiters(R) == []

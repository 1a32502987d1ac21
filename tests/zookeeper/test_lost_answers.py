"""After a lost answer the change is recognised as ours, never repeated, and leaves no orphan."""

import threading

import pytest

from headgate import StoreUnavailable
from headgate.core.filters import LockFilter
from headgate.core.locks.tickets import Granted, Ticket
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from tests.contract.steps import EXCLUSIVE, SHARED, history_of, in_thread, request_for
from tests.proxy import CREATE2, MULTI, FrameProxy
from tests.waiting import await_turn, until

R = "file:///d/1"


def events(store: ZookeeperLocks) -> list[str]:
    return [entry.event for entry in reversed(history_of(store))]


@pytest.mark.parametrize("lease", [None, 10.0])
def test_a_grant_whose_answer_was_lost_is_recognised(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy, lease: float | None
) -> None:
    proxied.release(*ref(proxied.acquire(request_for("a", (R, EXCLUSIVE), lease=lease))))
    proxy.lose_answer_to(MULTI)
    (lock,) = proxied.acquire(request_for("a", (R, EXCLUSIVE), lease=lease))
    assert proxy.lost.is_set()
    assert [each.token for each in store.list(LockFilter())] == [lock.token] == [2]
    assert store.check(lock.id, lock.token).since == lock.since
    assert events(store) == ["grant", "release", "grant"]


def test_a_release_whose_answer_was_lost_is_done_once(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    (lock,) = proxied.acquire(request_for("a", (R, EXCLUSIVE), lease=10))
    proxy.lose_answer_to(MULTI)
    proxied.release(lock.id, lock.token)
    assert proxy.lost.is_set()
    assert store.list(LockFilter()) == []
    assert events(store) == ["grant", "release"]


def test_one_hold_less_whose_answer_was_lost_is_counted_once(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    lock, *_ = [proxied.acquire(request_for("a", (R, EXCLUSIVE), reentrant=True))[0] for _ in range(3)]
    proxy.lose_answer_to(MULTI)
    proxied.release(lock.id, lock.token)
    assert proxy.lost.is_set()
    assert store.get(lock.id).count == 2


@pytest.mark.parametrize("act", ["upgrade", "downgrade"])
def test_a_change_whose_answer_was_lost_is_done_once(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy, act: str
) -> None:
    mode = SHARED if act == "upgrade" else EXCLUSIVE
    (lock,) = proxied.acquire(request_for("a", (R, mode), lease=10))
    proxy.lose_answer_to(MULTI)
    changed = getattr(proxied, act)(lock.id, lock.token)
    assert proxy.lost.is_set()
    assert changed.mode is not mode
    assert store.check(changed.id, changed.token).mode is changed.mode
    assert events(store) == ["grant", act]


def test_a_queue_position_whose_answer_was_lost_is_taken_once(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    (lock,) = store.acquire(request_for("holder", (R, EXCLUSIVE)))
    proxy.lose_answer_to(CREATE2)
    ticket = proxied.queue_up(request_for("waiter", (R, EXCLUSIVE), lease=10))
    assert proxy.lost.is_set()
    assert isinstance(ticket, Ticket)
    assert [(waiter.client, waiter.ticket) for waiter in store.waiters()] == [("waiter", ticket.number)]
    store.release(lock.id, lock.token)
    await_turn(proxied, ticket, 10)
    assert proxied.take_turn(ticket)
    assert store.waiters() == []


def test_positions_in_several_queues_whose_answer_was_lost_are_taken_once(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    store.acquire(request_for("holder", ("r1", EXCLUSIVE)))
    store.register_resource("r2")
    proxy.lose_answer_to(MULTI)
    ticket = proxied.queue_up(request_for("waiter", ("r1", SHARED), ("r2", SHARED)))
    assert proxy.lost.is_set()
    assert isinstance(ticket, Ticket)
    assert [waiter.resource for waiter in store.waiters()] == ["r1", "r2"]
    proxied.withdraw(ticket)
    assert store.waiters() == []


def test_a_collection_whose_answer_was_lost_is_taken_whole(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    wants = [(f"r{number}", EXCLUSIVE) for number in range(5)]
    for resource, _ in wants:
        store.register_resource(resource)
    proxy.lose_answer_to(MULTI)
    grant = proxied.acquire(request_for("a", *wants, lease=10))
    assert proxy.lost.is_set()
    assert [lock.id for lock in store.list(LockFilter())] == sorted(lock.id for lock in grant)
    assert events(store) == ["grant"] * 5


def test_a_waiter_that_gives_up_during_an_outage_leaves_the_queue(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    """The session may stay alive, but its queue position must not."""
    (lock,) = store.acquire(request_for("holder", (R, EXCLUSIVE)))
    ticket = proxied.queue_up(request_for("waiter", (R, EXCLUSIVE), lease=10))
    assert isinstance(ticket, Ticket)
    object.__setattr__(proxied._sessions._servers, "patience", 0.5)
    proxy.cut()
    with pytest.raises(StoreUnavailable):
        proxied.withdraw(ticket)
    proxy.heal()
    until(lambda: not store.waiters(), "the place to be given up", 5)
    store.release(lock.id, lock.token)
    assert store.acquire(request_for("next", (R, EXCLUSIVE)))


def test_a_cancelled_waiter_that_was_granted_meanwhile_releases_the_lock(store: ZookeeperLocks) -> None:
    (lock,) = store.acquire(request_for("holder", (R, EXCLUSIVE)))
    ticket = store.queue_up(request_for("waiter", (R, EXCLUSIVE), lease=10))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    assert [each.client for each in store.list(LockFilter())] == ["waiter"]
    store.withdraw(ticket)
    assert store.list(LockFilter()) == []
    assert events(store) == ["grant", "release", "grant", "release"]


def test_a_store_that_is_gone_for_good_leaves_the_caller_with_the_request_id(
    store: ZookeeperLocks, proxied: ZookeeperLocks, proxy: FrameProxy
) -> None:
    """A repeat with the same request id finds the grant, if there was one."""
    store.register_resource(R)
    object.__setattr__(proxied._sessions._servers, "patience", 0.5)
    request = request_for("a", (R, EXCLUSIVE))
    proxy.lose_answer_to(MULTI)

    def cut() -> None:
        proxy.lost.wait(10)
        proxy.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(StoreUnavailable):
        proxied.acquire(request)
    cutter.join()
    proxy.heal()
    future = in_thread(lambda: store.acquire(request))
    (lock,) = future.result(timeout=10)
    assert (lock.token, events(store)) == (1, ["grant"])


def ref(grant: Granted) -> tuple[str, int]:
    (lock,) = grant
    return lock.id, lock.token

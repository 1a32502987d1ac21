"""Round trips per call. Requests that are sent together are one trip."""

from collections.abc import Callable

import pytest

from headgate import LockRefused
from headgate.core.locks.model import Lock, Mode
from headgate.core.locks.tickets import Ticket
from headgate.stores.zookeeper.ensemble.session import ZkSession
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from tests.contract.steps import EXCLUSIVE, SHARED, request_for
from tests.waiting import await_turn
from tests.zookeeper.conftest import OpenStore

R = "file:///d/1"
LEASE = 3600.0
Trips = Callable[[Callable[[], object]], int]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """Counts the round trips of a call."""
    made: list[str] = []

    def count(name: str) -> None:
        whole = getattr(ZkSession, name)

        def call(self: ZkSession, *questions: object) -> object:
            made.append(name)
            return whole(self, *questions)

        monkeypatch.setattr(ZkSession, name, call)

    def of(call: Callable[[], object]) -> int:
        made.clear()
        call()
        return len(made)

    count("ask")
    count("change")
    return of


def take(store: ZookeeperLocks, client: str, mode: Mode = EXCLUSIVE, lease: float | None = LEASE) -> Lock:
    (lock,) = store.acquire(request_for(client, (R, mode), lease=lease))
    return lock


def assert_at_most(counted: dict[str, int], *most: int) -> None:
    assert [name for (name, count), limit in zip(counted.items(), most, strict=True) if count > limit] == [], counted


@pytest.fixture
def other(store: ZookeeperLocks, open_store: OpenStore) -> ZookeeperLocks:
    """Another process. Both have used another resource before."""
    other = open_store()
    for number, each in enumerate((store, other)):
        (lock,) = each.acquire(request_for("a", (f"warm/{number}", SHARED), lease=LEASE))
        each.release(lock.id, lock.token)
    return other


@pytest.mark.parametrize("lease", [None, LEASE])
def test_a_known_resource_costs_one_trip(store: ZookeeperLocks, trips: Trips, lease: float | None) -> None:
    first = take(store, "a", lease=lease)
    assert trips(lambda: store.release(first.id, first.token)) == 1
    assert trips(lambda: take(store, "a", lease=lease)) == 1


def test_checking_and_renewing_a_lock_of_this_process_costs_one_trip(store: ZookeeperLocks, trips: Trips) -> None:
    lock = take(store, "a")
    assert trips(lambda: store.check(lock.id, lock.token)) == 1
    assert trips(lambda: store.renew(lock.id, lock.token)) == 1


def test_trips_on_a_resource_of_another_process(store: ZookeeperLocks, other: ZookeeperLocks, trips: Trips) -> None:
    lock = take(other, "b", SHARED)
    counted = {
        "judge its holder, and join it": trips(lambda: take(store, "a", SHARED)),
        "release from stale memory": trips(lambda: other.release(lock.id, lock.token)),
        "grant from stale memory": trips(lambda: take(store, "c", SHARED)),
    }
    assert_at_most(counted, 5, 6, 3)


def test_trips_of_a_refusal(store: ZookeeperLocks, other: ZookeeperLocks, trips: Trips) -> None:
    take(store, "a")

    def refused() -> None:
        with pytest.raises(LockRefused):
            take(other, "b")

    assert_at_most({"first": trips(refused), "within the same minute": trips(refused)}, 7, 5)


def test_trips_of_waiting_and_a_hand_over(store: ZookeeperLocks, other: ZookeeperLocks, trips: Trips) -> None:
    lock = take(store, "a")
    tickets: list[Ticket] = []

    def join() -> None:
        ticket = other.queue_up(request_for("b", (R, EXCLUSIVE), lease=LEASE))
        assert isinstance(ticket, Ticket)
        tickets.append(ticket)

    counted = {"join": trips(join), "again": trips(join), "release": trips(lambda: store.release(lock.id, lock.token))}
    await_turn(other, tickets[0], 30)
    counted["take"] = trips(lambda: other.take_turn(tickets[0]))
    assert_at_most(counted, 9, 1, 3, 0)


def test_trips_of_changes_of_a_held_lock(store: ZookeeperLocks, other: ZookeeperLocks, trips: Trips) -> None:
    lock = take(store, "a", lease=None)
    counted = {
        "downgrade": trips(lambda: store.downgrade(lock.id, lock.token)),
        "upgrade": trips(lambda: store.upgrade(lock.id, lock.token)),
        "hand over": trips(lambda: store.hand_over(lock.id, "b", "")),
        "break": trips(lambda: store.break_lock(lock.id, "why", "c")),
    }
    assert_at_most(counted, 5, 4, 3, 3)

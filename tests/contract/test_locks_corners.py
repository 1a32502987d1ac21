"""Corner cases where two rules meet: lock-delay and mode changes, re-entrance and the queue, repeats and hand-overs."""

from dataclasses import replace

import pytest

from headgate import BadValue, Lock, LockLost, LockRefused, Mode, Refused, UnknownName
from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from headgate.core.filters import LockFilter
from headgate.core.locks.draft import LockDraft
from headgate.core.locks.model import Request
from headgate.core.locks.tickets import Ticket
from headgate.service.leases.clock import steady
from headgate.stores.ports.locks import LockStore
from tests.contract.over_http import HTTP
from tests.contract.steps import EXCLUSIVE, LONG, SHARED, SHORT, Gates, history_of, request_for
from tests.waiting import until

R, OTHER = "file:/d/1", "file:/d/2"
#: Far longer than a test.
DELAY = 60.0
#: Longer than a provisional grant lives until its waiter accepts it.
HOUR = 3600.0


def queued(store: LockStore, request: Request) -> Ticket:
    ticket = store.queue_up(request)
    assert isinstance(ticket, Ticket)
    return ticket


def let_expire(store: LockStore, lock: Lock) -> None:
    """Give the lock a short lease, and wait until the store reports that it has expired."""
    store.renew(lock.id, lock.token, SHORT)
    until(lambda: not store.list(LockFilter(resource=lock.resource, client=lock.client)), "the lease to expire")


def events(store: LockStore, resource: str = R) -> list[str]:
    return [each.event for each in reversed(history_of(store, resource=resource))]


# ------------------------------------------------------------------ lock-delay


@pytest.fixture
def dead_writer(store: LockStore) -> Lock:
    """An expired exclusive lock whose lock-delay has only begun."""
    (lock,) = store.acquire(request_for("dead", (R, EXCLUSIVE), lease=LONG, lock_delay=DELAY, request_id="its own"))
    let_expire(store, lock)
    return lock


def test_a_request_is_not_repeated_into_its_own_lock_delay(store: LockStore, dead_writer: Lock) -> None:
    with pytest.raises(LockRefused) as refusal:
        store.acquire(request_for("dead", (R, EXCLUSIVE), lease=LONG, request_id="its own"))
    assert [each.lock_id for each in refusal.value.blockers] == [dead_writer.id]


def test_an_expired_holder_can_do_nothing_during_the_lock_delay(store: LockStore, dead_writer: Lock) -> None:
    with pytest.raises(LockRefused):  # From now on every store knows that it is dead.
        store.acquire(request_for("next", (R, SHARED)))
    acts = (store.release, store.renew, store.check, store.upgrade, store.downgrade)
    for act in acts:
        with pytest.raises(LockLost, match="its lease expired"):
            act(dead_writer.id, dead_writer.token)
    with pytest.raises(UnknownName):
        store.hand_over(dead_writer.id, "another", "")


def test_an_operator_ends_a_lock_delay_by_breaking_the_lock(store: LockStore, dead_writer: Lock) -> None:
    ticket = queued(store, request_for("next", (R, EXCLUSIVE), lease=LONG))
    broken = store.break_lock(dead_writer.id, "its machine is switched off", "operator")
    assert (broken.id, broken.token) == (dead_writer.id, dead_writer.token)
    (lock,) = store.take_turn(ticket) or ()
    assert lock.token > dead_writer.token
    assert events(store) == ["grant", "break", "grant"]


def test_a_resource_is_not_forgotten_during_a_lock_delay(store: LockStore, dead_writer: Lock) -> None:
    with pytest.raises(Refused, match="held or has waiters"):
        store.forget_resource(dead_writer.resource)
    assert store.resources() == [R]


@pytest.mark.parametrize("way", ["at once", "by waiting", "by entering"])
def test_a_reader_that_became_a_writer_leaves_the_lock_delay_of_one(store: LockStore, way: str) -> None:
    """The mode at its death counts, not the granted one."""
    asked = request_for("dead", (R, SHARED), lease=LONG, lock_delay=DELAY, reentrant=way == "by entering")
    if way == "by waiting":
        (ahead,) = store.acquire(request_for("ahead", (R, EXCLUSIVE), lease=LONG))
        ticket = queued(store, asked)
        store.release(ahead.id, ahead.token)
        (reading,) = store.take_turn(ticket) or ()
    else:
        (reading,) = store.acquire(asked)
    if way == "by entering":
        (writing,) = store.acquire(request_for("dead", (R, EXCLUSIVE), lease=LONG, reentrant=True))
    else:
        writing = store.upgrade(reading.id, reading.token)
    let_expire(store, writing)
    with pytest.raises(LockRefused) as refusal:
        store.acquire(request_for("next", (R, SHARED)))
    assert [each.lock_id for each in refusal.value.blockers] == [reading.id]


def test_a_writer_that_was_downgraded_leaves_no_lock_delay(store: LockStore) -> None:
    (writing,) = store.acquire(request_for("dead", (R, EXCLUSIVE), lease=LONG, lock_delay=DELAY))
    let_expire(store, store.downgrade(writing.id, writing.token))
    (lock,) = store.acquire(request_for("next", (R, EXCLUSIVE)))
    assert lock.token > writing.token
    assert events(store) == ["grant", "downgrade", "expire", "grant"]


# ------------------------------------------------------------------ re-entrance and the queue


def test_a_reader_waits_to_enter_as_a_writer_until_the_others_are_gone(store: LockStore) -> None:
    (mine,) = store.acquire(request_for("a", (R, SHARED), reentrant=True))
    (other,) = store.acquire(request_for("b", (R, SHARED)))
    ticket = queued(store, request_for("a", (R, EXCLUSIVE), reentrant=True))
    assert store.take_turn(ticket) is None
    store.release(other.id, other.token)
    (lock,) = store.take_turn(ticket) or ()
    assert (lock.id, lock.mode, lock.count) == (mine.id, EXCLUSIVE, 2)
    assert not store.waiters(R)
    assert events(store) == ["grant", "grant", "release", "upgrade", "enter"]


def test_a_collection_enters_what_the_client_holds_and_is_granted_the_rest(store: LockStore) -> None:
    (mine,) = store.acquire(request_for("a", (R, EXCLUSIVE), reentrant=True, lease=LONG))
    both = store.acquire(request_for("a", (R, SHARED), (OTHER, EXCLUSIVE), reentrant=True, lease=HOUR))
    assert [(each.resource, each.mode, each.count) for each in both] == [(R, EXCLUSIVE, 2), (OTHER, EXCLUSIVE, 1)]
    assert (both[0].id, both[0].token, both[0].lease) == (mine.id, mine.token, HOUR)
    assert (events(store), events(store, OTHER)) == (["grant", "enter"], ["grant"])


def test_one_hold_of_two_is_released_without_letting_a_waiter_in(store: LockStore) -> None:
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE), reentrant=True))
    store.acquire(request_for("a", (R, EXCLUSIVE), reentrant=True))
    ticket = queued(store, request_for("b", (R, SHARED), lease=LONG))
    store.release(lock.id, lock.token)
    assert store.take_turn(ticket) is None
    store.release(lock.id, lock.token)
    assert store.take_turn(ticket)
    assert events(store) == ["grant", "enter", "leave", "release", "grant"]


# ------------------------------------------------------------------ expiry, repeats and the queue


def test_an_expired_lock_goes_to_the_first_waiters_in_one_step(store: LockStore) -> None:
    (dead,) = store.acquire(request_for("dead", (R, EXCLUSIVE), lease=LONG))
    readers = [queued(store, request_for(name, (R, SHARED), lease=LONG)) for name in ("b", "c")]
    writer = queued(store, request_for("d", (R, EXCLUSIVE), lease=LONG))
    let_expire(store, dead)
    store.expire()
    granted = [lock for ticket in readers for lock in store.take_turn(ticket) or ()]
    assert [(each.client, each.token - dead.token) for each in granted] == [("b", 1), ("c", 2)]
    assert store.take_turn(writer) is None
    assert events(store) == ["grant", "expire", "grant", "grant"]
    (expired,) = history_of(store, event="expire")
    assert (expired.client, expired.token, expired.before, expired.after) == (
        "dead",
        dead.token,
        "exclusive",
        "expired",
    )
    assert (expired.principal, expired.reason) == (dead.principal, "the lease expired")


def test_an_expired_lock_that_a_new_waiter_finds_is_recorded(store: LockStore) -> None:
    """Even if the waiter keeps waiting, for another holder."""
    (dead,) = store.acquire(request_for("dead", (R, SHARED), lease=LONG))
    store.acquire(request_for("alive", (R, SHARED)))
    let_expire(store, dead)
    queued(store, request_for("next", (R, EXCLUSIVE)))
    store.expire()
    assert events(store) == ["grant", "grant", "expire"]


def test_a_request_repeated_by_another_process_after_its_turn_came_has_the_whole_lease(
    store: LockStore, gates: Gates
) -> None:
    """Whether it was granted provisionally, or only now."""
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    queued(store, request_for("b", (R, EXCLUSIVE), lease=HOUR, request_id="the same"))
    store.release(lock.id, lock.token)
    again = gates.open().locks.acquire("b", R, "write", lease=HOUR, wait=30, request_id="the same")
    assert (again.token, again.lease) == (lock.token + 1, HOUR)
    (kept,) = store.list(LockFilter(resource=R))
    assert (kept.id, (kept.expires_in or 0) > HOUR / 2) == (again.id, True)
    assert not store.waiters(R)
    assert events(store) == ["grant", "release", "grant"]


def test_a_repeat_for_another_mode_or_client_changes_nothing(store: LockStore) -> None:
    request = request_for("a", (R, SHARED))
    (lock,) = store.acquire(request)
    with pytest.raises(BadValue, match="request id"):
        store.acquire(replace(request_for("a", (R, EXCLUSIVE)), id=request.id))
    assert [(each.id, each.mode) for each in store.list(LockFilter())] == [(lock.id, Mode.SHARED)]
    assert events(store) == ["grant"]


def test_an_override_is_recorded_with_its_reason(store: LockStore, kind: str) -> None:
    if kind == HTTP:  # There the API token determines the caller; see test_owners.py.
        return
    asked = replace(request_for("a", (R, EXCLUSIVE), reentrant=True), principal="ann")
    with acting(Actor("ann")):
        (lock,) = store.acquire(asked)
    chief = Actor("chief", "ann is away")
    with acting(chief):
        again = replace(asked, id=f"{asked.id} again", principal="chief", override=chief.override)
        (entered,) = store.acquire(again)
        assert (entered.id, entered.count, entered.principal) == (lock.id, 2, "ann")
        store.release(lock.id, lock.token)
        store.release(lock.id, lock.token)
    told = [(each.event, each.principal, each.reason) for each in reversed(history_of(store, resource=R))]
    assert told == [
        ("grant", "ann", ""),
        *((event, "chief", "override: ann is away") for event in ("enter", "leave", "release")),
    ]


def test_a_lock_whose_lease_expires_while_it_is_granted_again_is_held(
    store: LockStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow network or machine may use up the rest of the lease between the decision and the write."""
    request = request_for("slow", (R, EXCLUSIVE), lease=LONG, request_id="its own")
    (lock,) = store.acquire(request)
    store.renew(lock.id, lock.token, 1.0)
    ends, confirm = steady() + 1.0, LockDraft.confirm

    def confirm_slowly(draft: LockDraft, lock: Lock) -> Lock:
        until(lambda: steady() > ends, "the lease to end")
        return confirm(draft, lock)

    monkeypatch.setattr(LockDraft, "confirm", confirm_slowly)
    (again,) = store.acquire(request)
    assert again.alive
    assert store.check(again.id, again.token).alive


def test_a_request_is_repeated_after_its_client_has_entered_the_lock_again(store: LockStore) -> None:
    first = request_for("a", (R, SHARED), request_id="the first")
    (lock,) = store.acquire(first)
    store.acquire(request_for("a", (R, SHARED), (OTHER, SHARED), request_id="the second", reentrant=True))
    (again,) = store.acquire(first)
    assert (again.id, again.token, again.count) == (lock.id, lock.token, 2)

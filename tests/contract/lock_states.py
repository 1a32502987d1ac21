"""Bring a real lock into any state of the table, and fire any event at it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from headgate import HeadgateError, Lock, LockRefused, UnknownName
from headgate.core.filters import LockFilter
from headgate.core.locks.model import Request
from headgate.core.locks.tickets import Ticket
from headgate.core.tables.states import LOCK
from headgate.stores.ports.locks import LockStore
from tests.contract.over_http import OpenLocks, kept_id
from tests.contract.steps import EXCLUSIVE, LONG, SHARED, SHORT, history_of, request_for
from tests.waiting import until

OTHER = "somebody else"
#: A waiter that is left to die is given up after this time: long enough to be seen waiting before.
WAITER_LEASE_MICROSECONDS = 1_500_000

#: How states are reached: a lock is held forever, or by a lease.
STATES = {
    **{state: (state, None) for state in LOCK.states},
    "shared by a lease": ("shared", LONG),
    "exclusive by a lease": ("exclusive", LONG),
}


@dataclass
class Case:
    """One lock, in any state, and its store."""

    store: LockStore
    #: A separate session, for a client that is to die.
    doomed: OpenLocks
    request: Request
    lock: Lock | None = None
    ticket: Ticket | None = None
    #: The lock of another client that blocks it.
    obstacle: Lock | None = None
    #: Whether this client will be left to die.
    mortal: bool = False
    outcome: HeadgateError | None = None

    @property
    def resource(self) -> str:
        return self.request.wants[0].resource

    @property
    def actor(self) -> LockStore:
        """Where the client of this lock acts itself."""
        return self.doomed.locks if self.mortal else self.store

    @property
    def lock_id(self) -> str:
        """The lock's id, or the one that it would have received."""
        if self.lock:
            return self.lock.id
        return replace(self.request, id=kept_id(self.store, self.request)).lock_id(self.store.tag, self.resource)

    @property
    def token(self) -> int:
        return self.lock.token if self.lock else 1


def new_case(url: str, store: LockStore, state: str, event: str, resource: str = "file:///d/1") -> Case:
    """A case on its way to that state, in which that event will be fired."""
    name, lease = STATES[state]
    dying = (name, event) in {("shared", "expire"), ("exclusive", "expire"), ("waiting", "lapse")}
    mode = EXCLUSIVE if "exclusive" in (name, event) or event == "downgrade" else SHARED
    if name in ("shared", "exclusive"):
        mode = EXCLUSIVE if name == "exclusive" else SHARED
    request = request_for("the client", (resource, mode), lease=SHORT if dying or name == "expired" else lease)
    case = Case(store, OpenLocks(url), request, mortal=dying or name == "expired")
    BRING[name](case, event)
    return case


def obstruct(case: Case) -> None:
    """Another client holds the resource."""
    (case.obstacle,) = case.store.acquire(request_for(OTHER, (case.resource, EXCLUSIVE)))


def clear(case: Case) -> None:
    """The other client has left."""
    if case.obstacle:
        case.store.release(case.obstacle.id, case.obstacle.token)
        case.obstacle = None


# ------------------------------------------------------------------ states


def bring_new(case: Case, event: str) -> None:
    if event in ("refuse", "wait"):
        obstruct(case)


def bring_refused(case: Case, event: str) -> None:
    obstruct(case)
    with pytest.raises(LockRefused):
        case.store.acquire(case.request)
    if event not in ("refuse", "wait"):
        clear(case)


def bring_waiting(case: Case, event: str) -> None:
    obstruct(case)
    ticket = case.actor.queue_up(case.request)
    assert isinstance(ticket, Ticket)
    case.ticket = ticket


def bring_withdrawn(case: Case, event: str) -> None:
    bring_waiting(case, "")
    assert case.ticket
    case.store.withdraw(case.ticket)
    if event not in ("refuse", "wait"):
        clear(case)


def bring_held(case: Case, event: str) -> None:
    (case.lock,) = case.actor.acquire(case.request)
    if event == "leave":
        again = replace(case.request, id=case.request.id + " again", reentrant=True)
        (case.lock,) = case.actor.acquire(again)


def bring_released(case: Case, event: str) -> None:
    bring_held(case, "")
    case.store.release(case.lock_id, case.token)
    bring_new(case, event)


def bring_expired(case: Case, event: str) -> None:
    bring_held(case, "")
    fire_expire(case)
    case.mortal = False
    bring_new(case, event)


def bring_broken(case: Case, event: str) -> None:
    bring_held(case, "")
    case.store.break_lock(case.lock_id, "the disk is full", "operator")
    bring_new(case, event)


BRING: dict[str, Callable[[Case, str], None]] = {
    "new": bring_new,
    "refused": bring_refused,
    "waiting": bring_waiting,
    "withdrawn": bring_withdrawn,
    "shared": bring_held,
    "exclusive": bring_held,
    "released": bring_released,
    "expired": bring_expired,
    "broken": bring_broken,
}


# ------------------------------------------------------------------ events


def fire(case: Case, event: str) -> None:
    """Perform the action of the event; a refusal is kept as the outcome."""
    try:
        FIRE[event](case)
    except HeadgateError as error:
        case.outcome = error


def fire_grant(case: Case) -> None:
    if case.ticket and is_waiting(case):
        clear(case)  # A store may grant it directly, or leave it to be acquired.
        grant = case.actor.take_turn(case.ticket)
        assert grant, "it is this ticket's turn"
        (case.lock,) = grant
    else:
        (case.lock,) = case.actor.acquire(case.request)


def fire_refuse(case: Case) -> None:
    if case.ticket and is_waiting(case):
        (case.lock,) = case.actor.give_up(case.ticket)
    else:
        (case.lock,) = case.store.acquire(case.request)


def fire_wait(case: Case) -> None:
    result = case.store.queue_up(case.request)
    if isinstance(result, Ticket):
        case.ticket = result
    else:
        (case.lock,) = result


def fire_withdraw(case: Case) -> None:
    # A ticket releases its grants; one that was never issued has nothing to release.
    stranger = Ticket(1_000_000, request_for("the client", (case.resource, SHARED)))
    case.store.withdraw(case.ticket or stranger)


def fire_lapse(case: Case) -> None:
    case.doomed.close()
    if is_waiting(case):
        until(lambda: not is_waiting(case), "the dead waiter to leave the queue")


def fire_enter(case: Case) -> None:
    again = replace(case.request, id=case.request.id + " once more", reentrant=True)
    (case.lock,) = case.store.acquire(again)


def fire_upgrade(case: Case) -> None:
    case.lock = case.store.upgrade(case.lock_id, case.token)


def fire_downgrade(case: Case) -> None:
    case.lock = case.store.downgrade(case.lock_id, case.token)


def fire_release(case: Case) -> None:
    case.store.release(case.lock_id, case.token)


def fire_expire(case: Case) -> None:
    deadline = time.monotonic() + 30
    while case.mortal and case.lock and is_held(case):
        assert time.monotonic() < deadline, "the lease does not run out"
        time.sleep(0.01)
    case.store.expire()


def fire_break(case: Case) -> None:
    case.store.break_lock(case.lock_id, "the disk is full", "operator")


def fire_hand_over(case: Case) -> None:
    # To any other principal, so that it can be checked as before.
    case.lock = case.store.hand_over(case.lock_id, case.lock.principal if case.lock else "somebody", "")


FIRE: dict[str, Callable[[Case], None]] = {
    "grant": fire_grant,
    "refuse": fire_refuse,
    "wait": fire_wait,
    "withdraw": fire_withdraw,
    "lapse": fire_lapse,
    "enter": fire_enter,
    "upgrade": fire_upgrade,
    "downgrade": fire_downgrade,
    "leave": fire_release,
    "hand-over": fire_hand_over,
    "release": fire_release,
    "expire": fire_expire,
    "break": fire_break,
}


# ------------------------------------------------------------------ looking


def is_waiting(case: Case) -> bool:
    return any(waiter.client == case.request.client for waiter in case.store.waiters(case.resource))


def is_held(case: Case) -> bool:
    try:
        case.store.get(case.lock_id)
    except UnknownName:
        return False
    return True


def state_of(case: Case) -> str:
    """Its current state, as far as the store shows it: a lock that left without a trace was withdrawn."""
    held = [lock for lock in case.store.list(LockFilter(resource=case.resource)) if lock.id == case.lock_id]
    if held:
        return held[0].mode
    if is_waiting(case):
        return "waiting"
    entries = history_of(case.store, lock_id=case.lock_id)
    return entries[0].after if entries else "withdrawn"

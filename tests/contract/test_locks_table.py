"""Every state x every event: it has exactly the row's effects, or nothing changes at all."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate import BadValue, Gate, Lock, LockLost, LockRefused, TransitionRefused, UnknownName
from headgate.core.filters import LockFilter
from headgate.core.tables.machine import Also, By, Transition
from headgate.core.tables.states import LOCK
from headgate.stores.ports.locks import LockStore
from headgate.stores.sql.locks import changes as lock_changes
from headgate.stores.sql.locks import turns as queueing
from tests.contract.lock_states import (
    FIRE,
    OTHER,
    STATES,
    WAITER_LEASE_MICROSECONDS,
    Case,
    fire,
    new_case,
    obstruct,
    state_of,
)
from tests.contract.queue_steps import row_name
from tests.contract.steps import EXCLUSIVE, LONG, SHARED, SHORT, Everything, Gates, everything, history_of, request_for
from tests.waiting import until

#: Events by which a client requests a lock; in an ended state they start again.
ASKING = {"grant", "refuse", "wait", "enter"}
HELD = {"shared", "exclusive"}
#: An ended state, for the events that a row of `new` handles.
PAIRS = [(state, event) for state in STATES for event in LOCK.events]
ROWS = {(row.source, row.event) for row in LOCK.rows}
LEGAL = [(state, event) for state, event in PAIRS if (STATES[state][0], event) in ROWS]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]
UNCHANGING = [(state, event) for state, event in ILLEGAL if event not in ASKING or STATES[state][0] in HELD]
NEW_LIFE = [pair for pair in ILLEGAL if pair not in UNCHANGING and STATES[pair[0]][0] not in ("new", "waiting")]
HOLDERS_EVENTS = sorted({row.event for row in LOCK.rows if row.by is By.HOLDER})


@pytest.fixture
def cases() -> Iterator[list[Case]]:
    made: list[Case] = []
    yield made
    for case in made:
        case.doomed.close()


@pytest.fixture(autouse=True)
def _the_dead_are_noticed_soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a test lets a waiter die, a database gives it up after a second instead of ten."""
    if "lapse" in request.node.name or "every_row" in request.node.name:
        for module in (lock_changes, queueing):
            monkeypatch.setattr(module, "WAITER_LEASE", WAITER_LEASE_MICROSECONDS)


def test_there_is_an_act_for_every_event_of_the_table() -> None:
    assert set(FIRE) == set(LOCK.events)
    assert {state for state, _ in STATES.values()} == set(LOCK.states)


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_an_event_of_the_table_has_exactly_the_effects_of_its_row(
    store_url: str, store: LockStore, cases: list[Case], state: str, event: str
) -> None:
    case = new_case(store_url, store, state, event)
    cases.append(case)
    take_row(case, STATES[state][0], event)


@pytest.mark.parametrize(("state", "event"), UNCHANGING)
def test_an_event_that_the_table_does_not_have_changes_nothing(
    store_url: str, store: LockStore, cases: list[Case], state: str, event: str
) -> None:
    case = new_case(store_url, store, state, event)
    cases.append(case)
    old, before = case.lock, everything(store)
    fire(case, event)
    assert everything(store) == before
    if event in ASKING:
        assert case.lock
        assert old
        assert (case.lock.id, case.lock.token) == (old.id, old.token), "the same request gives the same grant"
    elif STATES[state][0] in HELD and event in ("upgrade", "downgrade"):
        assert isinstance(case.outcome, TransitionRefused)
        assert case.outcome.allowed == LOCK.allowed(STATES[state][0])
    elif event in ("break", "hand-over"):
        assert isinstance(case.outcome, UnknownName)
    elif event in HOLDERS_EVENTS:
        assert isinstance(case.outcome, LockLost)


@pytest.mark.parametrize(("state", "event"), NEW_LIFE)
def test_an_ended_lock_is_never_revived(
    store_url: str, store: LockStore, cases: list[Case], state: str, event: str
) -> None:
    """The same request, repeated after its end, starts again: its earlier grant stays lost."""
    case = new_case(store_url, store, state, event)
    cases.append(case)
    old = case.lock
    fire(case, event)
    if old is not None:
        with pytest.raises(LockLost):
            store.check(old.id, old.token)
        assert all(lock.token > old.token for lock in store.list(LockFilter()))
    assert state_of(case) == {"refuse": "refused", "wait": "waiting"}.get(event, case.request.wants[0].mode)


def test_a_repeated_request_keeps_its_queue_position(store_url: str, store: LockStore, cases: list[Case]) -> None:
    """If the answer to the first request was lost, it does not block itself."""
    case = new_case(store_url, store, "waiting", "wait")
    cases.append(case)
    ticket, before = case.ticket, everything(store)
    fire(case, "wait")
    assert case.ticket == ticket
    assert everything(store) == before


def test_a_reentrant_acquire_of_a_free_lock_is_a_plain_grant(
    store_url: str, store: LockStore, cases: list[Case]
) -> None:
    case = new_case(store_url, store, "new", "enter")
    cases.append(case)
    fire(case, "enter")
    assert case.lock
    assert case.lock.count == 1
    assert [entry.event for entry in history_of(store)] == ["grant"]


def test_every_row_of_the_table_is_taken(
    store_url: str, store: LockStore, cases: list[Case], record_property: Callable[[str, Any], None]
) -> None:
    """Transition coverage from the store's own records: each row leaves a trace."""
    for number, row in enumerate(LOCK.rows):
        case = new_case(store_url, store, row.source, row.event, f"row:{number}")
        cases.append(case)
        if row.source in ("new", "waiting") and row.target in HELD:
            # The wanted mode decides between the rows of one event.
            case.doomed.close()
            case = case_wanting(store_url, store, row, f"row:{number} again")
            cases.append(case)
        take_row(case, row.source, row.event)
        record_property("transition", row_name(LOCK, row))
    entries = history_of(store, limit=10_000)
    taken = {(entry.before, entry.event, entry.after) for entry in entries}
    telling = {(row.source, row.event, row.target) for row in LOCK.rows if Also.RECORD_HISTORY in row.also}
    assert taken == telling


def case_wanting(url: str, store: LockStore, row: Transition, resource: str) -> Case:
    case = new_case(url, store, "new", "grant", resource)
    mode = EXCLUSIVE if row.target == "exclusive" else SHARED
    case.request = request_for("the client", (resource, mode))
    if row.source == "waiting":
        obstruct(case)
        ticket = store.queue_up(case.request)
        assert not isinstance(ticket, tuple)
        case.ticket = ticket
    return case


def take_row(case: Case, state: str, event: str) -> None:
    """Fire, and compare the store's entire content with the row."""
    old, before = case.lock, everything(case.store)
    fire(case, event)
    after = everything(case.store)
    (row,) = [row for row in LOCK.find(state, event) if not row.when or row.target == case.request.wants[0].mode]
    assert isinstance(case.outcome, LockRefused) is (row.target == "refused"), case.outcome
    assert case.outcome is None or row.target == "refused"
    assert state_of(case) == row.target
    check_token_and_count(row, old, case, before)
    check_history(row, case, before, after)
    check_queue(row, case, before, after)
    if Also.FREE_RESOURCE in row.also:
        case.store.acquire(request_for("the next", (case.resource, EXCLUSIVE)))


def check_token_and_count(row: Transition, old: Lock | None, case: Case, before: Everything) -> None:
    if row.target not in HELD:
        return
    assert case.lock
    now = case.store.get(case.lock.id)
    assert (now.token, now.mode, now.count) == (case.lock.token, case.lock.mode, row_count(row, old))
    if Also.NEW_TOKEN in row.also:
        assert all(now.token > entry.token for entry in before.history if entry.resource == case.resource)
    else:
        assert old
        assert now.token == old.token


def row_count(row: Transition, old: Lock | None) -> int:
    if Also.COUNT_HOLD not in row.also:
        return 1 if old is None else old.count
    assert old
    return old.count + (1 if row.event == "enter" else -1)


def check_history(row: Transition, case: Case, before: Everything, after: Everything) -> None:
    known = {entry.id for entry in before.history}
    more = [entry for entry in after.history if entry.id not in known and entry.client != OTHER]
    if Also.RECORD_HISTORY not in row.also:
        assert more == []
        return
    (entry,) = more
    assert (entry.noun, entry.event, entry.before, entry.after) == ("lock", row.event, row.source, row.target)
    assert (entry.resource, entry.client, entry.lock_id) == (case.resource, case.request.client, case.lock_id)
    assert entry.count == 1
    if case.lock:
        assert entry.token == case.lock.token
    if row.by is By.OPERATOR:
        assert "the disk is full" in entry.reason
        assert "operator" in entry.reason


def check_queue(row: Transition, case: Case, before: Everything, after: Everything) -> None:
    change = (Also.JOIN_QUEUE in row.also) - (Also.LEAVE_QUEUE in row.also)
    queues = [[waiter for waiter in dump.waiters if waiter.resource == case.resource] for dump in (before, after)]
    assert len(queues[1]) - len(queues[0]) == change


# ------------------------------------------------------------------ the wrong caller


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE])
@pytest.mark.parametrize("wrong", ["an older token", "a newer token", "an id that never was", "another lock's id"])
def test_a_guarded_row_refuses_the_wrong_caller(gate: Gate, mode: str, wrong: str) -> None:
    gate.locks.release(gate.locks.acquire("a", "r", mode))
    lock = gate.locks.acquire("a", "r", mode, lease=LONG)
    other = gate.locks.acquire("b", "other", mode)
    gate.locks.renew(lock)
    lock_id, token = {
        "an older token": (lock.id, lock.token - 1),
        "a newer token": (lock.id, lock.token + 1),
        "an id that never was": (lock.id[:-12] + "aaaaaaaaaaaa", lock.token),
        "another lock's id": (other.id, other.token + 5),
    }[wrong]
    assert_lost_and_unchanged(gate, lock_id, token)


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE])
def test_a_guarded_row_refuses_the_holder_whose_lease_has_expired(gates: Gates, mode: str) -> None:
    doomed, gate = gates.open(), gates.open()
    lock = doomed.locks.acquire("a", "r", mode, lease=SHORT)
    doomed.close()
    until(lambda: not gate.locks.list(resource="r"), "the lease to run out")
    assert_lost_and_unchanged(gate, lock.id, lock.token)
    gate.locks.expire()
    assert_lost_and_unchanged(gate, lock.id, lock.token)


def test_nobody_expires_a_lease_that_is_alive(gate: Gate) -> None:
    gate.locks.acquire("a", "r", "read", lease=LONG)
    gate.locks.acquire("a", "s", "write", lease=LONG)
    gate.locks.acquire("a", "t", "write")
    before = everything(gate)
    assert gate.locks.expire() == 0
    assert everything(gate) == before


def test_an_operator_without_a_reason_breaks_nothing(gate: Gate) -> None:
    lock = gate.locks.acquire("a", "r", "read")
    before = everything(gate)
    for reason in ("", "  ", None, 7, "line\nbreak", "x" * 1001):
        with pytest.raises(BadValue, match="reason"):
            gate.locks.break_lock(lock.id, reason=reason)  # type: ignore[arg-type]
    assert everything(gate) == before


def test_another_client_does_not_enter_a_lock(gate: Gate) -> None:
    lock = gate.locks.acquire("a", "r", "read", reentrant=True)
    other = gate.locks.acquire("b", "r", "read", reentrant=True)
    assert other.id != lock.id
    assert (gate.locks.check(lock).count, other.count) == (1, 1)


def assert_lost_and_unchanged(gate: Gate, lock_id: str, token: int) -> None:
    """Everything that a holder may do is refused to others."""
    before = everything(gate)
    locks = gate.locks
    for act in (locks.release, locks.renew, locks.check, locks.upgrade, locks.downgrade):
        with pytest.raises(LockLost) as lost:
            act(lock_id, token)
        assert (lost.value.lock_id, lost.value.token) == (lock_id, token)
        assert lock_id in str(lost.value)
    assert everything(gate) == before


# ------------------------------------------------------------------ changed by others meanwhile


def released(gate: Gate, lock: Lock) -> None:
    gate.locks.release(lock)


def released_and_taken_by_another(gate: Gate, lock: Lock) -> None:
    gate.locks.release(lock)
    gate.locks.acquire("another", lock.resource, lock.mode)


def released_and_granted_again(gate: Gate, lock: Lock) -> None:
    """The same request has the same id: only the token distinguishes the two grants."""
    gate.locks.release(lock)
    again = gate.locks.acquire("a", lock.resource, lock.mode, request_id="the same")
    assert again.id == lock.id
    assert again.token > lock.token


def broken(gate: Gate, lock: Lock) -> None:
    gate.locks.break_lock(lock.id, reason="it hangs")


def upgraded(gate: Gate, lock: Lock) -> None:
    if lock.mode == EXCLUSIVE:
        gate.locks.downgrade(lock)
    gate.locks.upgrade(lock)


def upgraded_and_back(gate: Gate, lock: Lock) -> None:
    upgraded(gate, lock)
    gate.locks.downgrade(gate.locks.get(lock.id))


MEANWHILE = [released, released_and_taken_by_another, released_and_granted_again, broken, upgraded, upgraded_and_back]


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE])
@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda move: move.__name__)
def test_a_stale_token_is_refused_and_changes_nothing(gates: Gates, mode: str, meanwhile: object) -> None:
    gate, elsewhere = gates.open(), gates.open()
    lock = gate.locks.acquire("a", "r", mode, request_id="the same")
    assert callable(meanwhile)
    meanwhile(elsewhere, lock)
    assert_lost_and_unchanged(gate, lock.id, lock.token)


def test_a_lost_lock_says_how_it_ended(gate: Gate) -> None:
    lock = gate.locks.acquire("a", "r", "write")
    gate.locks.break_lock(lock.id, reason="node went down", by="ops")
    with pytest.raises(LockLost, match=r"it was broken .* UTC: ops: node went down"):
        gate.locks.check(lock)
    other = gate.locks.acquire("a", "r", "write")
    gate.locks.release(other)
    with pytest.raises(LockLost, match="it was released"):
        gate.locks.check(other)
    with pytest.raises(LockLost, match="the token does not match"):
        gate.locks.check(gate.locks.acquire("a", "r", "write").id, 1)


def test_breaking_twice_finds_nothing_to_break(gate: Gate) -> None:
    lock = gate.locks.acquire("a", "r", "write")
    gate.locks.break_lock(lock.id, reason="it hangs")
    before = everything(gate)
    with pytest.raises(UnknownName, match=lock.id):
        gate.locks.break_lock(lock.id, reason="it hangs")
    assert everything(gate) == before

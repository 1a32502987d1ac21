"""The tables are executed: a changed row or cell changes the decision, and the changes contain all of its effects."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import (
    BadValue,
    HeadgateError,
    TransitionRefused,
)
from headgate.core.locks import work as lock_work
from headgate.core.locks.model import COMPATIBLE, Mode, Want
from headgate.core.locks.rules import LOCK_RULES, summary
from headgate.core.locks.snapshot import (
    ChangeLock,
    CountRefusal,
    EndLock,
    JoinQueue,
    LeaveQueue,
    LockOutcome,
    LockRecord,
    LockSnapshot,
    ResourceSnapshot,
)
from headgate.core.tables.machine import Also, By, Transition
from headgate.core.tables.states import LOCK
from tests.contract.lock_reference import replay
from tests.unit.lock_snapshots import (
    EXCLUSIVE,
    SHARED,
    TAG,
    R,
    S,
    ask,
    cell,
    holding,
    kinds,
    lock_of,
    of,
    records,
    snap,
    waiting,
    with_row,
    without,
)

# ------------------------------------------------------------------ the tables are executed


def setting(row: Transition) -> tuple[LockSnapshot, Callable[[LockSnapshot], LockOutcome[object]]]:
    """A snapshot in which the row is taken, and the command that takes it."""
    mode = Mode(row.target) if row.target in set(Mode) else EXCLUSIVE
    request, mine = ask("ann", (R, mode)), lock_of("ann", Mode(row.source) if row.source in set(Mode) else mode)
    other = lock_of("ben")
    queue = (waiting("ann", mode),)
    leased = replace(mine, lease=1.0, expires_in=-1.0)
    again = replace(request, id="again", reentrant=True, wants=(Want(R, mine.mode),))
    found: dict[tuple[str, str], tuple[ResourceSnapshot, Callable[[LockSnapshot], LockOutcome[object]]]] = {
        ("new", "grant"): (holding(), lambda s: lock_work.acquire(s, request)),
        ("new", "refuse"): (holding(other), lambda s: lock_work.acquire(s, request)),
        ("new", "wait"): (holding(other), lambda s: lock_work.queue_up(s, request)),
        ("waiting", "grant"): (holding(queue=queue), lambda s: lock_work.take_turn(s, request, 1)),
        ("waiting", "refuse"): (holding(other, queue=queue), lambda s: lock_work.give_up(s, request, 1)),
        ("waiting", "withdraw"): (holding(other, queue=queue), lambda s: lock_work.withdraw(s, request)),
        ("waiting", "lapse"): (holding(other, queue=(waiting("ann", mode, alive=False),)), lock_work.expire),
        ("held", "enter"): (holding(mine), lambda s: lock_work.acquire(s, again)),
        ("held", "leave"): (holding(replace(mine, count=2)), lambda s: lock_work.release(s, mine.id, 1)),
        ("held", "upgrade"): (holding(mine), lambda s: lock_work.upgrade(s, mine.id, 1)),
        ("held", "downgrade"): (holding(mine), lambda s: lock_work.downgrade(s, mine.id, 1)),
        ("held", "hand-over"): (holding(mine), lambda s: lock_work.hand_over(s, mine.id, "yours", "")),
        ("held", "release"): (holding(mine), lambda s: lock_work.release(s, mine.id, 1)),
        ("held", "break"): (holding(mine), lambda s: lock_work.break_lock(s, mine.id, "why", "ops")),
        ("held", "expire"): (ResourceSnapshot(R, 1, known=True, expired=(leased,)), lock_work.expire),
    }
    seen, unit = found["held" if row.source in set(Mode) else row.source, row.event]
    return snap(seen), unit


@pytest.mark.parametrize("row", LOCK.rows, ids=lambda row: row.name)
def test_a_row_has_exactly_its_effects(row: Transition) -> None:
    seen, unit = setting(row)
    outcome = unit(seen)
    before, after = seen.resources[R], outcome.resources[R]
    told = [r for r in outcome.changes if isinstance(r, LockRecord)] + [c.record for c in of(outcome, CountRefusal)]  # type: ignore[union-attr]
    wanted = [(row.source, row.event, row.target)] if Also.RECORD_HISTORY in row.also else []
    assert [(each.before, each.event, each.after) for each in told] == wanted
    assert (after.token > before.token) is (Also.NEW_TOKEN in row.also)
    assert bool(of(outcome, JoinQueue)) is (Also.JOIN_QUEUE in row.also)
    assert bool(of(outcome, LeaveQueue)) is (Also.LEAVE_QUEUE in row.also)
    assert bool(of(outcome, CountRefusal)) is (Also.COUNT_REFUSAL in row.also)
    counts = [abs(c.after.count - c.before.count) for c in outcome.changes if isinstance(c, ChangeLock)]
    assert (counts == [1]) is (Also.COUNT_HOLD in row.also)
    assert bool(of(outcome, EndLock)) is (Also.FREE_RESOURCE in row.also)


@pytest.mark.parametrize("row", LOCK.rows, ids=lambda row: row.name)
def test_without_its_row_an_event_does_not_happen(row: Transition) -> None:
    seen, unit = setting(row)
    rules = replace(LOCK_RULES, machine=replace(LOCK, rows=LOCK.rows))
    # All states must stay reachable, so the row is removed after the check.
    object.__setattr__(rules.machine, "rows", tuple(each for each in LOCK.rows if each is not row))
    if row.by is By.STORE:
        assert unit(replace(seen, rules=rules)).changes == ()
        return
    with pytest.raises(TransitionRefused):
        unit(replace(seen, rules=rules))


@pytest.mark.parametrize("mode", list(Mode))
def test_another_target_is_what_the_history_reports(mode: Mode) -> None:
    rules = with_row(mode, "release", target="returned")
    lock = lock_of("ann", mode)
    assert records(lock_work.release(snap(holding(lock), rules=rules), lock.id, 1)) == [
        ("ann", mode, "release", "returned")
    ]


def test_another_effect_is_what_happens() -> None:
    quiet = with_row("exclusive", "release", also=Also.FREE_RESOURCE)
    lock = lock_of("ann", token=3)
    assert kinds(lock_work.release(snap(holding(lock), rules=quiet), lock.id, 3)) == ["EndLock"]
    renumbered = with_row("exclusive", "downgrade", also=Also.NEW_TOKEN | Also.RECORD_HISTORY)
    outcome = lock_work.downgrade(snap(holding(lock, queue=(waiting("b", SHARED),)), rules=renumbered), lock.id, 3)
    assert outcome.result.token == 4
    assert outcome.wakes == (), "the queue is not served unless the row says so"


def test_an_operators_row_needs_a_reason() -> None:
    rules = with_row("exclusive", "release", by=By.OPERATOR)
    lock = lock_of("ann")
    with pytest.raises(BadValue, match="reason"):
        lock_work.release(snap(holding(lock), rules=rules), lock.id, 1)


def test_fast_paths_take_the_rows_whose_guard_and_effects_they_have_built_in() -> None:
    fast = LOCK_RULES.fast
    for rows in (fast.grant, fast.hand, fast.release, fast.expire, fast.wait):
        assert set(rows) == set(Mode)
    assert {row.target for row in fast.release.values()} == {"released"}
    assert set(without(("exclusive", "release")).fast.release) == {SHARED}
    assert set(with_row("shared", "release", also=Also.FREE_RESOURCE).fast.release) == {EXCLUSIVE}
    assert set(with_row("shared", "expire", by=By.OPERATOR).fast.expire) == {EXCLUSIVE}
    assert with_row("shared", "release", target="returned").fast.release[SHARED].target == "returned"


def test_a_summary_decides_only_when_it_is_certain() -> None:
    certain = {(w, s): (LOCK_RULES.joins(w, s), LOCK_RULES.is_blocked(w, s)) for w in Mode for s in Mode}
    assert certain == {
        (SHARED, SHARED): (True, False), (SHARED, EXCLUSIVE): (False, True),
        (EXCLUSIVE, SHARED): (False, True), (EXCLUSIVE, EXCLUSIVE): (False, True),
    }  # fmt: skip
    mixed = cell(EXCLUSIVE, SHARED, allowed=True)
    assert (mixed.joins(EXCLUSIVE, SHARED), mixed.is_blocked(EXCLUSIVE, SHARED)) == (False, False), "there may be both"
    assert (mixed.joins(EXCLUSIVE, EXCLUSIVE), mixed.is_blocked(EXCLUSIVE, EXCLUSIVE)) == (False, True)


def test_several_locks_are_summed_up_in_one_word() -> None:
    assert [summary(modes) for modes in ([], [SHARED], [EXCLUSIVE], [SHARED, EXCLUSIVE], [SHARED, SHARED])] == [
        SHARED, SHARED, EXCLUSIVE, SHARED, SHARED,
    ]  # fmt: skip


# ------------------------------------------------------------------ random commands

clients = st.sampled_from(["ann", "ben", "cam", "dan"])
modes = st.sampled_from(list(Mode))


@st.composite
def commands(draw: st.DrawFn) -> tuple[str, str, dict[str, Mode], bool]:
    kind = draw(
        st.sampled_from(["acquire", "queue_up", "take_turn", "give_up", "withdraw", "release", "expire", "upgrade"])
    )
    wants = draw(st.dictionaries(st.sampled_from([R, S]), modes, min_size=1))
    return kind, draw(clients), wants, draw(st.booleans())


@given(st.lists(commands(), max_size=25))
def test_for_any_command_the_table_holds_and_the_changes_are_complete(
    steps: list[tuple[str, str, dict[str, Mode], bool]],
) -> None:
    resources = {R: ResourceSnapshot(R), S: ResourceSnapshot(S)}
    for number, (kind, client, wants, reentrant) in enumerate(steps, 1):
        request = ask(client, *wants.items(), request_id=f"{client} {sorted(wants.items())}", reentrant=reentrant)
        held = next((lock for each in resources.values() for lock in each.locks if lock.client == client), None)
        units: dict[str, Callable[[LockSnapshot], LockOutcome[object]]] = {
            "acquire": lambda s, r=request: lock_work.acquire(s, r),  # type: ignore[misc]
            "queue_up": lambda s, r=request: lock_work.queue_up(s, r),  # type: ignore[misc]
            "take_turn": lambda s, r=request, n=number: lock_work.take_turn(s, r, n),  # type: ignore[misc]
            "give_up": lambda s, r=request, n=number: lock_work.give_up(s, r, n),  # type: ignore[misc]
            "withdraw": lambda s, r=request: lock_work.withdraw(s, r),  # type: ignore[misc]
            "expire": lock_work.expire,
            "release": lambda s, h=held: lock_work.release(s, h.id if h else "none", h.token if h else 0),  # type: ignore[misc]
            "upgrade": lambda s, h=held: lock_work.upgrade(s, h.id if h else "none", h.token if h else 0),  # type: ignore[misc]
        }
        try:
            outcome = units[kind](snap(*resources.values()))
        except HeadgateError:
            continue
        after = replay(resources, outcome, TAG, number)
        for uri, seen in outcome.resources.items():
            assert set(after[uri].locks) == set(seen.locks)
            assert len(after[uri].queue) == len(seen.queue)
            assert seen.token >= resources[uri].token
            tokens = [lock.token for lock in seen.locks]
            assert len(set(tokens)) == len(tokens)
            for one, other in itertools.permutations(seen.locks, 2):
                assert COMPATIBLE[one.mode, other.mode], "two locks that do not agree"
        resources = after

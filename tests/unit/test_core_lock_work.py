"""The units of work for locks: snapshot and command in, changes or an explained refusal out."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from headgate.core.access.owners import Actor, Override
from headgate.core.errors import (
    LockLost,
    LockRefused,
    NotOwner,
    TransitionRefused,
    UnknownName,
)
from headgate.core.locks import work as lock_work
from headgate.core.locks.draft import EXPIRED
from headgate.core.locks.model import Lock, Mode
from headgate.core.locks.snapshot import (
    ChangeLock,
    ConfirmLock,
    CountRefusal,
    EndLock,
    GrantLock,
    LeaveQueue,
    LengthenLease,
    LockOutcome,
    LockRecord,
    LockSnapshot,
    ResourceSnapshot,
)
from headgate.core.locks.work import LEASE_EXPIRED, NO_SUCH_LOCK
from headgate.core.tables.states import LOCK
from tests.unit.lock_snapshots import (
    EXCLUSIVE,
    NOW,
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
    without,
)

# ------------------------------------------------------------------ acquire


@pytest.mark.parametrize("mode", list(Mode))
def test_a_free_resource_is_granted_with_the_next_token(mode: Mode) -> None:
    request = ask("ann", (R, mode), lease=60.0, lock_delay=5.0, owner="host", note="why", principal="p")
    outcome = lock_work.acquire(snap(ResourceSnapshot(R, token=7)), request)
    (lock,) = outcome.result  # type: ignore[misc]
    assert lock == Lock(request.lock_id(TAG, R), R, "ann", mode, 8, NOW, 60.0, 60.0, 1, "host", "why", request.id, "p")
    assert kinds(outcome) == ["GrantLock", "LockRecord"]
    assert outcome.changes[0] == GrantLock(lock, 5.0)
    assert outcome.changes[1] == LockRecord("grant", R, "ann", lock.id, 8, "new", mode, "", "p")
    after = outcome.resources[R]
    assert (after.token, after.known, after.locks) == (8, True, (lock,))


def test_no_token_up_to_the_floor_is_issued() -> None:
    (lock,) = lock_work.acquire(snap(ResourceSnapshot(R, token=7), floor=100), ask("ann")).result  # type: ignore[misc]
    assert lock.token == 101


@pytest.mark.parametrize(("wanted", "held"), list(itertools.product(Mode, Mode)))
def test_every_cell_of_the_table_decides(wanted: Mode, held: Mode) -> None:
    for allowed in (True, False):
        rules = cell(wanted, held, allowed=allowed)
        outcome = lock_work.acquire(snap(holding(lock_of("ben", held)), rules=rules), ask("ann", (R, wanted)))
        assert isinstance(outcome.result, LockRefused) is not allowed
        assert bool(of(outcome, GrantLock)) is allowed


def test_a_refusal_names_every_blocker_and_changes_no_lock() -> None:
    held = (lock_of("ben", SHARED, 1), lock_of("cam", SHARED, 2))
    outcome = lock_work.acquire(snap(holding(*held, queue=(waiting("dan"),))), ask("ann"))
    assert isinstance(outcome.result, LockRefused)
    assert [(each.kind, each.client) for each in outcome.result.blockers] == [
        ("holder", "ben"), ("holder", "cam"), ("waiter", "dan"),
    ]  # fmt: skip
    (count,) = outcome.changes
    assert isinstance(count, CountRefusal)
    assert (count.record.before, count.record.event, count.record.after) == ("new", "refuse", "refused")
    assert count.record.reason == "requested exclusive, but ben holds shared"
    assert outcome.resources[R].locks == held


def test_a_collection_is_granted_whole_or_not_at_all() -> None:
    request = ask("ann", (R, EXCLUSIVE), (S, SHARED))
    free = lock_work.acquire(snap(ResourceSnapshot(R), ResourceSnapshot(S, token=4)), request)
    assert [(lock.resource, lock.token) for lock in free.result] == [(R, 1), (S, 5)]  # type: ignore[union-attr]
    busy = ResourceSnapshot(S, 4, locks=(lock_of("ben", EXCLUSIVE, 4, S),))
    refused = lock_work.acquire(snap(ResourceSnapshot(R), busy), request)
    assert isinstance(refused.result, LockRefused)
    assert kinds(refused) == ["CountRefusal"]


def test_a_running_claim_blocks_like_a_lock() -> None:
    claim = lock_of("worker", SHARED, note="job j runs on it")
    assert isinstance(lock_work.acquire(snap(holding(claims=(claim,))), ask("ann", (R, SHARED))).result, tuple)
    refused = lock_work.acquire(snap(holding(claims=(claim,))), ask("ann", (R, EXCLUSIVE))).result
    assert isinstance(refused, LockRefused)
    assert [each.kind for each in refused.blockers] == ["claim"]


def test_the_same_request_gets_the_same_grant_and_its_whole_lease() -> None:
    mine = lock_of("ann", lease=60.0, expires_in=12.0)
    outcome = lock_work.acquire(snap(holding(mine)), ask("ann"))
    assert outcome.result == (replace(mine, expires_in=60.0),)
    assert outcome.changes == (ConfirmLock(mine),)
    kept = lock_work.acquire(snap(holding(lock_of("ann"))), ask("ann"))
    assert (kept.result, kept.changes) == ((lock_of("ann"),), ())


def test_a_persistent_lock_that_was_handed_over_on_trial_is_confirmed() -> None:
    mine = lock_of("ann", lease=None, expires_in=20.0)
    outcome = lock_work.take_turn(snap(holding(mine)), ask("ann"), 1)
    assert outcome.result == (replace(mine, expires_in=None),)
    assert outcome.changes == (ConfirmLock(mine),)


# ------------------------------------------------------------------ expiry


def test_an_expired_lock_ends_before_anything_is_decided() -> None:
    dead = lock_of("ben", token=3, lease=1.0, expires_in=-1.0, principal="owner")
    outcome = lock_work.acquire(snap(ResourceSnapshot(R, 3, known=True, expired=(dead,))), ask("ann"))
    assert kinds(outcome) == ["EndLock", "LockRecord", "GrantLock", "LockRecord"]
    assert outcome.changes[0] == EndLock(dead, "expire")
    assert outcome.changes[1] == LockRecord("expire", R, "ben", dead.id, 3, "exclusive", "expired", EXPIRED, "owner")


def test_a_dead_lock_in_its_lock_delay_blocks() -> None:
    dead = lock_of("ben", lease=1.0, expires_in=-1.0)
    assert isinstance(lock_work.acquire(snap(holding(dead)), ask("ann")).result, LockRefused)


def test_expiring_serves_the_queue_and_counts_the_locks() -> None:
    dead = lock_of("ben", SHARED, 1, lease=1.0, expires_in=-1.0), lock_of("cam", SHARED, 2, lease=1.0, expires_in=-1.0)
    seen = ResourceSnapshot(R, 2, known=True, expired=dead, queue=(waiting("ann"),))
    outcome = lock_work.expire(snap(seen))
    assert outcome.result == 2
    assert [lock.client for lock in outcome.resources[R].locks] == ["ann"]


def test_waiters_that_died_leave_and_let_others_pass() -> None:
    seen = holding(
        lock_of("ben", SHARED), queue=(waiting("dead", EXCLUSIVE, 1, alive=False), waiting("ann", SHARED, 2))
    )
    outcome = lock_work.expire(snap(seen))
    assert [change.entry.waiter.client for change in of(outcome, LeaveQueue)] == ["dead", "ann"]  # type: ignore[union-attr]
    assert [lock.client for lock in outcome.resources[R].locks] == ["ben", "ann"]


def test_without_the_rows_for_the_store_nothing_expires() -> None:
    dead = lock_of("ben", lease=1.0, expires_in=-1.0)
    seen = ResourceSnapshot(R, 1, known=True, expired=(dead,), queue=(waiting("gone", alive=False),))
    outcome = lock_work.expire(snap(seen, rules=without(("exclusive", "expire"), ("waiting", "lapse"))))
    assert (outcome.result, outcome.changes) == (0, ())
    assert outcome.resources[R].locks == (dead,)


# ------------------------------------------------------------------ holding

HELD: dict[str, Callable[[LockSnapshot, str, int], LockOutcome[object]]] = {
    "release": lock_work.release,
    "renew": lock_work.renew,
    "upgrade": lock_work.upgrade,
    "downgrade": lock_work.downgrade,
}


@pytest.mark.parametrize("unit", HELD.values(), ids=HELD)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_wrong_token_or_id_or_a_dead_lease_changes_nothing(
    unit: Callable[[LockSnapshot, str, int], LockOutcome[object]], mode: Mode
) -> None:
    lock = lock_of("ann", mode, 3, lease=5.0, expires_in=1.0)
    for lock_id, token, why in ((lock.id, 2, "token does not match"), (f"{lock.id}x", 3, NO_SUCH_LOCK)):
        with pytest.raises(LockLost, match=why):
            unit(snap(holding(lock)), lock_id, token)
    with pytest.raises(LockLost, match=LEASE_EXPIRED):
        unit(snap(holding(replace(lock, expires_in=0.0))), lock.id, 3)
    with pytest.raises(LockLost, match=LEASE_EXPIRED):
        unit(snap(ResourceSnapshot(R, 3, expired=(replace(lock, lease=None, expires_in=None),))), lock.id, 3)


@pytest.mark.parametrize("unit", HELD.values(), ids=HELD)
def test_another_principals_lock_is_not_changed(unit: Callable[[LockSnapshot, str, int], LockOutcome[object]]) -> None:
    lock = lock_of("ann", SHARED if unit is lock_work.upgrade else EXCLUSIVE, principal="theirs")
    with pytest.raises(NotOwner):
        unit(snap(holding(lock), actor=Actor("mine")), lock.id, 1)
    outcome = unit(snap(holding(lock), actor=Actor("mine", "it hangs")), lock.id, 1)
    assert outcome.changes[0] == Override(f"lock {lock.id}", "theirs")
    assert all(change.reason == "override: it hangs" for change in of(outcome, LockRecord))  # type: ignore[union-attr]


def test_releasing_one_of_several_holds_keeps_the_lock() -> None:
    lock = lock_of("ann", count=3)
    outcome = lock_work.release(snap(holding(lock, queue=(waiting("ben"),))), lock.id, 1)
    assert outcome.changes[0] == ChangeLock(lock, replace(lock, count=2))
    assert records(outcome) == [("ann", "exclusive", "leave", "exclusive")]
    assert outcome.wakes == ()


def test_renewing_starts_the_lease_again() -> None:
    lock = lock_of("ann", lease=60.0, expires_in=1.0)
    outcome = lock_work.renew(snap(holding(lock)), lock.id, 1)
    assert outcome.changes == (LengthenLease(lock, 60.0),)
    assert outcome.result.expires_in == 60.0
    assert lock_work.renew(snap(holding(lock)), lock.id, 1, 5.0).changes == (LengthenLease(lock, 5.0),)
    assert lock_work.renew(snap(holding(lock_of("ann"))), lock.id, 1, 5.0).changes == ()


def test_the_sole_holder_upgrades_with_a_new_token() -> None:
    lock = lock_of("ann", SHARED, 3)
    outcome = lock_work.upgrade(snap(holding(lock)), lock.id, 3)
    assert outcome.result == replace(lock, mode=EXCLUSIVE, token=4)
    assert records(outcome) == [("ann", "shared", "upgrade", "exclusive")]


def test_an_upgrade_among_others_is_refused_and_counted() -> None:
    lock = lock_of("ann", SHARED, 1)
    outcome = lock_work.upgrade(snap(holding(lock, lock_of("ben", SHARED, 2))), lock.id, 1)
    assert isinstance(outcome.result, LockRefused)
    assert [each.client for each in outcome.result.blockers] == ["ben"]
    assert kinds(outcome) == ["CountRefusal"]


def test_an_upgrade_beside_a_claim_is_refused() -> None:
    lock = lock_of("ann", SHARED, 1)
    outcome = lock_work.upgrade(snap(holding(lock, claims=(lock_of("worker", SHARED),))), lock.id, 1)
    assert isinstance(outcome.result, LockRefused)


def test_an_event_missing_from_the_table_is_refused_with_the_possible_ones() -> None:
    lock = lock_of("ann", EXCLUSIVE)
    with pytest.raises(TransitionRefused) as refused:
        lock_work.upgrade(snap(holding(lock)), lock.id, 1)
    assert refused.value.allowed == LOCK.allowed("exclusive")


def test_a_downgrade_lets_readers_in() -> None:
    lock = lock_of("ann", EXCLUSIVE, 3)
    outcome = lock_work.downgrade(snap(holding(lock, queue=(waiting("ben", SHARED),))), lock.id, 3)
    assert outcome.result == replace(lock, mode=SHARED)
    assert [each.client for each in outcome.resources[R].locks] == ["ann", "ben"]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_hand_over_changes_owner_and_token(mode: Mode) -> None:
    lock = lock_of("ann", mode, 3, principal="mine")
    outcome = lock_work.hand_over(snap(holding(lock), actor=Actor("mine")), lock.id, "yours", "shift ends")
    assert outcome.result == replace(lock, token=4, principal="yours")
    (record,) = of(outcome, LockRecord)
    assert record.reason == "from mine to yours: shift ends"  # type: ignore[union-attr]
    with pytest.raises(NotOwner):
        lock_work.hand_over(snap(holding(lock), actor=Actor("yours")), lock.id, "yours", "")


def test_a_dead_lock_is_not_handed_over_but_may_be_broken() -> None:
    dead = lock_of("ann", lease=1.0, expires_in=-1.0)
    with pytest.raises(UnknownName):
        lock_work.hand_over(snap(holding(dead)), dead.id, "yours", "")
    assert lock_work.break_lock(snap(holding(dead)), dead.id, "why", "ops").result == dead


def test_breaking_ends_any_lock_and_records_who_and_why() -> None:
    lock = lock_of("ann", principal="theirs")
    outcome = lock_work.break_lock(snap(holding(lock), actor=Actor("op", "forced")), lock.id, "disk full", "ops")
    (record,) = of(outcome, LockRecord)
    assert (record.reason, record.principal, record.after) == ("ops: disk full", "op", "broken")  # type: ignore[union-attr]
    with pytest.raises(UnknownName):
        lock_work.break_lock(snap(), lock.id, "disk full", "ops")


def test_an_interrupted_attempt_may_have_taken_effect() -> None:
    upgraded, downgraded = lock_of("ann", EXCLUSIVE, 4), lock_of("ann", SHARED, 4)
    handed = lock_of("ann", EXCLUSIVE, 4, principal="yours")
    for outcome, expected in (
        (lock_work.upgrade(snap(holding(upgraded), again=True), upgraded.id, 3), upgraded),
        (lock_work.downgrade(snap(holding(downgraded), again=True), downgraded.id, 4), downgraded),
        (lock_work.hand_over(snap(holding(handed), again=True, actor=Actor("mine")), handed.id, "yours", ""), handed),
    ):
        assert (outcome.result, outcome.changes) == (expected, ())


def test_registering_only_lists_the_resource() -> None:
    outcome = lock_work.register(snap())
    assert (outcome.changes, outcome.resources[R].known) == ((), True)


# ------------------------------------------------------------------ re-entry


def test_the_same_client_reenters_its_lock() -> None:
    own = lock_of("ann", EXCLUSIVE, 3, lease=10.0, expires_in=1.0)
    request = ask("ann", (R, SHARED), request_id="second", reentrant=True, lease=60.0)
    outcome = lock_work.acquire(snap(holding(own)), request)
    (lock,) = outcome.result  # type: ignore[misc]
    assert (lock.count, lock.token, lock.lease, lock.expires_in, lock.request_id) == (2, 3, 60.0, 60.0, "second")
    assert kinds(outcome) == ["LengthenLease", "ChangeLock", "LockRecord"]


@pytest.mark.parametrize(("held", "asked", "lease"), [(10.0, 60.0, 60.0), (60.0, 10.0, 60.0), (10.0, None, None)])
def test_the_longer_lease_counts(held: float, asked: float | None, lease: float | None) -> None:
    own = lock_of("ann", lease=held, expires_in=1.0)
    outcome = lock_work.acquire(snap(holding(own)), ask("ann", request_id="second", reentrant=True, lease=asked))
    assert of(outcome, LengthenLease) == [LengthenLease(own, lease)]


def test_a_sole_reader_enters_as_a_writer_by_an_upgrade() -> None:
    own = lock_of("ann", SHARED, 3)
    outcome = lock_work.acquire(snap(holding(own)), ask("ann", request_id="second", reentrant=True))
    assert records(outcome) == [("ann", "shared", "upgrade", "exclusive"), ("ann", "exclusive", "enter", "exclusive")]
    (lock,) = outcome.result  # type: ignore[misc]
    assert (lock.mode, lock.token, lock.count) == (EXCLUSIVE, 4, 2)


def test_entering_a_persistent_lock_keeps_it_persistent() -> None:
    outcome = lock_work.acquire(snap(holding(lock_of("ann"))), ask("ann", request_id="2", reentrant=True, lease=5.0))
    assert kinds(outcome) == ["ChangeLock", "LockRecord"]

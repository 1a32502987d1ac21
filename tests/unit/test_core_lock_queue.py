"""Decisions of the core about wait queues: who joins, who leaves, who is next."""

import pytest

from headgate.core.errors import (
    LockRefused,
)
from headgate.core.locks import work as lock_work
from headgate.core.locks.draft import TRIAL_SECONDS, LockDraft, first_in_line
from headgate.core.locks.model import Lock
from headgate.core.locks.rules import LOCK_RULES
from headgate.core.locks.snapshot import (
    CountRefusal,
    EndLock,
    HandLock,
    JoinQueue,
    LeaveQueue,
    QueueEntry,
    ResourceSnapshot,
)
from headgate.core.locks.work import MustWait
from tests.unit.lock_snapshots import (
    EXCLUSIVE,
    SHARED,
    R,
    S,
    ask,
    holding,
    kinds,
    lock_of,
    of,
    records,
    snap,
    waiting,
)

# ------------------------------------------------------------------ waiting


def test_a_blocked_request_joins_the_queue() -> None:
    request = ask("ann")
    outcome = lock_work.queue_up(snap(holding(lock_of("ben"))), request)
    assert outcome.result == MustWait()
    assert outcome.changes == (JoinQueue(request),)
    assert [entry.waiter.client for entry in outcome.resources[R].queue] == ["ann"]


def test_a_free_resource_is_granted_without_waiting() -> None:
    outcome = lock_work.queue_up(snap(), ask("ann"))
    assert records(outcome) == [("ann", "new", "grant", "exclusive")]


def test_a_repeated_request_keeps_its_position() -> None:
    seen = holding(lock_of("ben"), queue=(waiting("ann", ticket=5), waiting("cam", ticket=6)))
    outcome = lock_work.queue_up(snap(seen), ask("ann"))
    assert (outcome.result, outcome.changes) == (MustWait(5), ())


def test_a_repeated_request_at_the_front_is_granted_from_the_queue() -> None:
    outcome = lock_work.queue_up(snap(holding(queue=(waiting("ann", ticket=5),))), ask("ann"))
    assert kinds(outcome) == ["LeaveQueue", "GrantLock", "LockRecord"]
    assert records(outcome) == [("ann", "waiting", "grant", "exclusive")]


def test_an_incomplete_queue_position_is_replaced() -> None:
    request = ask("ann", (R, EXCLUSIVE), (S, EXCLUSIVE))
    stale = waiting("ann", ticket=5)
    seen = snap(holding(lock_of("ben"), queue=(stale,)), ResourceSnapshot(S))
    outcome = lock_work.queue_up(seen, request)
    assert outcome.changes == (LeaveQueue(stale), JoinQueue(request))


def test_a_waiting_writer_is_not_passed_by_a_reader() -> None:
    seen = holding(lock_of("ben", SHARED), queue=(waiting("cam", EXCLUSIVE),))
    assert lock_work.queue_up(snap(seen), ask("ann", (R, SHARED))).result == MustWait()


def test_the_first_in_the_queue_takes_its_turn() -> None:
    own = waiting("ann", ticket=1, lock_id="")
    outcome = lock_work.take_turn(snap(holding(queue=(own, waiting("ben", ticket=2)))), ask("ann"), 1)
    assert [lock.client for lock in outcome.result] == ["ann"]  # type: ignore[union-attr]
    assert of(outcome, LeaveQueue) == [LeaveQueue(own)]
    assert outcome.wakes == ()


def test_a_waiter_that_is_not_first_stays_in_the_queue() -> None:
    seen = holding(queue=(waiting("ben", ticket=1), waiting("ann", ticket=2)))
    outcome = lock_work.take_turn(snap(seen), ask("ann"), 2)
    assert (outcome.result, outcome.changes) == (MustWait(2), ())


def test_a_lost_position_is_restored_by_its_number() -> None:
    request = ask("ann")
    outcome = lock_work.take_turn(snap(holding(lock_of("ben"), queue=(waiting("cam", ticket=9),))), request, 4)
    assert outcome.result == MustWait()
    assert outcome.changes == (JoinQueue(request, 4),)


def test_a_lost_position_still_counts_by_its_number() -> None:
    """Its process was stopped for a long time, and later arrivals are not ahead of it."""
    outcome = lock_work.take_turn(snap(holding(queue=(waiting("cam", ticket=9),))), ask("ann"), 4)
    assert isinstance(outcome.result, tuple)


def test_a_timeout_is_a_refusal_that_leaves_the_queue() -> None:
    own = waiting("ann", ticket=2)
    outcome = lock_work.give_up(snap(holding(lock_of("ben"), queue=(waiting("cam", ticket=1), own))), ask("ann"), 2)
    assert isinstance(outcome.result, LockRefused)
    assert [each.client for each in outcome.result.blockers] == ["ben", "cam"]
    assert kinds(outcome) == ["CountRefusal", "LeaveQueue"]
    (count,) = of(outcome, CountRefusal)
    assert count.record.before == "waiting"  # type: ignore[union-attr]


def test_a_timeout_at_the_last_moment_may_be_granted() -> None:
    outcome = lock_work.give_up(snap(holding(queue=(waiting("ann"),))), ask("ann"), 1)
    assert records(outcome) == [("ann", "waiting", "grant", "exclusive")]


def test_others_pass_a_waiter_that_gives_up() -> None:
    queue = (waiting("ann", EXCLUSIVE, 1), waiting("cam", SHARED, 2))
    outcome = lock_work.give_up(snap(holding(lock_of("ben", SHARED), queue=queue)), ask("ann"), 1)
    assert [entry.waiter.client for entry in outcome.wakes] == ["cam"]
    assert [lock.client for lock in outcome.resources[R].locks] == ["ben", "cam"]


def test_withdrawing_leaves_no_entry_in_the_history() -> None:
    outcome = lock_work.withdraw(snap(holding(lock_of("ben"), queue=(waiting("ann"),))), ask("ann"))
    assert kinds(outcome) == ["LeaveQueue"]


def test_withdrawing_releases_what_was_granted_meanwhile() -> None:
    mine = lock_of("ann", lease=60.0, expires_in=10.0)
    outcome = lock_work.withdraw(snap(holding(mine)), ask("ann"))
    assert outcome.changes[0] == EndLock(mine, "release")
    assert outcome.resources[R].locks == ()


# ------------------------------------------------------------------ who is next


def test_the_first_waiter_is_handed_the_lock_on_trial() -> None:
    mine, entry = lock_of("ben", token=4), waiting("ann", lease=60.0, principal="p")
    outcome = lock_work.release(snap(holding(mine, queue=(entry,))), mine.id, 4)
    (handed,) = of(outcome, HandLock)
    assert isinstance(handed, HandLock)
    assert (handed.lock.id, handed.lock.token, handed.entry, handed.trial) == (entry.lock_id, 5, entry, TRIAL_SECONDS)
    assert (handed.lock.lease, handed.lock.expires_in, handed.lock.principal) == (60.0, TRIAL_SECONDS, "p")
    assert kinds(outcome) == ["EndLock", "LockRecord", "HandLock", "LeaveQueue", "LockRecord"]
    assert records(outcome) == [
        ("ben", "exclusive", "release", "released"), ("ann", "waiting", "grant", "exclusive"),
    ]  # fmt: skip
    assert outcome.wakes == (entry,)


@pytest.mark.parametrize(("lease", "trial"), [(None, TRIAL_SECONDS), (2.0, 2.0), (90.0, TRIAL_SECONDS)])
def test_a_trial_is_no_longer_than_the_lease(lease: float | None, trial: float) -> None:
    outcome = lock_work.serve(snap(holding(queue=(waiting("ann", lease=lease),))))
    (handed,) = of(outcome, HandLock)
    assert handed.trial == trial  # type: ignore[union-attr]


def test_readers_are_served_together_up_to_the_next_writer() -> None:
    queue = tuple(waiting(name, mode, n) for n, (name, mode) in enumerate(
        [("a", SHARED), ("b", SHARED), ("c", EXCLUSIVE), ("d", SHARED)]
    ))  # fmt: skip
    outcome = lock_work.serve(snap(holding(queue=queue)))
    assert [entry.waiter.client for entry in outcome.wakes] == ["a", "b"]
    assert [lock.token for lock in outcome.resources[R].locks] == [1, 2]


def test_a_waiter_that_must_claim_its_grant_is_woken_and_keeps_its_position() -> None:
    queue = (waiting("several", SHARED, 1, lock_id=""), waiting("ann", SHARED, 2), waiting("ben", EXCLUSIVE, 3))
    outcome = lock_work.serve(snap(holding(queue=queue)))
    assert [entry.waiter.client for entry in outcome.wakes] == ["several", "ann"]
    assert [entry.waiter.client for entry in outcome.resources[R].queue] == ["several", "ben"]
    assert [lock.client for lock in outcome.resources[R].locks] == ["ann"]


def test_a_holder_waiting_to_reenter_is_woken_when_it_is_the_only_one() -> None:
    mine, other = lock_of("ann", SHARED, 1), lock_of("ben", SHARED, 2)
    queue = (waiting("ann", EXCLUSIVE, 1, lock_id=""),)
    outcome = lock_work.release(snap(holding(mine, other, queue=queue)), other.id, 2)
    assert outcome.wakes == queue
    asked = ask("cam", (R, SHARED))
    assert lock_work.acquire(snap(holding(mine, other, queue=queue)), asked).wakes == ()


def test_no_more_waiters_are_served_than_one_change_may_hold() -> None:
    queue = tuple(waiting(f"c{n}", SHARED, n) for n in range(5))
    outcome = lock_work.serve(snap(holding(queue=queue), most_handed=3))
    assert len(of(outcome, HandLock)) == 3


def test_a_claim_keeps_the_queue_waiting() -> None:
    outcome = lock_work.serve(snap(holding(claims=(lock_of("worker"),), queue=(waiting("ann"),))))
    assert (outcome.changes, outcome.wakes) == ((), ())


def test_a_queue_is_served_only_if_a_waiter_can_be_granted() -> None:
    outcome = lock_work.acquire(snap(holding(lock_of("ben"), queue=(waiting("ann"),))), ask("cam"))
    assert outcome.wakes == ()


@pytest.mark.parametrize(
    ("modes", "held", "expected"),
    [
        ("", "", ""),
        ("x", "", "0"),
        ("xx", "", "0"),
        ("sxs", "", "0"),
        ("ssxs", "", "01"),
        ("ss", "s", "01"),
        ("xs", "s", ""),
        ("sx", "s", "0"),
        ("s", "x", ""),
    ],
)
def test_the_first_waiters_are_named(modes: str, held: str, expected: str) -> None:
    by_letter = {"s": SHARED, "x": EXCLUSIVE}
    queue = [waiting(str(n), by_letter[letter], n) for n, letter in enumerate(modes)]
    found = first_in_line(queue, [lock_of("holder", by_letter[letter]) for letter in held], LOCK_RULES)
    assert "".join(entry.waiter.client for entry in found) == expected


@pytest.mark.parametrize(("others", "expected"), [("", "own"), ("s", ""), ("x", "")])
def test_a_client_that_may_reenter_its_lock_does_not_queue_behind_waiters(others: str, expected: str) -> None:
    """It acquires the lock itself when it is first: nothing is handed to it."""
    held = [lock_of("own", SHARED), *(lock_of("other", EXCLUSIVE if each == "x" else SHARED) for each in others)]
    queue = [waiting("writer"), waiting("own", lock_id=""), waiting("another")]
    assert "".join(entry.waiter.client for entry in first_in_line(queue, held, LOCK_RULES)) == expected


@pytest.mark.parametrize(
    ("modes", "held", "wanted", "expected"),
    [("", "", "x", ""), ("", "s", "s", ""), ("", "s", "x", "holder"), ("xs", "s", "s", "0"), ("xs", "s", "x", "1")],
)
def test_the_nearest_waiter_ahead_that_blocks_is_the_obstacle_or_else_a_lock(
    modes: str, held: str, wanted: str, expected: str
) -> None:
    """A request that a waiter ahead does not block may still be blocked by the one before that waiter."""
    by_letter = {"s": SHARED, "x": EXCLUSIVE}
    queue = tuple(waiting(str(n), by_letter[letter], n) for n, letter in enumerate(modes))
    draft = LockDraft(snap(holding(*(lock_of("holder", by_letter[letter]) for letter in held), queue=queue)))
    found = draft.obstacle(ask("ann", (R, by_letter[wanted])), number=len(modes))
    client = found.waiter.client if isinstance(found, QueueEntry) else found.client if found else ""
    assert client == expected


def test_a_waiter_is_no_obstacle_to_one_that_may_enter_its_own_lock() -> None:
    draft = LockDraft(snap(holding(lock_of("own", SHARED), lock_of("other", SHARED, 2), queue=(waiting("writer"),))))
    assert draft.obstacle(ask("own", (R, SHARED), reentrant=True)) is None
    blocking = draft.obstacle(ask("own", (R, EXCLUSIVE), reentrant=True))
    assert isinstance(blocking, Lock)
    assert blocking.client == "other"

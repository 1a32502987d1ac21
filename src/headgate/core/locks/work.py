"""Units of work for locks: a snapshot and a command in, changes or an explained refusal out. Stores do not decide
anything.

A request that is refused is a result, since it is counted and recorded. LockLost, NotOwner, UnknownName and
TransitionRefused are raised before anything changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headgate.core.access.owners import handed_reason
from headgate.core.errors import LockLost, LockRefused, Refused, UnknownName
from headgate.core.locks.decisions import claim_blockers, decide_upgrade
from headgate.core.locks.draft import NEW, WAITING, LockDraft
from headgate.core.locks.model import Blocker, Lock, Mode, Request, Want
from headgate.core.locks.snapshot import LockOutcome, LockSnapshot
from headgate.core.locks.tickets import Granted
from headgate.core.tables.machine import Also
from headgate.core.values.plurals import plural

#: The reasons why a lock is not held.
LEASE_EXPIRED = "its lease expired"
NO_SUCH_LOCK = "there is no such lock, now or in the history"
#: The events that a release may fire.
RELEASES = frozenset({"release", "leave"})


@dataclass(frozen=True, slots=True)
class MustWait:
    """The request is not granted yet."""

    #: Its number in every queue; None: it joins them with this change.
    number: int | None = None


# ---------------------------------------------------------------- asking


def acquire(snapshot: LockSnapshot, request: Request) -> LockOutcome[Granted | LockRefused]:
    """Grant it, or refuse it with every blocker."""
    draft = LockDraft(snapshot)
    granted, blockers = _decide(draft, request)
    return draft.outcome(granted or draft.refuse(request, blockers, NEW))


def queue_up(snapshot: LockSnapshot, request: Request) -> LockOutcome[Granted | MustWait]:
    """Grant it, or append it to the end of each queue. A position that it already has is kept."""
    draft = LockDraft(snapshot)
    granted, _ = _decide(draft, request)
    if granted:
        return draft.outcome(granted)
    kept = draft.number_of(request)
    draft.leave_queue(request, keep=kept)
    if kept is None:
        draft.join_queue(request)
    return draft.outcome(MustWait(kept))


def take_turn(snapshot: LockSnapshot, request: Request, number: int | None = None) -> LockOutcome[Granted | MustWait]:
    """Grant it from its position in the queue, if its turn has come; a lost position is replaced.

    `number`: its position, where positions are numbered.
    """
    draft = LockDraft(snapshot)
    granted, _ = _decide(draft, request, number, waited=True)
    if granted:
        return draft.outcome(granted)
    kept = draft.number_of(request)
    if kept is None:
        draft.leave_queue(request)
        draft.join_queue(request, number)
    return draft.outcome(MustWait(kept))


def give_up(snapshot: LockSnapshot, request: Request, number: int | None = None) -> LockOutcome[Granted | LockRefused]:
    """Its wait time is over: grant it at the last moment, or refuse it. In both cases it leaves the queue."""
    draft = LockDraft(snapshot)
    granted, blockers = _decide(draft, request, number, waited=True)
    return draft.outcome(granted or draft.refuse(request, blockers, WAITING))


def withdraw(snapshot: LockSnapshot, request: Request) -> LockOutcome[None]:
    """Leave the queue, and release what it was granted meanwhile."""
    draft = LockDraft(snapshot)
    for lock in draft.repeated(request):
        draft.fire(lock, "release")
    if draft.rules.row(WAITING, "withdraw").also.has(Also.LEAVE_QUEUE):
        draft.leave_queue(request)
    return draft.outcome(None)


def _decide(
    draft: LockDraft, request: Request, number: int | None = None, *, waited: bool = False
) -> tuple[Granted, Sequence[Blocker]]:
    """The grant that it has, or can have now; otherwise its blockers."""
    if found := draft.repeated(request):
        draft.leave_queue(request)
        return tuple([draft.confirm(lock) for lock in found]), ()
    decision = draft.decide(request, number)
    if not decision.granted:
        return (), decision.blockers
    before = WAITING if waited or draft.number_of(request) is not None else NEW
    return draft.grant(request, decision, before), ()


# ---------------------------------------------------------------- holding


def release(snapshot: LockSnapshot, lock_id: str, token: int) -> LockOutcome[None]:
    """Release one hold, or the lock itself: the resource then goes to the next waiter."""
    draft = LockDraft(snapshot)
    lock = _held(draft, lock_id, token)
    if lock.count > 1:
        draft.fire(lock, "leave", count=-1)
    else:
        draft.fire(lock, "release")
    return draft.outcome(None)


def renew(snapshot: LockSnapshot, lock_id: str, token: int, lease: float | None = None) -> LockOutcome[Lock]:
    """Restart a live lease, with this length if one is given. A persistent lock stays as it is."""
    draft = LockDraft(snapshot)
    lock = _held(draft, lock_id, token)
    return draft.outcome(lock if lock.lease is None else draft.lengthen(lock, lease or lock.lease))


def upgrade(snapshot: LockSnapshot, lock_id: str, token: int) -> LockOutcome[Lock | LockRefused]:
    """Shared to exclusive, unless others hold the resource too."""
    draft = LockDraft(snapshot)
    if snapshot.again and (done := draft.find(lock_id)) and done.mode is Mode.EXCLUSIVE:
        draft.must_own(done)
        return draft.outcome(done)
    lock = _held(draft, lock_id, token)
    target = Mode(draft.rules.row(lock.mode, "upgrade").target)
    request = Request(lock.request_id, lock.client, (Want(lock.resource, target),), lock.lease)
    compatible = draft.rules.compatible
    blockers = (
        *decide_upgrade(lock, draft.others(lock), target, compatible),
        *claim_blockers(request, draft.claims(lock.resource), compatible),
    )
    return draft.outcome(draft.refuse(request, blockers, NEW) if blockers else draft.fire(lock, "upgrade"))


def downgrade(snapshot: LockSnapshot, lock_id: str, token: int) -> LockOutcome[Lock]:
    """Exclusive to shared: other readers may join."""
    draft = LockDraft(snapshot)
    lock = _held(draft, lock_id, token)
    done = snapshot.again and lock.mode is Mode.SHARED
    return draft.outcome(lock if done else draft.fire(lock, "downgrade"))


def hand_over(snapshot: LockSnapshot, lock_id: str, to: str, reason: str) -> LockOutcome[Lock]:
    """Give the lock to another principal, with a new token."""
    draft = LockDraft(snapshot)
    lock = draft.find(lock_id)
    if lock is None or not lock.alive:
        raise unknown_lock(lock_id)
    if snapshot.again and lock.principal == to:
        return draft.outcome(lock)
    draft.must_own(lock)
    why = handed_reason(lock.principal, to, reason)
    return draft.outcome(draft.fire(lock, "hand-over", owner=to, reason=why))


def break_lock(snapshot: LockSnapshot, lock_id: str, reason: str, by: str) -> LockOutcome[Lock]:
    """End any lock, even one of a dead holder that its lock-delay keeps."""
    draft = LockDraft(snapshot)
    lock = draft.find(lock_id)
    if lock is None:
        raise unknown_lock(lock_id)
    return draft.outcome(draft.fire(lock, "break", reason=f"{by}: {reason}"))


# ---------------------------------------------------------------- nobody's command


def expire(snapshot: LockSnapshot) -> LockOutcome[int]:
    """End everything that has expired, remove dead waiters, and serve the queues. Returns the number of locks that
    ended.
    """
    draft = LockDraft(snapshot)
    return draft.outcome(draft.expired)


def serve(snapshot: LockSnapshot) -> LockOutcome[None]:
    """Check every queue as if a lock had been released."""
    draft = LockDraft(snapshot)
    draft.make_room()
    return draft.outcome(None)


def register(snapshot: LockSnapshot) -> LockOutcome[None]:
    """Add these resources to the list."""
    draft = LockDraft(snapshot)
    draft.make_known()
    return draft.outcome(None)


def forget(snapshot: LockSnapshot, resource: str) -> LockOutcome[None]:
    """Remove a free resource from the list; its token is kept.

    UnknownName when it is not listed, Refused while it is held (or closed by a lock-delay) or has waiters.
    """
    outcome = LockDraft(snapshot).outcome(None)
    after = outcome.resources[resource]
    if not snapshot.resources[resource].known:
        raise UnknownName("resource", resource)
    if after.locks or after.queue:
        raise Refused(f"resource {resource!r} is held or has waiters; release it first")
    return replace(outcome, resources={**outcome.resources, resource: replace(after, known=False)})


def forget_client(client: str, held: int) -> None:
    """Refused while a client holds locks."""
    if held:
        raise Refused(f"client {client!r} holds {plural(held, 'lock')}; release them first")


# ---------------------------------------------------------------- guards


def require_held(lock: Lock | None, lock_id: str, token: int) -> Lock:
    """The lock, if that token holds it and it is alive; LockLost otherwise."""
    if lock is None:
        raise LockLost(lock_id, token, NO_SUCH_LOCK)
    if lock.token != token:
        raise LockLost(lock_id, token, f"the token does not match: the lock has token {lock.token}")
    if not lock.alive:
        raise LockLost(lock_id, token, LEASE_EXPIRED)
    return lock


def unknown_lock(lock_id: str) -> UnknownName:
    """There is no such lock."""
    return UnknownName("lock", lock_id, "It may have been released; list locks with: headgate lock list")


def _held(draft: LockDraft, lock_id: str, token: int) -> Lock:
    """The lock with that id and token, alive and owned by the caller."""
    lock = draft.find(lock_id)
    if lock is None:
        expired = (lock for each in draft.snapshot.resources.values() for lock in each.expired)
        lock = next((replace(each, expires_in=0.0) for each in expired if each.id == lock_id), None)
    if lock is not None:
        draft.must_own(lock)
    return require_held(lock, lock_id, token)

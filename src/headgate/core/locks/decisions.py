"""The function that decides about a lock request and explains the decision, with its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.core.errors import BadValue
from headgate.core.locks.model import COMPATIBLE, Blocker, Compatible, Lock, Mode, Request, Waiter, Want

OnResource = TypeVar("OnResource", "Lock", "Waiter", "Blocker")


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on a request: granted when there is no blocker."""

    #: Everything that blocks the request.
    blockers: tuple[Blocker, ...]
    #: Locks of the same client that are entered again instead of being granted separately.
    entered: Mapping[str, Lock]

    @property
    def granted(self) -> bool:
        """Whether nothing blocks the request."""
        return not self.blockers


#: Nothing blocks the request.
FREE = Decision((), {})


def decide(
    request: Request, held: Iterable[Lock], earlier: Iterable[Waiter] = (), compatible: Compatible = COMPATIBLE
) -> Decision:
    """May the request be granted, given the live locks and the waiters that came earlier?"""
    locks, waiting = by_resource(held), by_resource(earlier)
    if not (locks or waiting):
        return FREE
    blockers: list[Blocker] = []
    entered: dict[str, Lock] = {}
    for want in request.wants:
        here = locks.get(want.resource, [])
        own = _own_hold(request, here)
        if own and _may_enter(own, want, here, compatible):
            entered[want.resource] = own
            continue
        others = [lock for lock in here if lock is not own]
        blockers += [_holding(lock) for lock in others if not compatible[want.mode, lock.mode]]
        blockers += [
            _waiting(waiter) for waiter in waiting.get(want.resource, ()) if not compatible[want.mode, waiter.mode]
        ]
    return Decision(tuple(blockers), entered)


def by_resource(found: Iterable[OnResource]) -> dict[str, list[OnResource]]:
    """Locks, waiters or blockers by their resource, in the same order."""
    grouped: dict[str, list[OnResource]] = {}
    for each in found:
        grouped.setdefault(each.resource, []).append(each)
    return grouped


def claim_blockers(
    request: Request, claims: Iterable[Lock], compatible: Compatible = COMPATIBLE
) -> tuple[Blocker, ...]:
    """Running jobs of the ledger that conflict with the wanted locks."""
    modes = {want.resource: want.mode for want in request.wants}
    return tuple(
        replace(_holding(claim), kind="claim")
        for claim in claims
        if claim.resource in modes and not compatible[modes[claim.resource], claim.mode]
    )


def _own_hold(request: Request, here: Sequence[Lock]) -> Lock | None:
    if not request.reentrant:
        return None
    may_join = request.actor.may_touch
    same = (lock for lock in here if lock.client == request.client and lock.alive and may_join(lock.principal))
    return next(same, None)


def _may_enter(own: Lock, want: Want, here: Sequence[Lock], compatible: Compatible) -> bool:
    if own.mode is Mode.EXCLUSIVE or want.mode is Mode.SHARED:
        return True
    return all(compatible[want.mode, other.mode] for other in here if other is not own)


def refusal_reasons(request: Request, blockers: Iterable[Blocker]) -> dict[str, str]:
    """The reason for a refusal by resource, as a line for the history: the first blocker on each."""
    wanted = {want.resource: want.mode for want in request.wants}
    return {
        resource: (
            f"requested {wanted[resource]}, but {by.client} {'waits for' if by.kind == 'waiter' else 'holds'} {by.mode}"
        )
        for resource, (by, *_) in by_resource(blockers).items()
    }


def decide_upgrade(
    lock: Lock, held: Iterable[Lock], target: Mode = Mode.EXCLUSIVE, compatible: Compatible = COMPATIBLE
) -> tuple[Blocker, ...]:
    """Every other holder that prevents a lock from changing to this mode."""
    return tuple(_holding(other) for other in held if other.id != lock.id and not compatible[target, other.mode])


def repeated_grant(request: Request, tag: str, held: Iterable[Lock]) -> tuple[Lock, ...]:
    """The grant that this request has received already and still holds, or nothing."""
    found = {lock.id: lock for lock in held if lock.alive}
    # The id decides, because its client may have entered the lock again by another request.
    grant = [found.get(request.lock_id(tag, want.resource)) for want in request.wants]
    if not any(grant) or (request.reentrant and not all(grant)):
        return ()
    same = all(
        lock
        and (lock.client, lock.mode) == (request.client, want.mode)
        and request.actor.may_touch(lock.principal)  # It may have been handed over since.
        for lock, want in zip(grant, request.wants, strict=True)
    )
    if not same:
        raise BadValue(
            "request id", request.id, ("was used for another request whose locks are still held; use a new one")
        )
    return tuple(lock for lock in grant if lock)


def find_cycle(client: str, waits_for: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Clients that wait for each other in a cycle through this one, or nothing."""
    trail: list[str] = []
    seen: set[str] = set()

    def reaches(name: str) -> bool:
        trail.append(name)
        for other in sorted(set(waits_for.get(name, ()))):
            if other == client:
                return True
            if other not in seen:
                seen.add(other)
                if reaches(other):
                    return True
        trail.pop()
        return False

    return (*trail, client) if reaches(client) else ()


def _holding(lock: Lock) -> Blocker:
    return Blocker(
        "holder",
        lock.resource,
        lock.client,
        lock.mode,
        lock.since,
        lock.id,
        lock.expires_in,
        lock.owner,
        lock.note,
        lock.principal,
    )


def _waiting(waiter: Waiter) -> Blocker:
    return Blocker("waiter", waiter.resource, waiter.client, waiter.mode, waiter.since, owner=waiter.owner)

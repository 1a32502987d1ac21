"""Some resources as they were seen, and what is to become of them: one change, guarded by their versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from headgate.core.errors import LockLost
from headgate.core.locks import Decision, Lock, Mode, Request, Waiter, decide, repeated_grant
from headgate.core.machine import Also
from headgate.core.states import LOCK
from headgate.stores.acting import actor, must_own
from headgate.stores.zookeeper.changes import new_mark
from headgate.stores.zookeeper.clock import Now
from headgate.stores.zookeeper.multi import Op
from headgate.stores.zookeeper.records import (
    DELAY,
    NEVER,
    Holder,
    Place,
    Stamp,
    State,
    lock_node,
    moment,
    read_queue,
    write_message,
    write_span,
)

#: A row of the table, found once.
_row = lru_cache(lambda state, event: LOCK.find(state, event)[0])
RUN_OUT = "its lease expired"
NO_SUCH = "there is no such lock, now or in the history"
#: Waiters that are granted in one change.
MOST_HANDED = 100
#: Seconds that a grant which was handed over lives until its waiter takes it up: that one may be dead.
TRIAL_SECONDS = 30.0


class Stale(Exception):
    """What was remembered does not suffice: look again. For the stores, never for callers."""


class Unclear(Exception):
    """The times of nodes are needed too. For the stores, never for callers."""


@dataclass(frozen=True, slots=True)
class View:
    """A resource's node and its children as they were seen."""

    path: str
    state: State
    version: int
    children: frozenset[str]
    #: The stamps of children that were asked for (at least of all that may end), and the time before that.
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    now: Now | None = None
    #: True: every child was asked for.
    whole: bool = False

    def left(self, holder: Holder) -> float | None:
        """Seconds that are left of a lease, or of a dead holder's lock-delay; None: it has no end, or none is known."""
        if self.now is None or (holder.lease is None and not holder.dead):
            return None
        stamp = self.stamps.get(holder.node)
        if stamp is None:
            return 0.0 if holder.dead else None
        if holder.dead:
            return holder.delay - self.now.age(stamp.made, stamp.number)
        span = stamp.span if stamp.span is not None else holder.lease or 0.0
        return span - self.now.age(stamp.renewed, stamp.transaction)

    def over(self, holder: Holder) -> bool:
        """Whether its lease has run out, or its lock-delay."""
        left = self.left(holder)
        return left is not None and left <= 0

    def lives(self, holder: Holder) -> bool:
        """Whether a grant is alive, as far as this tells."""
        if holder.dead or holder.node not in self.children:
            return False
        asked = self.whole or (self.now is not None and holder.lease is not None)
        return not (asked and holder.node not in self.stamps) and not self.over(holder)


@dataclass(slots=True)
class Told:
    """An entry of the history in the making."""

    event: str
    resource: str
    client: str
    lock_id: str
    token: int
    before: str
    after: str
    reason: str = ""
    principal: str = field(default_factory=lambda: actor().principal)


@dataclass(slots=True)
class Resource:
    """One resource of the scene, as it becomes."""

    view: View
    token: int
    holders: list[Holder]
    places: list[Place]
    children: set[str]
    known: bool
    freed: bool = False
    #: Some waiter was granted it; and those who are told of their turn.
    handed: bool = False
    called: list[Place] = field(default_factory=list)
    flagged: bool = False
    settled: State | None = None

    @property
    def uri(self) -> str:
        """The resource's name."""
        return self.view.state.uri

    def state(self) -> State:
        """What the node will hold. Waiters that may come while one is handed its grant need not flag it again."""
        if self.settled is None:
            waiting = bool(self.places) or self.flagged or (self.view.state.waiting and self.handed)
            self.settled = State(self.uri, self.token, tuple(self.holders), waiting, self.known)
        return self.settled


@dataclass(slots=True)
class Held:
    """A grant of the scene; `fresh`: since the change itself."""

    resource: str
    holder: Holder
    fresh: bool = False


class Scene:
    """What is true of some resources, and what becomes of it. Make it, act, then `settle`."""

    def __init__(self, views: Sequence[View], tag: str, mail: str = "", *, cached: bool = False) -> None:
        self.tag = tag
        self._mail = mail
        #: Identifies this attempt in the history.
        self.mark = new_mark()
        #: True when it comes from memory: it may grant and free, but never refuse.
        self.cached = cached
        self.told: list[Told] = []
        self.ops: list[Op] = []
        self.checks = False
        #: Grants that were found dead, by id: their tokens.
        self.expired: dict[str, int] = {}
        #: To be done when the change has happened, with the paths of the history's nodes.
        self.after: list[Callable[[Sequence[str], int], None]] = []
        self.resources = {view.state.uri: _resource(view) for view in views}
        for each in self.resources.values():
            self._end_expired(each)

    # ------------------------------------------------------------------ looking

    def locks(self, *, times: bool = False) -> list[Lock]:
        """Every grant, dead ones in their lock-delay too."""
        return [self._lock(each, holder, times=times) for each in self.resources.values() for holder in each.holders]

    def decide(self, request: Request, *, times: bool = False) -> Decision:
        """May the request be granted, from its place in the queue (or from behind its end)?"""
        earlier = [w for each in self.resources.values() for w in self._earlier(each, request, times=times)]
        return decide(request, self.locks(times=times), earlier)

    def repeated(self, request: Request) -> tuple[Held, ...]:
        """The grant that this very request was given already, or nothing."""
        found = repeated_grant(request, self.tag, self.locks())
        return tuple(Held(lock.resource, self._find(lock.resource, lock.id)) for lock in found)

    def held(self, lock_id: str, token: int) -> Held:
        """The grant of that id and token, alive; otherwise LockLost."""
        found = self.find(lock_id)
        if found is None:
            raise LockLost(lock_id, token, RUN_OUT if self.expired.get(lock_id) == token else NO_SUCH)
        must_own(f"lock {lock_id}", found.holder.principal)
        if found.holder.token != token:
            raise LockLost(lock_id, token, f"the token does not match: the lock has token {found.holder.token}")
        if found.holder.dead:
            raise LockLost(lock_id, token, RUN_OUT)
        return found

    def find(self, lock_id: str) -> Held | None:
        """The grant of that id."""
        return next((Held(e.uri, h) for e in self.resources.values() for h in e.holders if h.id == lock_id), None)

    def own_places(self, request: Request) -> dict[str, Place]:
        """The places of this request, by resource."""
        return {each.uri: place for each in self.resources.values() for place in each.places if place.is_of(request)}

    def number(self, places: Mapping[str, Place]) -> int:
        """The ticket of these places, which were all taken at once."""
        uri, place = next(iter(places.items()))
        return _time(self.resources[uri], place.name)[0]

    # ------------------------------------------------------------------ acting

    def grant(self, request: Request, decision: Decision, *, waited: bool = False) -> tuple[Held, ...]:
        """Nothing is in the way: hold all of it."""
        places = self.own_places(request) if waited else {}
        return tuple(
            self._enter(request, decision.entered[want.resource], want.mode, places.get(want.resource))
            if want.resource in decision.entered
            else self._grant_one(request, want.resource, want.mode, places.get(want.resource), waited=waited)
            for want in request.wants
        )

    def end(self, held: Held, event: str, reason: str = "", by: str | None = None, *, version: int = -1) -> None:
        """A grant ends: release, expire or break, as the table says. `version`: only if it was not renewed since."""
        each, holder = self.resources[held.resource], held.holder
        row = _row(holder.mode, event)
        each.holders = [other for other in each.holders if other.id != holder.id]
        each.freed = True
        if holder.node in each.children:  # Otherwise its holder ended cleanly.
            self.remove(each, holder.node, version)
        told = f"{by}: {reason}" if by else actor().reason(reason)
        # Nobody did it: what has expired is told of its owner.
        who = holder.principal if event == "expire" else actor().principal
        self.tell(Told(event, each.uri, holder.client, holder.id, holder.token, holder.mode, row.target, told, who))

    def change(
        self, held: Held, event: str, *, count: int = 0, request_id: str | None = None, owner: str | None = None,
        reason: str = "",
    ) -> Held:  # fmt: skip
        """A grant stays, with another mode, token, count or owner, as the table says."""
        each, holder = self.resources[held.resource], held.holder
        row = _row(holder.mode, event)
        if Also.NEW_TOKEN in row.also:
            each.token += 1
        new = replace(
            self._rename(each, holder) if Also.NEW_TOKEN in row.also else holder,
            mode=Mode(row.target),
            count=holder.count + count,
            request_id=request_id or holder.request_id,
            principal=holder.principal if owner is None else owner,
        )
        each.freed |= event == "downgrade"
        told = actor().reason(reason)
        self.tell(Told(event, each.uri, new.client, new.id, new.token, holder.mode, row.target, told))
        return self._replace(each, new)

    def lengthen(self, held: Held, lease: float | None) -> Held:
        """A grant has a lease of that length from now on, which begins anew; None: it is persistent."""
        each, holder = self.resources[held.resource], held.holder
        self.ops.append(Op("set", f"{each.view.path}/{holder.node}"))
        return self._replace(each, replace(holder, lease=lease))

    def renewed(self, held: Held) -> Held:
        """A grant whose lease begins anew, if it has one."""
        return held if held.holder.lease is None else self.lengthen(held, held.holder.lease)

    def _rename(self, each: Resource, holder: Holder) -> Holder:
        """A new token is a new node: a grant's node is known by its id and token."""
        since = holder.since if holder.since is not None else _time(each, holder.node)[1]
        node = lock_node(holder.id, each.token)
        self.make(each, node)
        self.remove(each, holder.node)
        return replace(holder, node=node, token=each.token, since=since)

    def leave_queue(self, request: Request) -> None:
        """The request's places are given up."""
        for uri, place in self.own_places(request).items():
            self.resources[uri].freed = True
            self._drop_place(self.resources[uri], place)

    def flag_waiting(self) -> None:
        """Let nobody be granted anything without looking at the queue."""
        for each in self.resources.values():
            each.flagged = True

    def hand_over(self) -> None:
        """Grant what became free to those whose turn it is; wake those who must take it by themselves."""
        for each in self.resources.values():
            if each.freed:
                self._hand_over(each)

    def know(self, resource: str, *, known: bool) -> None:
        """The resource is known from now on, or no longer; its token is kept."""
        self.resources[resource].known = known

    def tell(self, told: Told) -> None:
        """One more entry for the history."""
        self.told.append(told)

    def make(self, each: Resource, node: str, data: bytes = b"") -> None:
        """A child is made."""
        self.ops.append(Op("make", f"{each.view.path}/{node}", data))
        each.children.add(node)

    def remove(self, each: Resource, node: str, version: int = -1) -> None:
        """A child goes, if it has that version."""
        self.ops.append(Op("remove", f"{each.view.path}/{node}", version=version))
        each.children.discard(node)

    # ------------------------------------------------------------------ the change

    def settle(self) -> list[Op]:
        """All parts of the change, guarded by every resource's version; nothing when nothing changes."""
        states = [op for each in self.resources.values() for op in self._state_ops(each)]
        changes = states or self.ops or self.told
        if not changes and not self.checks:
            return []
        set_already = {op.path for op in states}
        guards = [
            Op("check", each.view.path, version=each.view.version)
            for each in self.resources.values()
            if each.view.path not in set_already
        ]
        return [*states, *guards, *self.ops]

    def becomes(self, each: Resource, version: int) -> View:
        """The resource as it is seen after the change."""
        return View(each.view.path, each.state(), version, frozenset(each.children))

    def cleared(self) -> list[Resource]:
        """Resources that say from now on that nobody waits: somebody may just have come."""
        return [e for e in self.resources.values() if e.view.state.waiting and not e.state().waiting]

    def _state_ops(self, each: Resource) -> list[Op]:
        state = each.state()
        if state == each.view.state and not each.called:
            return []
        data = state.encode()
        version = each.view.version
        mail = [
            Op("set", f"{self._mail}/{place.session}", write_message(place.mark, version + 1, data, each.places))
            for place in each.called
        ]
        return [Op("set", each.view.path, data, version), *mail]

    def _lock(self, each: Resource, holder: Holder, *, times: bool) -> Lock:
        since = moment(_time(each, holder.node)[1]) if times else NEVER
        return holder.lock(each.uri, since=since, left=each.view.left(holder))

    def _earlier(self, each: Resource, request: Request, *, times: bool) -> list[Waiter]:
        own = next((n for n, place in enumerate(each.places) if place.is_of(request)), len(each.places))
        return [_waiter(each, place, times=times) for place in each.places[:own]]

    def _find(self, resource: str, lock_id: str) -> Holder:
        return next(holder for holder in self.resources[resource].holders if holder.id == lock_id)

    def _end_expired(self, each: Resource) -> None:
        for holder in list(each.holders):
            if each.view.lives(holder) or (holder.dead and not each.view.over(holder)):
                continue
            if holder.delay and holder.mode is Mode.EXCLUSIVE and not holder.dead:
                self._begin_delay(each, holder)
            else:
                self.end(Held(each.uri, holder), "expire", "the lease expired", version=_version(each, holder))
                self.expired[holder.id] = holder.token

    def _begin_delay(self, each: Resource, holder: Holder) -> None:
        node = f"{DELAY}{holder.token}"
        self.make(each, node)
        if holder.node in each.children:
            self.remove(each, holder.node, _version(each, holder))
        self._replace(each, replace(holder, dead=True, node=node))

    def _replace(self, each: Resource, new: Holder) -> Held:
        each.holders = [new if other.id == new.id else other for other in each.holders]
        return Held(each.uri, new)

    def _grant_one(
        self, request: Request, resource: str, mode: Mode, place: Place | None, *, waited: bool, handed: bool = False
    ) -> Held:
        each = self.resources[resource]
        each.known = True
        each.token += 1
        lock_id = request.lock_id(self.tag, resource)
        node = lock_node(lock_id, each.token)
        holder = Holder(
            lock_id, request.client, mode, each.token, node, request.lease, 1, request.owner, request.note, request.id,
            request.lock_delay, principal=request.principal,
        )  # fmt: skip
        each.holders.append(holder)
        each.handed |= handed
        on_trial = handed and (request.lease or 0.0) > TRIAL_SECONDS
        self.make(each, node, write_span(TRIAL_SECONDS) if on_trial else b"")
        if place:
            self._drop_place(each, place)
        before = "waiting" if waited else "new"
        self.tell(
            Told("grant", resource, holder.client, lock_id, holder.token, before, mode, principal=request.principal)
        )
        return Held(resource, holder, fresh=True)

    def _enter(self, request: Request, own: Lock, wanted: Mode, place: Place | None) -> Held:
        held = Held(own.resource, self._find(own.resource, own.id))
        if place:
            self._drop_place(self.resources[own.resource], place)
        if own.request_id == request.id:
            return held
        if own.lease is not None:
            lease = None if request.lease is None else max(own.lease, request.lease)
            held = self.lengthen(held, lease)
        if own.mode is Mode.SHARED and wanted is Mode.EXCLUSIVE:
            held = self.change(held, "upgrade")
        return self.change(held, "enter", count=1, request_id=request.id)

    def _drop_place(self, each: Resource, place: Place) -> None:
        each.places.remove(place)
        self.remove(each, place.name)

    def _hand_over(self, each: Resource) -> None:
        earlier: list[Waiter] = []
        for place in list(each.places)[:MOST_HANDED]:
            request = place.request(each.uri)
            here = [self._lock(each, holder, times=False) for holder in each.holders]
            decision = decide(request, here, earlier)
            if decision.granted and place.lease is not None:
                self._grant_one(request, each.uri, place.mode, place, waited=True, handed=True)
            else:
                earlier.append(place.waiter(each.uri))
            if decision.granted:
                each.called.append(place)
            if place.mode is Mode.EXCLUSIVE:
                break


def supposed_view(path: str, state: State, version: int, names: Sequence[str]) -> View:
    """A view that supposes that every holder lives, and that knows only some of the queue."""
    return View(path, state, version, frozenset([*(holder.node for holder in state.holders), *names]))


def _resource(view: View) -> Resource:
    state = view.state
    return Resource(
        view,
        state.token,
        list(state.holders),
        read_queue(view.children, state.holders),
        set(view.children),
        state.known,
    )


def _waiter(each: Resource, place: Place, *, times: bool) -> Waiter:
    number, since = _time(each, place.name) if times else (0, 0)
    return place.waiter(each.uri, number, moment(since))


def _time(each: Resource, node: str) -> tuple[int, int]:
    """Number and time of a child."""
    if not each.view.whole:
        raise Unclear
    stamp = each.view.stamps.get(node)
    return (stamp.number, stamp.made) if stamp else (0, 0)


def _version(each: Resource, holder: Holder) -> int:
    """The version of a dead holder's node: one that was renewed since has another."""
    stamp = each.view.stamps.get(holder.node)
    return stamp.version if stamp else -1

"""Some resources as they were seen, and what is to become of them: one change, guarded by their versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from headgate.core.errors import LockLost
from headgate.core.locks import Decision, Lock, Mode, Request, Waiter, decide, repeated_grant
from headgate.core.machine import Also
from headgate.core.states import LOCK
from headgate.stores.zookeeper.multi import Op
from headgate.stores.zookeeper.records import (
    DELAY,
    NEVER,
    Holder,
    Place,
    State,
    lock_node,
    moment,
    read_queue,
    write_message,
)

#: A row of the table, found once.
_row = lru_cache(lambda state, event: LOCK.find(state, event)[0])
RUN_OUT = "its lease has run out"
NO_SUCH = "there is no such lock, and none is known to have been"
#: Waiters that are granted in one change.
MOST_HANDED = 100


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
    #: (number, since in milliseconds) of children, where they were asked for.
    times: Mapping[str, tuple[int, int]] | None = None
    #: Seconds that the lock-delay of a dead holder still runs, by its node.
    delays: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seat:
    """What a grant will live by: a session's number and its length; 0 and None: persistent."""

    session: int = 0
    lease: float | None = None


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
    #: Waiters that were granted it and keep their node, and those who are told of their turn.
    served: list[Place] = field(default_factory=list)
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
            waiting = bool(self.places) or self.flagged or (self.view.state.waiting and bool(self.served))
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

    def __init__(self, views: Sequence[View], tag: str, mark: str, mail: str = "", *, cached: bool = False) -> None:
        self.tag = tag
        self._mail = mail
        self.mark = mark
        #: True when it comes from memory: it may grant and free, but never refuse.
        self.cached = cached
        self.told: list[Told] = []
        self.ops: list[Op] = []
        self.checks = False
        #: Where the history was told of it.
        self.folder = ""
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
        if found.holder.token != token:
            raise LockLost(lock_id, token, f"the token is not that of the grant, which has {found.holder.token}")
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

    def grant(self, request: Request, decision: Decision, seat: Seat, *, waited: bool = False) -> tuple[Held, ...]:
        """Nothing is in the way: hold all of it."""
        places = self.own_places(request) if waited else {}
        return tuple(
            self._enter(request, decision.entered[want.resource], want.mode, seat, places.get(want.resource))
            if want.resource in decision.entered
            else self._grant_one(request, want.resource, want.mode, seat, places.get(want.resource), waited=waited)
            for want in request.wants
        )

    def end(self, held: Held, event: str, reason: str = "", by: str | None = None) -> None:
        """A grant ends: release, expire or break, as the table says."""
        each, holder = self.resources[held.resource], held.holder
        row = _row(holder.mode, event)
        each.holders = [other for other in each.holders if other.id != holder.id]
        each.freed = True
        if holder.node in each.children:  # Otherwise it went with its session.
            self.remove(each, holder.node)
        told = f"{by}: {reason}" if by else reason
        self.tell(Told(event, each.uri, holder.client, holder.id, holder.token, holder.mode, row.target, told))

    def change(self, held: Held, event: str, *, count: int = 0, request_id: str | None = None) -> Held:
        """A grant stays, with another mode, token or count, as the table says."""
        each, holder = self.resources[held.resource], held.holder
        row = _row(holder.mode, event)
        if Also.NEW_TOKEN in row.also:
            each.token += 1
        new = replace(
            holder,
            mode=Mode(row.target),
            token=each.token if Also.NEW_TOKEN in row.also else holder.token,
            count=holder.count + count,
            request_id=request_id or holder.request_id,
        )
        each.freed |= event == "downgrade"
        self.tell(Told(event, each.uri, new.client, new.id, new.token, holder.mode, row.target))
        return self._replace(each, new)

    def rehouse(self, held: Held, seat: Seat) -> Held:
        """A grant lives by another session, or for ever, from now on."""
        each, holder = self.resources[held.resource], held.holder
        times = each.view.times
        if times is None:
            raise Unclear
        since = holder.since if holder.since is not None else times[holder.node][1]
        node = f"{lock_node(holder.id, holder.token)}-{self.mark}"
        self.make(each, node, ephemeral=bool(seat.session))
        self.remove(each, holder.node)
        return self._replace(each, replace(holder, node=node, session=seat.session, lease=seat.lease, since=since))

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

    def make(self, each: Resource, node: str, *, ephemeral: bool) -> None:
        """A child is made."""
        self.ops.append(Op("keep" if ephemeral else "make", f"{each.view.path}/{node}"))
        each.children.add(node)

    def remove(self, each: Resource, node: str) -> None:
        """A child goes."""
        self.ops.append(Op("remove", f"{each.view.path}/{node}"))
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
        # The grant's time is that of its node.
        marks = [Op("set", f"{each.view.path}/{place.name}") for place in each.served]
        mail = [
            Op("set", f"{self._mail}/{place.session}", write_message(place.mark, version + 1, data, each.places))
            for place in each.called
        ]
        return [Op("set", each.view.path, data, version), *marks, *mail]

    def _lock(self, each: Resource, holder: Holder, *, times: bool) -> Lock:
        return holder.lock(
            each.uri, alive=not holder.dead, since=moment(_time(each, holder.node)[1]) if times else NEVER
        )

    def _earlier(self, each: Resource, request: Request, *, times: bool) -> list[Waiter]:
        own = next((n for n, place in enumerate(each.places) if place.is_of(request)), len(each.places))
        return [_waiter(each, place, times=times) for place in each.places[:own]]

    def _find(self, resource: str, lock_id: str) -> Holder:
        return next(holder for holder in self.resources[resource].holders if holder.id == lock_id)

    def _end_expired(self, each: Resource) -> None:
        for holder in list(each.holders):
            if holder.dead:
                if each.view.delays.get(holder.node, 1.0) <= 0:
                    self._expire(each, holder)
            elif holder.node not in each.children:
                if holder.delay and holder.mode is Mode.EXCLUSIVE:
                    self._begin_delay(each, holder)
                else:
                    self._expire(each, holder)

    def _expire(self, each: Resource, holder: Holder) -> None:
        self.end(Held(each.uri, holder), "expire", "the lease ran out")
        self.expired[holder.id] = holder.token

    def _begin_delay(self, each: Resource, holder: Holder) -> None:
        node = f"{DELAY}{holder.token}"
        self.make(each, node, ephemeral=False)
        self._replace(each, replace(holder, dead=True, node=node))

    def _replace(self, each: Resource, new: Holder) -> Held:
        each.holders = [new if other.id == new.id else other for other in each.holders]
        return Held(each.uri, new)

    def _grant_one(
        self, request: Request, resource: str, mode: Mode, seat: Seat, place: Place | None, *, waited: bool
    ) -> Held:
        each = self.resources[resource]
        each.known = True
        each.token += 1
        lock_id = request.lock_id(self.tag, resource)
        kept = place is not None and place.session == seat.session
        node = place.name if place and kept else lock_node(lock_id, each.token)
        holder = Holder(
            lock_id, request.client, mode, each.token, node, seat.session, seat.lease, 1, request.owner,
            request.note, request.id, request.lock_delay,
        )  # fmt: skip
        each.holders.append(holder)
        if place and kept:
            each.served.append(place)
        else:
            self.make(each, node, ephemeral=bool(seat.session))
        if place:
            self._drop_place(each, place, kept=kept)
        self.tell(Told("grant", resource, holder.client, lock_id, holder.token, "waiting" if waited else "new", mode))
        return Held(resource, holder, fresh=True)

    def _enter(self, request: Request, own: Lock, wanted: Mode, seat: Seat, place: Place | None) -> Held:
        held = Held(own.resource, self._find(own.resource, own.id))
        if place:
            self._drop_place(self.resources[own.resource], place)
        if own.request_id == request.id:
            return held
        if own.mode is Mode.SHARED and wanted is Mode.EXCLUSIVE:
            held = self.change(held, "upgrade")
        lease = held.holder.lease
        if lease is not None and (seat.lease is None or seat.lease > lease):
            held = self.rehouse(held, seat)
        return self.change(held, "enter", count=1, request_id=request.id)

    def _drop_place(self, each: Resource, place: Place, *, kept: bool = False) -> None:
        each.places.remove(place)
        if not kept:
            self.remove(each, place.name)

    def _hand_over(self, each: Resource) -> None:
        earlier: list[Waiter] = []
        for place in list(each.places)[:MOST_HANDED]:
            request = place.request(each.uri)
            here = [self._lock(each, holder, times=False) for holder in each.holders]
            decision = decide(request, here, earlier)
            if decision.granted and place.lease is not None:
                self._grant_one(request, each.uri, place.mode, Seat(place.session, place.lease), place, waited=True)
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
    if each.view.times is None:
        raise Unclear
    return each.view.times.get(node, (0, 0))

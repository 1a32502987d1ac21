"""The nodes of some resources: a snapshot is loaded from them, and changes become the operations of one multi."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from headgate.calls.actor import actor, log_override
from headgate.core.access.owners import Override
from headgate.core.locks.model import Lock, Request, delay_of, lock_id
from headgate.core.locks.rules import LockRules
from headgate.core.locks.snapshot import (
    ChangeLock,
    ConfirmLock,
    CountRefusal,
    EndLock,
    GrantLock,
    HandLock,
    JoinQueue,
    LeaveQueue,
    LengthenLease,
    LockOutcome,
    LockRecord,
    LockSnapshot,
    QueueEntry,
    ResourceSnapshot,
)
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.ensemble.multi import Op
from headgate.stores.zookeeper.guarded import new_mark
from headgate.stores.zookeeper.locks.records import (
    DELAY,
    NEVER,
    Holder,
    State,
    WaitNode,
    lock_node,
    write_message,
    write_span,
)
from headgate.stores.zookeeper.locks.views import View

#: Maximum number of waiters of one resource that are granted in one multi.
MOST_HANDED = 100


@dataclass(slots=True)
class ResourceNode:
    """The node of one resource, as it changes."""

    view: View
    holders: list[Holder]
    places: list[WaitNode]
    children: set[str]
    #: Those whose lease, and lock-delay after it, have expired.
    expired: list[Holder] = field(default_factory=list)
    #: A waiter was granted it.
    handed: bool = False
    #: Waiters that are notified.
    called: list[WaitNode] = field(default_factory=list)
    #: The future content of the node.
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.view.state

    @property
    def uri(self) -> str:
        """The resource's name."""
        return self.view.state.uri

    def settle(self, after: ResourceSnapshot) -> None:
        """Everything is applied. Waiters that arrive while another is being granted need not flag it again."""
        waiting = bool(self.places) or (self.view.state.waiting and self.handed)
        self.state = State(self.uri, after.token, tuple(self.holders), waiting, after.known)

    def version_of(self, holder: Holder) -> int:
        """The version of a holder's node when it was judged, which a renewal changes; -1: any."""
        stamp = self.view.stamps.get(holder.node)
        return stamp.version if stamp else -1


class Nodes:
    """The nodes of some resources. Create it, decide on its snapshot, `apply` the outcome, and send its operations."""

    def __init__(
        self, views: Sequence[View], tag: str, rules: LockRules, mail: str = "", wanted: Sequence[str] = ()
    ) -> None:
        self._mail = mail
        #: Identifies this attempt in the history.
        self.mark = new_mark()
        #: Operations besides those on the resources' own nodes.
        self.parts: list[Op] = []
        self.told: list[LockRecord] = []
        self.refusals: list[LockRecord] = []
        #: Ids of the locks that this change grants.
        self.granted: set[str] = set()
        #: Called when the change has taken effect, with the paths of the history nodes and the time.
        self.after: list[Callable[[Sequence[str], int], None]] = []
        self.each = {view.state.uri: ResourceNode(view, [], view.places(), set(view.children)) for view in views}
        for node in self.each.values():
            self._judge(node)
        resources = {uri: ResourceSnapshot(uri) for uri in wanted if uri not in self.each}
        resources |= {uri: _snapshot(node, tag) for uri, node in self.each.items()}
        self.snapshot = LockSnapshot(
            tag, resources, NEVER, actor=actor(), most_handed=MOST_HANDED, rules=rules
        )  # fmt: skip

    def own_places(self, request: Request) -> dict[str, WaitNode]:
        """The positions of this request, by resource."""
        return {uri: place for uri, node in self.each.items() for place in node.places if place.is_of(request)}

    def number(self, places: Mapping[str, WaitNode]) -> int:
        """The ticket of these positions, which were all taken at once."""
        uri, place = next(iter(places.items()))
        return self.each[uri].view.time(place.name)[0]

    def holder(self, lock: Lock) -> Holder:
        """The node's record of a lock, after all changes were applied."""
        return next(each for each in self.each[lock.resource].holders if each.id == lock.id)

    def missing(self, outcome: LockOutcome[Any]) -> list[str]:
        """Resources without a node that the outcome changes."""
        if len(outcome.resources) == len(self.each):
            return []
        return [uri for uri, after in outcome.resources.items() if after.known and uri not in self.each]

    # ------------------------------------------------------------------ changes

    def apply(self, outcome: LockOutcome[Any]) -> None:
        """Convert every change to operations."""
        for change in outcome.changes:
            self._APPLIED[type(change)](self, change)
        for entry in outcome.wakes:
            self.each[entry.waiter.resource].called.append(_place(entry))
        for uri, node in self.each.items():
            node.settle(outcome.resources[uri])

    def _grant(self, change: GrantLock) -> None:
        self.granted.add(change.lock.id)
        self._hold(change.lock, change.lock_delay)

    def _hand(self, change: HandLock) -> None:
        place = _place(change.entry)
        lock = replace(change.lock, note=place.note)
        self.each[lock.resource].handed = True
        # A lease shorter than the trial is used unchanged.
        trial = change.trial if lock.lease is not None and lock.lease > change.trial else None
        self._hold(lock, place.delay, b"" if trial is None else write_span(trial))

    def _confirm(self, change: ConfirmLock) -> None:
        self._lengthen(change.lock, change.lock.lease)

    def _lengthen_lease(self, change: LengthenLease) -> None:
        self._lengthen(change.lock, change.lease)

    def _change(self, change: ChangeLock) -> None:
        node, after = self.each[change.before.resource], change.after
        holder = self.holder(change.before)
        if after.token != holder.token:
            holder = self._rename(node, holder, after.token)
        self._replace(
            node,
            replace(holder, mode=after.mode, count=after.count, request_id=after.request_id, principal=after.principal),
        )

    def _end(self, change: EndLock) -> None:
        node, lock = self.each[change.lock.resource], change.lock
        holder = self.holder(lock)
        node.holders = [each for each in node.holders if each is not holder]
        if holder.node in node.children:  # Otherwise its holder ended cleanly.
            self._remove(node, holder.node, node.version_of(holder) if holder in node.expired else -1)

    def _leave(self, change: LeaveQueue) -> None:
        node, place = self.each[change.entry.waiter.resource], _place(change.entry)
        node.places.remove(place)
        self._remove(node, place.name)

    def _join(self, change: JoinQueue) -> None:
        """A position is taken in a separate change, before the next check: its number is its node's."""

    def _record(self, change: LockRecord) -> None:
        self.told.append(change)

    def _refuse(self, change: CountRefusal) -> None:
        self.refusals.append(change.record)

    def _override(self, change: Override) -> None:
        self.after.append(lambda _entries, _at: log_override(change.what, change.owner))

    #: How each kind of change is applied.
    _APPLIED: ClassVar[Mapping[type[Any], Callable[[Nodes, Any], None]]] = {
        GrantLock: _grant,
        HandLock: _hand,
        ConfirmLock: _confirm,
        LengthenLease: _lengthen_lease,
        ChangeLock: _change,
        EndLock: _end,
        LeaveQueue: _leave,
        JoinQueue: _join,
        LockRecord: _record,
        CountRefusal: _refuse,
        Override: _override,
    }

    # ------------------------------------------------------------------ the multi

    def ops(self) -> list[Op]:
        """All operations, guarded by every resource's version; nothing when nothing changes."""
        states: list[Op] = []
        for node in self.each.values():
            states += self._state_ops(node)
        if not (states or self.parts or self.told):
            return []
        written = {op.path for op in states}
        guards = [
            Op("check", node.view.path, version=node.view.version)
            for node in self.each.values()
            if node.view.path not in written
        ]
        return [*states, *guards, *self.parts]

    def becomes(self, node: ResourceNode, version: int) -> View:
        """The resource after the change."""
        return View(node.view.path, node.state, version, frozenset(node.children))

    def cleared(self) -> list[ResourceNode]:
        """Resources that from now on show that they have no waiters: one may just have arrived."""
        return [node for node in self.each.values() if node.view.state.waiting and not node.state.waiting]

    def _state_ops(self, node: ResourceNode) -> list[Op]:
        if node.state == node.view.state and not node.called:
            return []
        data, version = node.state.encode(), node.view.version
        mail = [
            Op("set", f"{self._mail}/{place.session}", write_message(place.mark, version + 1, data, node.places))
            for place in node.called
        ]
        return [Op("set", node.view.path, data, version), *mail]

    # ------------------------------------------------------------------ within

    def _judge(self, node: ResourceNode) -> None:
        """Separate the locks that count from the expired ones. A lock-delay begins when the death is noticed."""
        view = node.view
        for holder in view.state.holders:
            if view.lives(holder) or (holder.dead and not view.over(holder)):
                node.holders.append(holder)
            elif not holder.dead and delay_of(holder.mode, holder.delay):
                delayed = replace(holder, dead=True, node=f"{DELAY}{holder.token}")
                self._make(node, delayed.node)
                if holder.node in node.children:
                    self._remove(node, holder.node, node.version_of(holder))
                node.holders.append(delayed)
            else:
                node.holders.append(holder)
                node.expired.append(holder)

    def _hold(self, lock: Lock, delay: float, data: bytes = b"") -> None:
        node = self.each[lock.resource]
        holder = Holder(
            lock.id, lock.client, lock.mode, lock.token, lock_node(lock.id, lock.token), lock.lease, lock.count,
            lock.owner, lock.note, lock.request_id, delay, principal=lock.principal,
        )  # fmt: skip
        node.holders.append(holder)
        self._make(node, holder.node, data)

    def _lengthen(self, lock: Lock, lease: float | None) -> None:
        """The lease restarts: its stamp is written."""
        node, holder = self.each[lock.resource], self.holder(lock)
        self.parts.append(Op("set", f"{node.view.path}/{holder.node}"))
        self._replace(node, replace(holder, lease=lease))

    def _rename(self, node: ResourceNode, holder: Holder, token: int) -> Holder:
        """A new token needs a new node: a grant's node is named by its id and token."""
        since = holder.since if holder.since is not None else node.view.time(holder.node)[1]
        new = replace(holder, node=lock_node(holder.id, token), token=token, since=since)
        self._make(node, new.node)
        self._remove(node, holder.node)
        return new

    def _replace(self, node: ResourceNode, new: Holder) -> None:
        node.holders = [new if other.id == new.id else other for other in node.holders]

    def _make(self, node: ResourceNode, name: str, data: bytes = b"") -> None:
        self.parts.append(Op("make", f"{node.view.path}/{name}", data))
        node.children.add(name)

    def _remove(self, node: ResourceNode, name: str, version: int = -1) -> None:
        self.parts.append(Op("remove", f"{node.view.path}/{name}", version=version))
        node.children.discard(name)


def _snapshot(node: ResourceNode, tag: str) -> ResourceSnapshot:
    view, state, expired = node.view, node.view.state, node.expired
    return ResourceSnapshot(
        state.uri,
        state.token,
        state.known,
        tuple([view.lock(holder) for holder in node.holders if not (expired and holder in expired)]),
        tuple([view.lock(holder) for holder in expired]),
        tuple([_entry(place, view, tag) for place in node.places]),
    )


def _entry(place: WaitNode, view: View, tag: str) -> QueueEntry:
    """A position in the form for decisions. A position without a lease is not granted by others: the grant might
    outlive its waiter.
    """
    uri, stamp = view.state.uri, view.stamps.get(place.name)
    number, since = (stamp.number, moment(stamp.made)) if stamp else (0, NEVER)
    waiter = place.waiter(uri, number, since)
    grant_id = "" if place.lease is None else lock_id(tag, uri, place.request_id)
    return QueueEntry(
        waiter, place.request_id, lock_id=grant_id, lease=place.lease, principal=place.principal, ref=place
    )


def _place(entry: QueueEntry) -> WaitNode:
    assert isinstance(entry.ref, WaitNode)  # noqa: S101 - this store made it
    return entry.ref

"""Waiting: a position in each queue, the watch that ends the sleep, and acquiring."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.core.locks.draft import TRIAL_SECONDS, LockDraft
from headgate.core.locks.model import Lock, Request
from headgate.core.locks.snapshot import LockOutcome, LockSnapshot
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.locks.work import withdraw
from headgate.stores.zookeeper.ensemble.asking import catch_up, children, join, look, read, write
from headgate.stores.zookeeper.ensemble.clock import EPOCH_BITS, moment
from headgate.stores.zookeeper.ensemble.multi import Op, first_error, multi
from headgate.stores.zookeeper.ensemble.session import Interrupted, ZkSession, ZkSessions
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.guarded import new_mark
from headgate.stores.zookeeper.locks.mailbox import Mailbox
from headgate.stores.zookeeper.locks.nodes import Nodes, ResourceNode
from headgate.stores.zookeeper.locks.records import HandOver, Holder, WaitNode, decode_state, place_name
from headgate.stores.zookeeper.locks.transitions import Transitions
from headgate.stores.zookeeper.locks.views import View, supposed_view
from headgate.stores.zookeeper.tree import Tree, name_of
from headgate.telemetry import event

#: Seconds to wait for a grant before the blockers are read.
HAND_OVER_SECONDS = 0.2
#: The pause of a waiter that lost its position.
LOST_SECONDS = 0.05
#: Seconds after the end of a lease at which it is checked: times are whole milliseconds.
DUE_SECONDS = 0.002


@dataclass(slots=True)
class Wait:
    """A position in queues in which this process waits."""

    request: Request
    session: ZkSession
    mark: str
    #: Something has changed since the last attempt; the function to call then.
    woken: bool = False
    listener: Callable[[], None] | None = None
    #: Wait for a grant before reading the blockers.
    expects_grant: bool = True
    #: The last message to it, its time in the leader's milliseconds, and its transaction.
    message: tuple[HandOver, int, int] | None = None
    #: The leader's time when the position was taken, its transaction, and our own time just before.
    taken: tuple[int, int, float] | None = None

    def wake(self, _event: object = None) -> None:
        """Something has changed. Called by kazoo's own thread, which must not block."""
        self.woken = True
        if self.listener is not None:
            self.listener()

    def spent(self, at: int, transaction: int) -> float:
        """The maximum time in seconds since that moment of the leader; infinity if unknown."""
        if self.taken is None or self.taken[1] >> EPOCH_BITS != transaction >> EPOCH_BITS:
            return float("inf")
        leaders, _, own = self.taken
        return time.monotonic() - own - (at - leaders) / 1000


class WaitQueue:
    """The positions of this process, and how it sleeps there."""

    def __init__(self, sessions: ZkSessions, tree: Tree, transitions: Transitions) -> None:
        self._sessions = sessions
        self._tree = tree
        self._transitions = transitions
        self._waits: dict[int, Wait] = {}
        self._by_mark: dict[str, Wait] = {}
        self._boxes: dict[ZkSession, Mailbox] = {}

    # ------------------------------------------------------------------ joining

    def place_of(self, request: Request) -> Ticket | None:
        """The existing position of this request."""
        for number, wait in list(self._waits.items()):
            if (wait.request.id, wait.request.client) == (request.id, request.client):
                return Ticket(number, request)
        return None

    def find(self, request: Request) -> Ticket | None:
        """The same; it may have been taken by another process, and belongs to this one too from then on."""
        if known := self.place_of(request):
            return known
        session = self._sessions.base
        session.ask(catch_up(self._tree.root))
        views = [view for view in self._transitions.look(self.paths(request), session) if view]
        return self.adopt(request, self._transitions.nodes(self._transitions.with_times(views, session)))

    def join(self, request: Request) -> tuple[Ticket, bool]:
        """Take the last position in each queue. True: the request is blocked, and will be granted by others."""
        wait = Wait(request, self._sessions.base, new_mark())
        self._by_mark[wait.mark] = wait
        try:
            self._box(wait.session).open()
            number, views = self._take_places(wait)
        except BaseException:
            self._by_mark.pop(wait.mark, None)
            wait.session.on_return(lambda: self._clean_up(wait))
            raise
        self._waits[number] = wait
        flagged = all(view.state.waiting for view in views)
        return Ticket(number, request), flagged and not self._is_free(request, self._transitions.nodes(views))

    def adopt(self, request: Request, nodes: Nodes) -> Ticket | None:
        """The position that this request has taken before, perhaps in another process."""
        places = nodes.own_places(request)
        if len(places) < len(request.wants):
            return None
        number = nodes.number(places)
        mark = next(iter(places.values())).mark
        wait = Wait(request, self._sessions.base, mark)
        self._by_mark[mark] = self._waits[number] = wait
        return Ticket(number, request)

    def rejoin(self, ticket: Ticket) -> bool:
        """Rejoin the end of the queue after the position was lost with its session. True as for `join`: blocked."""
        before = self._waits.get(ticket.number)
        self.forget(ticket)
        new, blocked = self.join(ticket.request)
        self._waits[ticket.number] = self._waits.pop(new.number)
        if before is not None and before.listener is not None:
            self.listen(ticket, before.listener)
        return blocked

    def forget(self, ticket: Ticket) -> None:
        """No caller waits there any more."""
        wait = self._waits.pop(ticket.number, None)
        if wait is not None:
            self._by_mark.pop(wait.mark, None)

    def _take_places(self, wait: Wait) -> tuple[int, list[View]]:
        tries = Tries(self._sessions.name)
        while True:
            try:
                found = self._join_one(wait) if len(wait.request.wants) == 1 else self._join_all(wait)
            except Interrupted:
                found = self._find_places(wait)
            if found:
                return found
            tries.again("no queue position could be taken")

    def _join_one(self, wait: Wait) -> tuple[int, list[View]] | None:
        """In one trip: take the position, and read the resource."""
        want = wait.request.wants[0]
        path = self._tree.resource(want.resource)
        name = place_name(wait.request, want.mode, wait.mark, wait.session.id, wait.request.lease)
        sent = time.monotonic()
        made, got = wait.session.change(join(f"{path}/{name}"), read(path))
        if isinstance(made, Exception) or isinstance(got, Exception):
            self._transitions.make_resources([want.resource])
            return None
        node, stat = made
        wait.taken = (stat.ctime, stat.czxid, sent)
        view = supposed_view(path, decode_state(got[0], path), got[1].version, [name_of(node)])
        return int(stat.czxid), [view]

    def _join_all(self, wait: Wait) -> tuple[int, list[View]] | None:
        """All positions at once, so that the order is the same in every queue."""
        wants = wait.request.wants
        names = [place_name(wait.request, want.mode, wait.mark, wait.session.id, None) for want in wants]
        nodes = [f"{path}/{name}" for path, name in zip(self.paths(wait.request), names, strict=True)]
        results = wait.session.change(multi([Op("join", node) for node in nodes]))[0]
        if first_error(results) is not None:
            self._transitions.make_resources([want.resource for want in wants])
            return None
        return self._number_and_views(wait)

    def _find_places(self, wait: Wait) -> tuple[int, list[View]] | None:
        """The answer was lost: they are ours if they carry our mark."""
        wait.session.ask(catch_up(self._tree.root))
        return self._number_and_views(wait)

    def _number_and_views(self, wait: Wait) -> tuple[int, list[View]] | None:
        views = self._transitions.with_times(self._look(wait), wait.session)
        nodes = self._transitions.nodes(views)
        places = {uri: place for uri, place in nodes.own_places(wait.request).items() if place.mark == wait.mark}
        return (nodes.number(places), views) if len(places) == len(wait.request.wants) else None

    def _look(self, wait: Wait) -> list[View]:
        return [view for view in self._transitions.look(self.paths(wait.request), wait.session) if view]

    def _box(self, session: ZkSession) -> Mailbox:
        if session not in self._boxes:
            self._boxes[session] = Mailbox(session, self._tree.mail, self._deliver, lambda: self._wake_all(session))
        return self._boxes[session]

    def _deliver(self, message: HandOver, at: int, transaction: int) -> None:
        wait = self._by_mark.get(message.mark)
        if wait:
            wait.message = (message, at, transaction)
            wait.wake()

    def _wake_all(self, session: ZkSession) -> None:
        for wait in list(self._by_mark.values()):
            if wait.session is session:
                wait.wake()

    def paths(self, request: Request) -> list[str]:
        """The nodes of the wanted resources."""
        return [self._tree.resource(want.resource) for want in request.wants]

    def _clean_up(self, wait: Wait) -> None:
        """Positions that may have been taken while the answer was lost, and that no caller waits in."""
        if self.place_of(wait.request):
            return

        def leave(snapshot: LockSnapshot) -> LockOutcome[None]:
            entries = [entry for each in snapshot.resources.values() for entry in each.queue]
            ours = any(isinstance(entry.ref, WaitNode) and entry.ref.mark == wait.mark for entry in entries)
            return withdraw(snapshot, wait.request) if ours else LockOutcome(None, (), snapshot.resources)

        try:
            self._transitions.act(self.paths(wait.request), leave, wanted=wait.request.resources)
        except StoreUnavailable:
            wait.session.on_return(lambda: self._clean_up(wait))

    def later(self, work: Callable[[], None]) -> None:
        """The store is not reachable: do it as soon as it is, so that nothing is left behind."""
        session = self._sessions.base

        def run() -> None:
            time.sleep(LOST_SECONDS)
            if not session.closed:
                try:
                    work()
                except StoreUnavailable as error:  # The withdrawal has scheduled another try.
                    event("lock.undone_later", why=str(error))
                except HeadgateError as error:
                    event("lock.not_undone", why=str(error))

        session.on_return(run)

    # ------------------------------------------------------------------ sleeping

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        """Call `wake` when the turn may have come."""
        wait = self._waits.get(ticket.number)
        if wait is not None:
            wait.listener = wake
            if wait.woken:
                wake()

    def look(self, ticket: Ticket) -> float:
        """0: the turn may have come; else the seconds after which to check again."""
        wait = self._waits.get(ticket.number)
        if wait is None or wait.woken:
            return 0.0
        self._box(wait.session).open()
        if wait.expects_grant:
            wait.expects_grant = False
            return HAND_OVER_SECONDS
        return self._watch_obstacles(wait)

    def handed(self, ticket: Ticket) -> Granted:
        """The received grant, or nothing."""
        wait = self._waits.get(ticket.number)
        if wait is None:
            return ()
        wait.woken = False
        told, wait.message = wait.message, None
        if told is None or len(ticket.request.wants) > 1:
            return ()
        message, at, transaction = told
        path = self._tree.resource(message.state.uri)
        self._transitions.remember(supposed_view(path, message.state, message.version, message.names))
        request = ticket.request
        spent = wait.spent(at, transaction)
        asked = (request.id, request.client)
        holders = [each for each in message.state.holders if (each.request_id, each.client) == asked]
        if any(each.lease is not None and spent > min(each.lease, TRIAL_SECONDS) / 2 for each in holders):
            return ()  # The message came late: check whether it is still held.
        return tuple(self._taken_up(path, message.state.uri, each, at, spent) for each in holders)

    def _taken_up(self, path: str, resource: str, holder: Holder, at: int, spent: float) -> Lock:
        """A grant that was received. A provisional one gets its full lease by a renewal that nobody waits for."""
        if holder.lease is None:
            return holder.lock(resource, since=moment(at))
        if holder.lease > TRIAL_SECONDS:
            self._sessions.base.send(write(f"{path}/{holder.node}", b""))
        return holder.lock(resource, since=moment(at), left=min(holder.lease, TRIAL_SECONDS) - spent)

    def _watch_obstacles(self, wait: Wait) -> float:
        """Watch the blockers. Returns the maximum number of seconds to sleep; 0: nothing blocks it now."""
        views = self._transitions.judged(self._look(wait), wait.session)
        nodes = self._transitions.nodes(views)
        ended = nodes.parts or any(node.expired for node in nodes.each.values())
        if len(views) < len(wait.request.wants) or ended or self._is_free(wait.request, nodes):
            return 0.0
        for node in nodes.each.values():
            if self._watch_queue_or_holders(wait, node):
                return 0.0
        # No event reports other endings: the first waiter checks when one is due.
        ends = [left for view in views for each in view.state.holders if (left := view.left(each)) is not None]
        return max(min(ends), 0.0) + DUE_SECONDS if ends else float("inf")

    def _is_free(self, request: Request, nodes: Nodes) -> bool:
        """Whether it may be granted from its position in the queues."""
        return LockDraft(nodes.snapshot).decide(request).granted

    def _watch_queue_or_holders(self, wait: Wait, node: ResourceNode) -> bool:
        """Watch the nearest waiter in the way or, where there is none, the holders. True: one is gone."""
        mode = next(want.mode for want in wait.request.wants if want.resource == node.uri)
        path, agrees = node.view.path, self._transitions.rules.agrees
        own = next((n for n, place in enumerate(node.places) if place.is_of(wait.request)), 0)
        earlier = [place for place in node.places[:own] if not agrees(mode, [place.mode])]
        enters = wait.request.reentrant and any(each.client == wait.request.client for each in node.holders)
        if earlier and not enters:
            return wait.session.ask(look(f"{path}/{earlier[-1].name}", wait.wake))[0] is None
        mortal = [each for each in node.holders if each.lease is not None and not each.dead]
        # They have no children: watching these reports their removal, but not each renewal.
        watches = (children(f"{path}/{each.node}", wait.wake) for each in mortal if not agrees(mode, [each.mode]))
        now, *lives = wait.session.ask(read(path, wait.wake), *watches)
        gone = any(isinstance(answer, Exception) for answer in (now, *lives))
        return gone or now[1].version != node.view.version

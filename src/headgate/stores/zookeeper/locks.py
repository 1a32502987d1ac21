"""Locks in ZooKeeper: the port's methods. The quick way is one multi out of memory; all else is read first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from headgate.core.errors import LockLost, LockRefused, Refused, StoreUnavailable, UnknownName
from headgate.core.faults import Fault
from headgate.core.history import Entry
from headgate.core.locks import Lock, Mode, Request, Waiter, Want, check_lock_id, decide_upgrade, find_cycle
from headgate.core.owners import handed_reason
from headgate.stores.acting import must_own
from headgate.stores.base import Grant, HistoryFilter, LockFilter, Ticket
from headgate.stores.deadlines import within
from headgate.stores.zookeeper import store_faults
from headgate.stores.zookeeper.address import Address
from headgate.stores.zookeeper.changes import Done
from headgate.stores.zookeeper.clients import Clients
from headgate.stores.zookeeper.history import History
from headgate.stores.zookeeper.holdings import Holdings
from headgate.stores.zookeeper.losses import LossWatch
from headgate.stores.zookeeper.opening import Root
from headgate.stores.zookeeper.questions import Questions, live
from headgate.stores.zookeeper.refusals import Refusals
from headgate.stores.zookeeper.scene import Held, Scene, Stale
from headgate.stores.zookeeper.session import Sessions
from headgate.stores.zookeeper.tenure import Tenure
from headgate.stores.zookeeper.transitions import Transitions, told_lock
from headgate.stores.zookeeper.waiting import Queue

GONE = "It may have been released; list locks with: headgate lock list"
Outcome = tuple[Held, ...] | LockRefused
T = TypeVar("T")


class ZookeeperLocks:
    """Locks, queues, clients, resources and history in one ZooKeeper ensemble."""

    sleeps_in_turn = False

    def __init__(self, address: Address, sessions: Sessions, root: Root) -> None:
        self.name = address.name
        self.tag = tag = root.tag
        self._sessions = sessions
        self._tree = tree = address.tree
        self._history = History(sessions, tree, tag)
        self._transitions = Transitions(sessions, tree, self._history, tag)
        self._transitions.token_base = root.token_base
        self._refusals = Refusals(sessions, tree, self._history)
        self._questions = Questions(sessions, tree, self._transitions)
        self._clients = Clients(sessions, tree, self._questions)
        self._queue = Queue(sessions, tree, self._transitions, tag)
        self._holdings = Holdings()
        self._transitions.knows_alive = lambda holder: self._holdings.left(holder.id, holder.token) > 0
        self._tenure = Tenure(sessions, tree, self._transitions, self._questions, self._history, self._holdings)
        #: Requests whose outcome is unknown, and that are given up when the server is heard again.
        self._abandoned: set[str] = set()
        #: What the other nouns of the store are built on.
        self.clock, self.questions, self.told = self._transitions.clock, self._questions, self._history

    # ------------------------------------------------------------------ asking

    def acquire(self, request: Request) -> Grant:
        with self._asking(request):
            return self._outcome(self._ask_for(request, self._or_refuse))

    def queue_up(self, request: Request) -> Grant | Ticket:
        with self._asking(request):
            return self._queue_up(request)

    def _queue_up(self, request: Request) -> Grant | Ticket:
        if ticket := self._queue.place_of(request):
            return ticket
        if not self._seems_busy(request):
            adopted: Ticket | None = None

            def or_adopt(scene: Scene, request: Request) -> Outcome:
                nonlocal adopted
                adopted = self._queue.adopt(request, scene)
                return ()

            if grant := self._outcome(self._ask_for(request, or_adopt)):
                return grant
            if adopted:
                return adopted
        ticket, blocked = self._queue.join(request)
        try:
            return ticket if blocked else self.take_turn(ticket) or ticket
        except BaseException:
            self._queue.forget(ticket)
            self._queue.later(lambda: self.withdraw(ticket))
            raise

    def place_of(self, request: Request) -> Ticket | None:
        return self._queue.find(request)

    def await_turn(self, ticket: Ticket, seconds: float) -> None:
        with within(max(seconds, self._sessions.answer_within)):
            self._queue.sleep(ticket, seconds)

    def take_turn(self, ticket: Ticket) -> Grant | None:
        with within(self._sessions.answer_within):
            sent = time.monotonic()
            grant = self._queue.handed(ticket)
            if grant:
                self._holdings.note(grant, sent, own=not ticket.request.outlives)
            else:
                grant = self._take_turn(ticket)
        if grant:
            self._queue.forget(ticket)
        return grant or None

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        del tickets  # A place lives as long as its session.

    def give_up(self, ticket: Ticket) -> Grant:
        with within(self._sessions.answer_within):
            return self._give_up(ticket)

    def _give_up(self, ticket: Ticket) -> Grant:
        request = ticket.request
        done = self._ask_for(request, self._or_leave, waited=True)
        self._queue.forget(ticket)
        if isinstance(done.result, LockRefused):
            blockers = done.result.blockers
            waits_for = self._questions.waits_for()
            waits_for.setdefault(request.client, []).extend(blocker.client for blocker in blockers)
            raise LockRefused(request, blockers, find_cycle(request.client, waits_for))
        return self._outcome(done)

    def withdraw(self, ticket: Ticket) -> None:
        def work(scene: Scene) -> None:
            for held in scene.repeated(ticket.request):
                scene.end(held, "release")
            scene.leave_queue(ticket.request)
            scene.hand_over()

        self._queue.forget(ticket)
        try:
            with within(self._sessions.answer_within):
                self._transitions.act(self._queue.paths(ticket.request), work)
        except BaseException:
            self._queue.later(lambda: self.withdraw(ticket))
            raise
        for want in ticket.request.wants:
            self._holdings.forget(ticket.request.lock_id(self.tag, want.resource))

    # ------------------------------------------------------------------ holding

    def release(self, lock_id: str, token: int) -> None:
        several = False

        def work(scene: Scene) -> None:
            nonlocal several
            held = scene.held(lock_id, token)
            if scene.cached and not self._suffices_to_end(scene, held):
                raise Stale
            several = held.holder.count > 1
            if several:
                scene.change(held, "leave", count=-1)
            else:
                scene.end(held, "release")
            scene.hand_over()

        self._change(lock_id, work, quick=True)
        if not several:
            self._holdings.forget(lock_id)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        """Held and alive: its stamp is written anew, by whichever process."""
        check_lock_id(lock_id, self.tag, self.name)
        with within(self._sessions.answer_within):
            sent = time.monotonic()
            lock = self._tenure.renew(lock_id, token)
            if lease is not None and lock.lease not in (None, lease):
                lock = self._lengthen(lock_id, token, lease)
            self._holdings.note([lock], sent)
            return lock

    def check(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        with within(self._sessions.answer_within):
            return self._tenure.check(lock_id, token)

    def upgrade(self, lock_id: str, token: int) -> Lock:
        def work(scene: Scene) -> Outcome:
            held = scene.held(lock_id, token)
            lock = held.holder.lock(held.resource)
            if not decide_upgrade(lock, scene.locks()):
                return (scene.change(held, "upgrade"),)
            # Refused by the table before it is refused by others, as everywhere.
            blockers = decide_upgrade(lock, scene.locks(times=True))
            request = Request(lock.request_id, lock.client, (Want(lock.resource, Mode.EXCLUSIVE),), lock.lease)
            self._refusals.add(scene, request, blockers)
            return LockRefused(request, blockers)

        sent = time.monotonic()
        (lock,) = self._outcome(self._change(lock_id, work))
        self._holdings.note([lock], sent)  # By another token.
        return lock

    def downgrade(self, lock_id: str, token: int) -> Lock:
        def work(scene: Scene) -> Outcome:
            held = scene.change(scene.held(lock_id, token), "downgrade")
            scene.hand_over()
            return (held,)

        return self._outcome(self._change(lock_id, work))[0]

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        def work(scene: Scene) -> Outcome:
            held = scene.find(lock_id)
            if held is None or held.holder.dead:
                raise UnknownName("lock", lock_id, GONE)
            before = held.holder.principal
            must_own(f"lock {lock_id}", before)
            return (scene.change(held, "hand-over", owner=to, reason=handed_reason(before, to, reason)),)

        (lock,) = self._outcome(self._change(lock_id, work))
        self._holdings.forget(lock_id)
        return lock

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        watch = LossWatch(self._sessions, self._tree, lock, lost, self.check)
        watch.begin()
        return watch.end

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        def work(scene: Scene) -> Lock:
            held = scene.find(lock_id)
            if held is None or held.holder.dead:
                raise UnknownName("lock", lock_id, GONE)
            lock = next(each for each in scene.locks(times=True) if each.id == lock_id)
            scene.end(held, "break", reason, by)
            scene.hand_over()
            return lock

        check_lock_id(lock_id, self.tag, self.name)
        return self._transitions.act([self._tree.of_lock(lock_id)], work).result

    # ------------------------------------------------------------------ looking

    def get(self, lock_id: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        views = self._transitions.with_times(self._questions.views([self._tree.of_lock(lock_id)]), self._sessions.base)
        for view in views:
            for holder in live(view):
                if holder.id == lock_id:
                    return told_lock(view, holder, view.state.uri)
        raise UnknownName("lock", lock_id, GONE)

    def list(self, which: LockFilter) -> Sequence[Lock]:
        return self._questions.locks(which)

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        return self._questions.summary()

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        return self._questions.waiters(resource)

    def expire(self, limit: int = 1000) -> int:
        def work(scene: Scene) -> int:
            scene.hand_over()
            return len(scene.expired)

        return sum(self._transitions.act([path], work).result for path in self._questions.expired(limit))

    def history(self, which: HistoryFilter) -> Sequence[Entry]:
        return self._history.ask(which)

    # ------------------------------------------------------------------ names

    def register_client(self, client: str) -> datetime:
        return self._clients.register(client)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        return self._clients.all()

    def forget_client(self, client: str) -> None:
        self._clients.forget(client)

    def register_resource(self, resource: str) -> None:
        def work(scene: Scene) -> None:
            self._need(scene, (resource,))
            scene.know(resource, known=True)

        self._transitions.act([self._tree.resource(resource)], work)

    def resources(self) -> Sequence[str]:
        return self._questions.resources()

    def forget_resource(self, resource: str) -> None:
        def work(scene: Scene) -> None:
            each = scene.resources.get(resource)
            if each is None or not each.view.state.known:
                raise UnknownName("resource", resource)
            if any(not holder.dead for holder in each.holders) or each.places:
                raise Refused(f"resource {resource!r} is held or has waiters; release it first")
            scene.know(resource, known=False)

        self._transitions.act([self._tree.resource(resource)], work)

    def faults(self) -> Sequence[Fault]:
        return store_faults.faults(self._sessions, self._tree, self.name)

    def repair(self, fault: Fault, who: str) -> bool:
        del who  # A node that every store has is no event of its history.
        return store_faults.repair(self._sessions, self._tree, fault)

    def close(self) -> None:
        """Release the leased locks of this process, and end its sessions."""
        self._tenure.end_own()
        self._sessions.close()

    # ------------------------------------------------------------------ within

    def _ask_for(
        self, request: Request, otherwise: Callable[[Scene, Request], Outcome], *, waited: bool = False
    ) -> Done[Outcome]:
        """Grant it, or do otherwise."""
        sent = time.monotonic()

        def work(scene: Scene) -> Outcome:
            self._need(scene, [want.resource for want in request.wants])
            if scene.cached and not self._suffices(scene, request, waited=waited):
                raise Stale
            if repeated := scene.repeated(request):
                scene.leave_queue(request)
                return tuple(scene.renewed(held) for held in repeated)
            decision = scene.decide(request)
            if not decision.granted and scene.cached:
                raise Stale
            result = scene.grant(request, decision, waited=waited) if decision.granted else otherwise(scene, request)
            scene.hand_over()
            return result

        done = self._transitions.act(self._queue.paths(request), work, quick=not request.reentrant)
        if request.lease is not None and isinstance(done.result, tuple):
            locks = [held.holder.lock(held.resource) for held in done.result]
            self._holdings.note(locks, sent, own=not request.outlives)
        return done

    def _suffices(self, scene: Scene, request: Request, *, waited: bool) -> bool:
        """Whether memory is enough to grant: nobody waits, or it knows of our own place among those who do."""
        if waited:
            return len(scene.own_places(request)) == len(request.wants)
        return not any(each.view.state.waiting for each in scene.resources.values())

    def _suffices_to_end(self, scene: Scene, held: Held) -> bool:
        """Whether memory is enough to free it: it is alive for certain, and whoever waits is known."""
        holder = held.holder
        if holder.lease is not None and not self._holdings.left(holder.id, holder.token):
            return False
        return not any(each.view.state.waiting and not each.places for each in scene.resources.values())

    def _or_refuse(self, scene: Scene, request: Request) -> Outcome:
        blockers = scene.decide(request, times=True).blockers
        self._refusals.add(scene, request, blockers)
        return LockRefused(request, blockers)

    def _or_leave(self, scene: Scene, request: Request) -> Outcome:
        blockers = scene.decide(request, times=True).blockers
        self._refusals.add(scene, request, blockers, before="waiting")
        scene.leave_queue(request)
        return LockRefused(request, blockers)

    def _take_turn(self, ticket: Ticket) -> Grant:
        lost = False

        def or_wait(scene: Scene, request: Request) -> Outcome:
            nonlocal lost
            lost = len(scene.own_places(request)) < len(request.wants)
            if lost:
                scene.leave_queue(request)
            else:
                scene.flag_waiting()
            return ()

        done = self._ask_for(ticket.request, or_wait, waited=True)
        if lost and not done.result and not self._queue.rejoin(ticket):
            done = self._ask_for(ticket.request, or_wait, waited=True)
        return self._outcome(done)

    def _seems_busy(self, request: Request) -> bool:
        """As far as this process remembers: a single resource that others hold or wait for."""
        if len(request.wants) > 1 or request.reentrant:
            return False
        view = self._transitions.recall(self._queue.paths(request)[0])
        return view is not None and view.state.waiting

    def _need(self, scene: Scene, resources: Sequence[str]) -> None:
        missing = [resource for resource in resources if resource not in scene.resources]
        if missing:
            self._transitions.make_resources(missing)
            raise Stale

    @contextmanager
    def _asking(self, request: Request) -> Iterator[None]:
        """One call for locks: it is answered in time, and what it may have left behind is given up later.

        A caller that named the request itself asks again by that id; nobody else knows of what it may have been given.
        """
        self._abandoned.discard(request.id)
        try:
            with within(self._sessions.answer_within):
                yield
        except StoreUnavailable as error:
            error.request_id = request.id
            if request.fresh and error.outcome != "none":
                self._abandoned.add(request.id)
                self._queue.later(lambda: self._abandon(request))
            raise

    def _abandon(self, request: Request) -> None:
        if request.id in self._abandoned:
            self.withdraw(Ticket(0, request))
            self._abandoned.discard(request.id)

    def _change(self, lock_id: str, work: Callable[[Scene], T], *, quick: bool = False) -> Done[T]:
        check_lock_id(lock_id, self.tag, self.name)
        with within(self._sessions.answer_within):
            try:
                return self._transitions.act([self._tree.of_lock(lock_id)], work, quick=quick)
            except LockLost as error:
                self._holdings.forget(lock_id)
                raise self._tenure.explained(error) from None

    def _lengthen(self, lock_id: str, token: int, lease: float) -> Lock:
        def work(scene: Scene) -> Outcome:
            return (scene.lengthen(scene.held(lock_id, token), lease),)

        return self._outcome(self._change(lock_id, work))[0]

    def _outcome(self, done: Done[Outcome]) -> Grant:
        if isinstance(done.result, LockRefused):
            raise done.result
        return self._transitions.tell_locks(done, done.result)

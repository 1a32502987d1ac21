"""Locks in ZooKeeper: the port's methods. The fast path is one multi from cached data; all else is read first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TypeVar

from headgate.calls.deadlines import within
from headgate.core.errors import LockLost, LockRefused, StoreUnavailable
from headgate.core.faults import Fault
from headgate.core.filters import LockFilter
from headgate.core.locks import work as lock_work
from headgate.core.locks.decisions import find_cycle
from headgate.core.locks.model import Lock, Mode, Request, Waiter
from headgate.core.locks.parsing import check_lock_id
from headgate.core.locks.snapshot import LockOutcome, LockSnapshot
from headgate.core.locks.tickets import Granted, Ticket
from headgate.core.locks.work import MustWait
from headgate.stores.zookeeper.address import Address
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.history.store import NodeHistory
from headgate.stores.zookeeper.locks import faults as store_faults
from headgate.stores.zookeeper.locks.clients import Clients
from headgate.stores.zookeeper.locks.holdings import Holdings
from headgate.stores.zookeeper.locks.losses import LossWatch
from headgate.stores.zookeeper.locks.nodes import Nodes
from headgate.stores.zookeeper.locks.questions import Questions, live
from headgate.stores.zookeeper.locks.refusals import Refusals
from headgate.stores.zookeeper.locks.tenure import Tenure
from headgate.stores.zookeeper.locks.transitions import Acted, Decide, Transitions, Trust
from headgate.stores.zookeeper.locks.waiting import WaitQueue
from headgate.stores.zookeeper.opening import RootNode

T = TypeVar("T")
Unit = Callable[[LockSnapshot, Request], LockOutcome[T]]


def _is_refusal(result: object) -> bool:
    return isinstance(result, LockRefused)


def _is_known(result: object) -> bool:
    """Whether a request that must wait already has its positions."""
    return isinstance(result, MustWait) and result.number is not None


class ZookeeperLocks:
    """Locks, queues, clients, resources and history in one ZooKeeper ensemble."""

    def __init__(self, address: Address, sessions: ZkSessions, root: RootNode) -> None:
        self.name = address.name
        self.tag = tag = root.tag
        self.rules = sessions.options.lock_rules
        self._sessions = sessions
        self._tree = tree = address.tree
        self._history = NodeHistory(sessions, tree, tag)
        refusals = Refusals(sessions, tree, self._history)
        self._transitions = Transitions(sessions, tree, self._history, refusals, tag, self.rules)
        self._transitions.token_base = root.token_base
        self._questions = Questions(sessions, tree, self._transitions)
        self._clients = Clients(sessions, tree, self._questions)
        self._queue = WaitQueue(sessions, tree, self._transitions)
        self._holdings = Holdings()
        self._transitions.knows_alive = lambda holder: self._holdings.left(holder.id, holder.token) > 0
        self._tenure = Tenure(sessions, tree, self._transitions, self._questions, self._history, self._holdings)
        #: Requests with an unknown outcome, which are given up when the server is connected again.
        self._abandoned: set[str] = set()
        #: The base of the store's other nouns.
        self.clock, self.questions, self.told = self._transitions.clock, self._questions, self._history

    # ------------------------------------------------------------------ asking

    def acquire(self, request: Request) -> Granted:
        with self._asking(request):
            return self._outcome(self._ask_for(request, lock_work.acquire))

    def queue_up(self, request: Request) -> Granted | Ticket:
        with self._asking(request):
            return self._queue_up(request)

    def _queue_up(self, request: Request) -> Granted | Ticket:
        if ticket := self._queue.place_of(request):
            return ticket
        if not self._seems_busy(request):
            done = self._ask_for(request, _try_now, times=_is_known)
            if not isinstance(done.result, MustWait):
                return self._outcome(done)
            if adopted := self._queue.adopt(request, done.nodes) if _is_known(done.result) else None:
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

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        self._queue.listen(ticket, wake)

    def look(self, ticket: Ticket) -> float:
        with within(self._sessions.answer_within):
            return self._queue.look(ticket)

    def take_turn(self, ticket: Ticket) -> Granted | None:
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
        del tickets  # A position lives as long as its session.

    def give_up(self, ticket: Ticket) -> Granted:
        request = ticket.request
        with within(self._sessions.answer_within):
            done = self._ask_for(request, lock_work.give_up, waited=True)
            self._queue.forget(ticket)
            if isinstance(done.result, LockRefused):
                blockers = done.result.blockers
                waits_for = self._questions.waits_for()
                waits_for.setdefault(request.client, []).extend(blocker.client for blocker in blockers)
                raise LockRefused(request, blockers, find_cycle(request.client, waits_for))
            return self._outcome(done)

    def withdraw(self, ticket: Ticket) -> None:
        request = ticket.request
        self._queue.forget(ticket)
        try:
            with within(self._sessions.answer_within):
                withdraw = partial(lock_work.withdraw, request=request)
                self._transitions.act(self._queue.paths(request), withdraw, wanted=request.resources)
        except BaseException:
            self._queue.later(lambda: self.withdraw(ticket))
            raise
        for resource in request.resources:
            self._holdings.forget(request.lock_id(self.tag, resource))

    # ------------------------------------------------------------------ holding

    def release(self, lock_id: str, token: int) -> None:
        release = partial(lock_work.release, lock_id=lock_id, token=token)
        acted = self._change(lock_id, release, trust=lambda nodes: self._suffices_to_end(nodes, lock_id))
        if not any(each.id == lock_id for node in acted.nodes.each.values() for each in node.holders):
            self._holdings.forget(lock_id)

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        """Renew a live lock, from any process: its stamp is rewritten."""
        check_lock_id(lock_id, self.tag, self.name)
        with within(self._sessions.answer_within):
            sent = time.monotonic()
            lock = self._tenure.renew(lock_id, token)
            if lease is not None and lock.lease not in (None, lease):
                lock = self._told(
                    self._change(lock_id, partial(lock_work.renew, lock_id=lock_id, token=token, lease=lease))
                )
            self._holdings.note([lock], sent)
            return lock

    def check(self, lock_id: str, token: int) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        with within(self._sessions.answer_within):
            return self._tenure.check(lock_id, token)

    def upgrade(self, lock_id: str, token: int) -> Lock:
        sent = time.monotonic()
        lock = self._told(self._change(lock_id, partial(lock_work.upgrade, lock_id=lock_id, token=token)))
        self._holdings.note([lock], sent)  # By another token.
        return lock

    def downgrade(self, lock_id: str, token: int) -> Lock:
        return self._told(self._change(lock_id, partial(lock_work.downgrade, lock_id=lock_id, token=token)))

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        hand_over = partial(lock_work.hand_over, lock_id=lock_id, to=to, reason=reason)
        lock = self._told(self._change(lock_id, hand_over))
        self._holdings.forget(lock_id)
        return lock

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        watch = LossWatch(self._sessions, self._tree, lock, lost, self.check)
        watch.begin()
        return watch.end

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        break_lock = partial(lock_work.break_lock, lock_id=lock_id, reason=reason, by=by)
        return self._transitions.act([self._tree.of_lock(lock_id)], break_lock, times=lambda _: True).result

    # ------------------------------------------------------------------ looking

    def get(self, lock_id: str) -> Lock:
        check_lock_id(lock_id, self.tag, self.name)
        views = self._transitions.with_times(self._questions.views([self._tree.of_lock(lock_id)]), self._sessions.base)
        for view in views:
            for holder in live(view):
                if holder.id == lock_id:
                    return view.lock(holder)
        raise lock_work.unknown_lock(lock_id)

    def list(self, which: LockFilter) -> Sequence[Lock]:
        return self._questions.locks(which)

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        return self._questions.summary()

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        return self._questions.waiters(resource)

    def expire(self, limit: int = 1000) -> int:
        return sum(self._transitions.act([path], lock_work.expire).result for path in self._questions.expired(limit))

    # ------------------------------------------------------------------ names

    def register_client(self, client: str) -> datetime:
        return self._clients.register(client)

    def clients(self) -> Sequence[tuple[str, datetime]]:
        return self._clients.all()

    def forget_client(self, client: str) -> None:
        self._clients.forget(client)

    def register_resource(self, resource: str) -> None:
        self._transitions.act([self._tree.resource(resource)], lock_work.register, wanted=[resource])

    def resources(self) -> Sequence[str]:
        return self._questions.resources()

    def forget_resource(self, resource: str) -> None:
        forget = partial(lock_work.forget, resource=resource)
        self._transitions.act([self._tree.resource(resource)], forget, wanted=[resource])

    def faults(self) -> Sequence[Fault]:
        return store_faults.faults(self._sessions, self._tree, self.name)

    def repair(self, fault: Fault, who: str) -> bool:
        del who  # A node that every store has is not part of its history.
        return store_faults.repair(self._sessions, self._tree, fault)

    def close(self) -> None:
        """Release the leased locks of this process, and end its sessions."""
        self._tenure.end_own()
        self._sessions.close()

    # ------------------------------------------------------------------ within

    def _ask_for(
        self, request: Request, unit: Unit[T], *, waited: bool = False, times: Callable[[object], bool] = _is_refusal
    ) -> Acted[T]:
        """Let the core decide about a request, from cached data first, and note the grant."""
        sent = time.monotonic()
        acted = self._transitions.act(
            self._queue.paths(request),
            lambda snapshot: unit(snapshot, request),
            wanted=request.resources,
            trust=None if request.reentrant else lambda nodes: self._suffices(nodes, request, waited=waited),
            times=times,
        )
        if request.lease is not None and isinstance(acted.result, tuple):
            self._holdings.note(acted.result, sent, own=not request.outlives)
        return acted

    def _suffices(self, nodes: Nodes, request: Request, *, waited: bool) -> bool:
        """Whether cached data is enough to grant: there are no waiters, or it includes our own position among them."""
        if waited:
            return len(nodes.own_places(request)) == len(request.wants)
        return not any(node.view.state.waiting for node in nodes.each.values())

    def _suffices_to_end(self, nodes: Nodes, lock_id: str) -> bool:
        """Whether cached data is enough to release: the lock is certainly alive, and all waiters are known."""
        for node in nodes.each.values():
            if node.view.state.waiting and not node.places:
                return False
            for each in node.holders:
                if each.id == lock_id and each.lease is not None and not self._holdings.left(each.id, each.token):
                    return False
        return True

    def _take_turn(self, ticket: Ticket) -> Granted:
        acted = self._ask_for(ticket.request, lock_work.take_turn, waited=True)
        if acted.result == MustWait() and not self._queue.rejoin(ticket):
            acted = self._ask_for(ticket.request, lock_work.take_turn, waited=True)
        return () if isinstance(acted.result, MustWait) else self._outcome(acted)

    def _seems_busy(self, request: Request) -> bool:
        """As far as this process knows: a single resource that others hold or wait for."""
        if len(request.wants) > 1 or request.reentrant:
            return False
        view = self._transitions.recall(self._queue.paths(request)[0])
        return view is not None and view.state.waiting

    @contextmanager
    def _asking(self, request: Request) -> Iterator[None]:
        """One call for locks: it is answered in time, and what it may have left behind is given up later.

        A caller that named the request itself retries with that id; otherwise nobody knows what it may have been
        granted.
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

    def _change(self, lock_id: str, decide: Decide[T], *, trust: Trust | None = None) -> Acted[T]:
        check_lock_id(lock_id, self.tag, self.name)
        with within(self._sessions.answer_within):
            try:
                return self._transitions.act([self._tree.of_lock(lock_id)], decide, trust=trust)
            except LockLost as error:
                self._holdings.forget(lock_id)
                raise self._tenure.explained(error) from None

    def _told(self, acted: Acted[Lock] | Acted[Lock | LockRefused]) -> Lock:
        """The lock after a change, with its times; a refusal is raised."""
        if isinstance(acted.result, LockRefused):
            raise acted.result
        return self._transitions.show_locks(acted, [acted.result])[0]

    def _outcome(self, acted: Acted[Granted | LockRefused] | Acted[Granted | MustWait]) -> Granted:
        """The grant, with its times; a refusal is raised."""
        if isinstance(acted.result, LockRefused):
            raise acted.result
        return () if isinstance(acted.result, MustWait) else self._transitions.show_locks(acted, acted.result)


def _try_now(snapshot: LockSnapshot, request: Request) -> LockOutcome[Granted | MustWait]:
    """Grant it now, or change nothing: a position is taken in a separate change, before the next check."""
    outcome = lock_work.queue_up(snapshot, request)
    return outcome if isinstance(outcome.result, tuple) else LockOutcome(outcome.result, (), snapshot.resources)
